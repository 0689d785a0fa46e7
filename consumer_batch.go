package yekbar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ProcessBatch processes many messages in as few transactions as it can;
// results[i] belongs to ms[i], each with its own error. When one message fails
// the others are processed without it, and it alone. A message that stands
// twice in ms, or is in flight in this process, is processed after the rest.
func (c *Consumer[Tx]) ProcessBatch(ctx context.Context, ms []*Message) []BatchResult {
	results := make([]BatchResult, len(ms))
	first, later := c.enterAll(ms, results)
	c.together(ctx, first)
	for _, d := range first {
		results[d.arrival] = d.result
	}
	for _, i := range later {
		r, err := c.Process(ctx, ms[i])
		results[i] = BatchResult{Result: r, Err: err}
	}
	return results
}

// together processes deliveries that entered flight, and lets them leave.
func (c *Consumer[Tx]) together(ctx context.Context, ds []*delivery) {
	defer func() {
		for _, d := range ds {
			c.flight.leave(d.claim.MessageID)
		}
	}()
	if len(ds) == 0 {
		return
	}
	if err := c.check(ctx); err != nil {
		c.fail(ds, err)
		return
	}
	c.batch(ctx, ds)
}

// enterAll returns the deliveries that can be processed together, sorted by
// claim, and the places of those that must come later. It never waits: two
// batches with the same messages would wait for each other.
func (c *Consumer[Tx]) enterAll(ms []*Message, results []BatchResult) (first []*delivery, later []int) {
	together := c.store.Features().Batch
	for i, m := range ms {
		d, err := c.delivery(m)
		if err != nil {
			results[i] = BatchResult{Err: err}
			continue
		}
		if !together {
			later = append(later, i)
			continue
		}
		if _, ok := c.flight.tryEnter(d.claim.MessageID); !ok {
			later = append(later, i)
			continue
		}
		d.arrival = i
		first = append(first, d)
	}
	slices.SortFunc(first, func(x, y *delivery) int { return cmp.Compare(x.claim.MessageID, y.claim.MessageID) })
	return first, later
}

// batch processes deliveries together, or, when that fails, in parts.
func (c *Consumer[Tx]) batch(ctx context.Context, ds []*delivery) {
	switch len(ds) {
	case 0:
		return
	case 1:
		c.one(ctx, ds[0])
		return
	}
	err := c.tries(ctx, ds)
	at := (*BatchError)(nil)
	switch {
	case err == nil:
	case everybodys(err):
		c.fail(ds, err)
	case errors.As(err, &at) && !errors.Is(err, ErrTransient):
		bad := ds[at.Index]
		c.batch(ctx, slices.Concat(ds[:at.Index], ds[at.Index+1:]))
		c.one(ctx, bad)
	default:
		c.batch(ctx, ds[:len(ds)/2])
		c.batch(ctx, ds[len(ds)/2:])
	}
}

// everybodys reports whether an error of a batch is each message's: nothing
// would be gained by trying them apart.
func everybodys(err error) bool {
	var b *BoundaryError
	return errors.Is(err, errCallerGone) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrCommitUnknown) ||
		errors.Is(err, ErrSchema) || errors.As(err, &b) && b.Escaped
}

func (c *Consumer[Tx]) fail(ds []*delivery, err error) {
	for _, d := range ds {
		d.result = BatchResult{Err: c.wrap(d, err)}
	}
}

// ClaimTx claims m for consumer inside a transaction that the caller began and
// commits. Applied means that the claim is new: make the change and commit.
// Duplicate means: change nothing, roll back. The identity is m.Identity, the
// fingerprint m.Fingerprint; a copy in flight is waited for 1 s, then
// ErrInFlight. After an error roll back.
func ClaimTx[Tx any](ctx context.Context, s Store[Tx], tx Tx, consumer string, m *Message) (Result, error) {
	if p := nameProblem(consumer); p != "" {
		return Result{}, fmt.Errorf("yekbar: the consumer's name %s", p)
	}
	c := &Consumer[Tx]{name: consumer, store: s, cfg: Config{}.withDefaults()}
	d, err := c.delivery(m)
	if err != nil {
		return Result{}, err
	}
	session, err := s.Bind(tx)
	if err != nil {
		return Result{}, c.wrap(d, err)
	}
	got, err := session.Claim(ctx, d.claim)
	if err != nil {
		return Result{}, c.wrap(d, err)
	}
	c.settled(d, got, nil)
	return d.result.Result, d.result.Err
}
