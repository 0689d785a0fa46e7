package demo

import (
	"crypto/sha256"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
)

// A ledger is what the stock must look like in the end, by the orders that
// were published. It needs about 100 bytes an order.
type ledger struct {
	units  map[string]int64    // taken, by article
	orders map[string][16]byte // invoice → hash of its JSON
}

func newLedger() *ledger {
	return &ledger{units: map[string]int64{}, orders: map[string][16]byte{}}
}

// What an order is to those before it.
type novelty int

const (
	isNew      novelty = iota
	isCopy             // same invoice, same bytes
	isConflict         // same invoice, other bytes
)

// enter books the order when it is new, and returns the articles that no order
// before had.
func (l *ledger) enter(o *orders.Order, text []byte) (n novelty, articles []string) {
	sum := sha256.Sum256(text)
	hash := [16]byte(sum[:])
	if first, ok := l.orders[o.Invoice]; ok {
		if first == hash {
			return isCopy, nil
		}
		return isConflict, nil
	}
	l.orders[o.Invoice] = hash
	for _, u := range o.Units() {
		if _, ok := l.units[u.SKU]; !ok {
			articles = append(articles, u.SKU)
		}
		l.units[u.SKU] += u.Quantity
	}
	return isNew, articles
}

func (l *ledger) total() int64 {
	var n int64
	for _, u := range l.units {
		n += u
	}
	return n
}
