package orders

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Made makes up orders of a small shop: the same for the same seed.
type Made struct {
	random *rand.Rand
	n      int
	next   int
	clock  time.Time
}

const (
	madeArticles = 300
	// madeCancelled is how many of a thousand orders give goods back.
	madeCancelled = 20
)

// NewMade makes n orders.
func NewMade(n int, seed uint64) *Made {
	return &Made{
		random: rand.New(rand.NewPCG(seed, 0x79656b626172)),
		n:      n,
		clock:  time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC),
	}
}

type madeOrder struct {
	Invoice string     `json:"invoice"`
	Time    time.Time  `json:"time"`
	Country string     `json:"country"`
	Lines   []madeLine `json:"lines"`
}

type madeLine struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
	Price    string `json:"price"`
}

// Next implements Source.
func (m *Made) Next() (*Order, []byte, error) {
	if m.next == m.n {
		return nil, nil, io.EOF
	}
	m.next++
	m.clock = m.clock.Add(time.Duration(1+m.random.IntN(180)) * time.Second)
	country := [...]string{"Iran", "Germany", "France", "Ireland", "Spain", "Japan"}[m.random.IntN(6)]
	o := madeOrder{Invoice: fmt.Sprintf("R%06d", m.next), Time: m.clock, Country: country}
	sign := int64(1)
	if m.random.IntN(1000) < madeCancelled {
		o.Invoice, sign = "C"+o.Invoice[1:], -1
	}
	for range 1 + m.random.IntN(8) {
		article := m.article()
		o.Lines = append(o.Lines, madeLine{
			SKU:      fmt.Sprintf("%05d", 20000+7*article),
			Quantity: sign * m.quantity(),
			Price:    fmt.Sprintf("%d.%02d", article%30, (article*37)%100),
		})
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, nil, fmt.Errorf("make an order up: %w", err)
	}
	order, err := Parse(text)
	return order, text, err
}

// article prefers some to others, as buyers do: a few are in many orders.
func (m *Made) article() int {
	f := m.random.Float64()
	return int(f * f * madeArticles)
}

// quantity is mostly small, and now and then a dealer's.
func (m *Made) quantity() int64 {
	if m.random.IntN(20) == 0 {
		return int64(12 * (1 + m.random.IntN(12)))
	}
	return int64(1 + m.random.IntN(6))
}
