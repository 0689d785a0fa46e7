package yekbar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar/internal/handling"
)

// A tryFunc makes one try of the deliveries, whose claims are sorted.
type tryFunc func(ctx context.Context, a *attempt) ([]Claimed, error)

// An attempt is one transaction of a Consumer.
type attempt struct {
	deliveries []*delivery
	claims     []Claim
	values     [][]byte // recorded results, by delivery
	timeout    time.Duration
	fresh      []int // the new claims, once the database has said
	started    bool  // a handler was called
}

func (a *attempt) start(fresh []int) { a.fresh, a.started = fresh, true }

// attempt makes one try and sets the results when it succeeds. An error that
// is one message's is a *BatchError whose index is that of the delivery.
func (c *Consumer[Tx]) attempt(ctx context.Context, n int, ds []*delivery) (*attempt, error) {
	a := &attempt{deliveries: ds, claims: make([]Claim, len(ds)), values: make([][]byte, len(ds)), timeout: c.cfg.Timeout}
	for i, d := range ds {
		a.claims[i] = d.claim
	}
	opCtx, end := c.observe(ctx, n, ds)
	limit := a.timeout * time.Duration(len(ds))
	bounded, cancel := context.WithTimeoutCause(opCtx, limit, ErrTimeout)
	defer cancel()

	claimed, err := c.try(bounded, a)
	if err == nil && len(claimed) != len(ds) {
		err = fmt.Errorf("yekbar: %T answered %d of %d claims", c.store, len(claimed), len(ds))
	}
	if err == nil {
		for i, d := range ds {
			c.settled(d, claimed[i], a.values[i])
		}
	} else {
		err = c.escaped(ctx, a, blame(ctx, bounded, a, limit, err))
	}
	end(err)
	return a, err
}

// blame says whose fault it was when an attempt's context ended.
func blame(ctx, bounded context.Context, a *attempt, limit time.Duration, err error) error {
	at := (*BatchError)(nil)
	switch {
	case errors.Is(err, ErrCommitUnknown), errors.Is(err, ErrBoundary):
		return err
	case ctx.Err() != nil:
		return callerGone(ctx, err)
	case errors.As(err, &at) && errors.Is(at.Err, ErrTimeout):
		return at
	case bounded.Err() == nil:
		return err
	case !a.started:
		return fmt.Errorf("%w: the claim had no answer within %v: %w", ErrUnavailable, limit, err)
	case at != nil:
		return &BatchError{Index: at.Index, Err: late(limit, at.Err)}
	}
	return late(limit, err)
}

// late is a handler's timeout. What the statement that was broken off made the
// driver say (a lost connection, often) must not pass for an outage, hence its
// text alone.
func late(limit time.Duration, err error) error {
	return fmt.Errorf("%w (%v): %v", ErrTimeout, limit, err) //nolint:errorlint // see above
}

// escaped turns the claims of an attempt that may have been committed without
// its whole change to dead: a redelivery would find them and wrongly rest.
func (c *Consumer[Tx]) escaped(ctx context.Context, a *attempt, err error) error {
	b := (*BoundaryError)(nil)
	if !errors.As(err, &b) || !b.Escaped {
		return err
	}
	holder, ok := Find[HoldingStore](c.store)
	if !ok {
		return fmt.Errorf("%w; the store can't turn the claim to dead: do it by hand before the message is redelivered", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTimeout)
	defer cancel()
	for _, i := range a.fresh {
		d := a.deliveries[i]
		if _, e := holder.Hold(ctx, &HeldMessage{
			Consumer: c.name, MessageID: d.claim.MessageID, State: StateDead, Message: *d.message,
			Fingerprint: d.claim.Fingerprint, Reason: ReasonBoundary, Errors: []string{err.Error()}, Attempts: 1,
		}); e != nil {
			err = fmt.Errorf("%w; turning the claim of message %q to dead failed: %w", err, d.claim.MessageID, e)
		}
	}
	return err
}

const holdTimeout = 15 * time.Second

func (c *Consumer[Tx]) observe(ctx context.Context, n int, ds []*delivery) (context.Context, func(error)) {
	if c.cfg.Observer == nil {
		return ctx, func(error) {}
	}
	op := Operation{Name: "process", Consumer: c.name, Messages: make([]*Message, len(ds)), Attempt: n}
	for i, d := range ds {
		op.Messages[i] = d.message
	}
	opCtx, end := c.cfg.Observer.Observe(ctx, op)
	return opCtx, func(err error) {
		if end == nil {
			return
		}
		results := make([]BatchResult, len(ds))
		for i, d := range ds {
			if results[i] = d.result; err != nil {
				results[i] = BatchResult{Err: err}
			}
		}
		end(OperationEnd{Results: results, Err: err})
	}
}

// eachHandler calls h for one fresh message after the other.
func eachHandler[Tx any](s Store[Tx], h ResultHandler[Tx]) tryFunc {
	return func(ctx context.Context, a *attempt) ([]Claimed, error) {
		return s.Attempt(ctx, a.claims, func(ctx context.Context, tx Tx, fresh []int) error {
			a.start(fresh)
			at := 0
			err := protect(func() error {
				for _, at = range a.order(fresh) {
					if err := handle(ctx, s, tx, h, a, at); err != nil {
						return err
					}
				}
				return nil
			})
			return a.named(at, err)
		})
	}
}

// named says which delivery an error is from, where there are several.
func (a *attempt) named(at int, err error) error {
	if err == nil || len(a.deliveries) == 1 {
		return err
	}
	return &BatchError{Index: at, Err: err}
}

func handle[Tx any](ctx context.Context, s Store[Tx], tx Tx, h ResultHandler[Tx], a *attempt, at int) error {
	m, claim := a.deliveries[at].message, a.claims[at]
	ctx = WithCause(ctx, Cause{Consumer: claim.Consumer, Message: m})
	if len(a.claims) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.timeout, ErrTimeout)
		defer cancel()
	}
	value, err := func() ([]byte, error) {
		defer handling.Begin(ctx, m, a.timeout)()
		return h(ctx, tx, m.handlerCopy())
	}()
	if err == nil {
		// Who ignores the context and comes too late must not commit.
		err = ctx.Err()
	}
	if err != nil {
		if len(a.claims) > 1 && errors.Is(context.Cause(ctx), ErrTimeout) {
			err = late(a.timeout, err)
		}
		return err
	}
	if value == nil {
		return nil
	}
	a.values[at] = value
	session, err := s.Bind(tx)
	if err != nil {
		return err
	}
	return session.SetResult(ctx, claim, value)
}

