package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
)

const (
	// A part of the input is stocked with one statement, then published.
	partOrders = 64
	partBytes  = 1 << 20
	// farthest is after how many messages at the most a copy follows.
	farthest = 200
	// highWater is how far the shop may be ahead of the workers.
	highWater = 50_000
	// maxReported is how many bad lines are shown; all are counted.
	maxReported = 20
)

// A shop publishes orders, some twice, and books them in the ledger.
type shop struct {
	source     orders.Source
	duplicates float64 // percent
	random     *rand.Rand
	channel    *channel
	ledger     *ledger
	stock      func(ctx context.Context, articles []string) error
	complain   func(format string, args ...any)
	ahead      func() uint64 // published, not delivered yet
	spool      string        // directory for orders that conflict with earlier ones

	copies           []outgoing   // that follow later
	orders, messages atomic.Int64 // published
	twice            int64        // published a second time
	badLines         int
	conflicts        int // orders with another one's invoice number
}

type outgoing struct {
	invoice string
	text    []byte
	due     int64 // number of the message after which it follows
}

// run publishes until the source ends. What conflicts with an earlier order is
// left for publishConflicts.
func (s *shop) run(ctx context.Context) error {
	conflicts, err := os.Create(s.spoolFile())
	if err != nil {
		return fmt.Errorf("keep orders with an invoice number that was used before: %w", err)
	}
	defer conflicts.Close()
	for {
		part, articles, err := s.part(conflicts)
		if len(articles) > 0 {
			if err := s.stock(ctx, articles); err != nil {
				return err
			}
		}
		for _, o := range part {
			if err := s.publish(ctx, o); err != nil {
				return err
			}
			if s.random.Float64()*100 < s.duplicates {
				// Half of the copies follow at once, so that two workers have
				// them at the same moment.
				o.due = s.messages.Load() + int64(s.random.IntN(2)*s.random.IntN(farthest))
				s.copies = append(s.copies, o)
			}
			if err := s.publishDue(ctx, s.messages.Load()); err != nil {
				return err
			}
		}
		s.orders.Store(int64(len(s.ledger.orders)))
		switch {
		case errors.Is(err, io.EOF):
			if err := s.publishDue(ctx, math.MaxInt64); err != nil {
				return err
			}
			if err := conflicts.Close(); err != nil {
				return fmt.Errorf("keep orders with an invoice number that was used before: %w", err)
			}
			return s.channel.confirmed(ctx)
		case err != nil:
			return err
		}
	}
}

// part reads some orders; io.EOF or an error may come with the last of them.
func (s *shop) part(conflicts io.Writer) (part []outgoing, articles []string, err error) {
	size := 0
	for len(part) < partOrders && size < partBytes {
		o, text, err := s.source.Next()
		var line *orders.LineError
		switch {
		case errors.As(err, &line):
			s.bad(line)
			continue
		case errors.Is(err, io.EOF):
			return part, articles, err
		case err != nil:
			// What was read before it is an order; what follows is unknown.
			s.bad(err)
			return part, articles, io.EOF
		}
		if most := s.channel.conn.MaxPayload() - 1024; int64(len(text)) > most {
			s.bad(fmt.Errorf("invoice %q has %d bytes; the broker takes %d", o.Invoice, len(text), most))
			continue
		}
		novelty, more := s.ledger.enter(o, text)
		articles = append(articles, more...)
		switch novelty {
		case isConflict:
			s.conflicts++
			if _, err := conflicts.Write(append(slices.Clone(text), '\n')); err != nil {
				return part, articles, fmt.Errorf("keep orders with an invoice number that was used before: %w", err)
			}
			continue
		case isCopy:
			s.twice++
		}
		part = append(part, outgoing{invoice: o.Invoice, text: bytes.Clone(text)})
		size += len(text)
	}
	return part, articles, nil
}

func (s *shop) bad(err error) {
	s.badLines++
	switch {
	case s.badLines <= maxReported:
		s.complain("input: %v", err)
	case s.badLines == maxReported+1:
		s.complain("input: more lines are no orders; they are counted, not shown")
	}
}

// publishDue publishes the copies that are due after message number n.
func (s *shop) publishDue(ctx context.Context, n int64) error {
	rest := s.copies[:0]
	for _, c := range s.copies {
		if c.due > n {
			rest = append(rest, c)
			continue
		}
		s.twice++
		if err := s.publish(ctx, c); err != nil {
			return err
		}
	}
	clear(s.copies[len(rest):])
	s.copies = rest
	return nil
}

// publishConflicts publishes the orders whose invoice number an earlier order
// had; that one must have been applied, or which of the two wins is chance.
func (s *shop) publishConflicts(ctx context.Context) error {
	f, err := os.Open(s.spoolFile())
	if err != nil {
		return fmt.Errorf("orders with an invoice number that was used before: %w", err)
	}
	defer f.Close()
	r, err := orders.NewReader(f)
	if err != nil {
		return fmt.Errorf("orders with an invoice number that was used before: %w", err)
	}
	for {
		o, text, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s.channel.confirmed(ctx)
		}
		if err != nil {
			return fmt.Errorf("orders with an invoice number that was used before: %w", err)
		}
		if err := s.publish(ctx, outgoing{invoice: o.Invoice, text: bytes.Clone(text)}); err != nil {
			return err
		}
	}
}

func (s *shop) spoolFile() string { return filepath.Join(s.spool, "conflicts.ndjson") }

func (s *shop) publish(ctx context.Context, o outgoing) error {
	for s.ahead() > highWater {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	if err := s.channel.publish(o.invoice, o.text); err != nil {
		return err
	}
	s.messages.Add(1)
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