// wholeBatch calls h once, with all fresh messages.
func wholeBatch[Tx any](s Store[Tx], h BatchHandler[Tx]) tryFunc {
	return func(ctx context.Context, a *attempt) ([]Claimed, error) {
		return s.Attempt(ctx, a.claims, func(ctx context.Context, tx Tx, fresh []int) error {
			a.start(fresh)
			order := a.order(fresh)
			ms := make([]*Message, len(order))
			for i, at := range order {
				ms[i] = a.deliveries[at].message.handlerCopy()
			}
			if len(order) == 1 {
				ctx = WithCause(ctx, Cause{Consumer: a.claims[order[0]].Consumer, Message: a.deliveries[order[0]].message})
			}
			err := protect(func() error {
				defer handling.Begin(ctx, a.alone(order), a.timeout*time.Duration(len(a.claims)))()
				return h(ctx, tx, ms)
			})
			named := (*BatchError)(nil)
			if !errors.As(err, &named) {
				return err
			}
			if named.Index < 0 || named.Index >= len(order) {
				// Whose error that is, and so what it means, nobody knows.
				return fmt.Errorf("yekbar: the BatchHandler got %d messages and blames the one at index %d: %v", len(order), named.Index, named.Err) //nolint:errorlint // its text alone
			}
			return a.named(order[named.Index], named.Err)
		})
	}
}

// alone returns the message of the one delivery that a handler is called for,
// or nil when there are several.
func (a *attempt) alone(order []int) any {
	if len(order) == 1 {
		return a.deliveries[order[0]].message
	}
	return nil
}

// statements asks h for all messages' statements, then lets the store run
// them.
func statements(s StatementStore, h StatementHandler) tryFunc {
	return func(ctx context.Context, a *attempt) ([]Claimed, error) {
		a.started = true
		at := 0
		ss := make([][]Statement, len(a.claims))
		err := protect(func() (err error) {
			for at = range ss {
				m := a.deliveries[at].message
				ctx := WithCause(ctx, Cause{Consumer: a.claims[at].Consumer, Message: m})
				if ss[at], err = func() ([]Statement, error) {
					defer handling.Begin(ctx, m, a.timeout*time.Duration(len(a.claims)))()
					return h(ctx, m.handlerCopy())
				}(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, a.named(at, err)
		}
		return s.AttemptStatements(ctx, a.claims, ss)
	}
}

// order sorts indices of deliveries by ordering key, and those of one key as
// they arrived: rows are then locked in the same order by everybody who names
// the key after the row.
func (a *attempt) order(fresh []int) []int {
	if len(fresh) == 1 {
		return fresh
	}
	sorted := slices.Clone(fresh)
	slices.SortFunc(sorted, func(i, j int) int {
		x, y := a.deliveries[i], a.deliveries[j]
		return cmp.Or(cmp.Compare(x.message.OrderingKey, y.message.OrderingKey), cmp.Compare(x.arrival, y.arrival))
	})
	return sorted
}
