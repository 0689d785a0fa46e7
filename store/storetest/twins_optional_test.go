package storetest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
)

// binding is the right store with another Bind.
type binding struct {
	*right
	bind func(t tx) (yekbar.Session, error)
}

func (b binding) Bind(t tx) (yekbar.Session, error) { return b.bind(t) }

// elsewhere is a session over a transaction of its own.
type elsewhere struct{ r *right }

func (s elsewhere) Claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	got, err := s.r.Attempt(ctx, []yekbar.Claim{c}, nothing)
	if err != nil {
		return yekbar.Claimed{}, err
	}
	return got[0], nil
}

func (s elsewhere) SetResult(context.Context, yekbar.Claim, []byte) error { return nil }

// hasty takes what is in flight for old.
type hasty struct{ yekbar.Session }

func (s hasty) Claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	got, err := s.Session.Claim(ctx, c)
	if errors.Is(err, yekbar.ErrInFlight) {
		return yekbar.Claimed{State: yekbar.StateApplied}, nil
	}
	return got, err
}

var sessionTwins = []twin{
	{"claims outside the transaction it was given", []string{"Bind over the store's own transaction", "Bind over a transaction of the user's", "a claim in a transaction of the user's is waited for"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return binding{r, func(tx) (yekbar.Session, error) { return elsewhere{r}, nil }}
		}},
	{"binds no transaction but its own", []string{"Bind over a transaction of the user's", "MapTx keeps what the store can do"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return binding{r, func(t tx) (yekbar.Session, error) {
				if err := t.Savepoint("probe"); err != nil || t.Commit(canceled()) == nil || !errors.Is(t.Put("", nil), yekbar.ErrBoundary) {
					return nil, errors.New("not mine")
				}
				return r.Bind(t)
			}}
		}},
	{"takes a claim in flight for old in sessions", []string{"a claim in a transaction of the user's is waited for"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return binding{r, func(t tx) (yekbar.Session, error) {
				s, err := r.Bind(t)
				return hasty{s}, err
			}}
		}},
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// holding is the right store with another Hold.
type holding struct {
	*right
	hold func(ctx context.Context, h *yekbar.HeldMessage) (bool, error)
}

func (s holding) Hold(ctx context.Context, h *yekbar.HeldMessage) (bool, error) {
	return s.hold(ctx, h)
}

func holds(wrong func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error)) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] {
		return holding{r, func(ctx context.Context, h *yekbar.HeldMessage) (bool, error) { return wrong(r, ctx, *h) }}
	}
}

var holdTwins = []twin{
	{"holds nothing", []string{"Hold takes over what nobody has", "Hold again: parked is replaced, dead stays", "Hold takes any content"},
		holds(func(*right, context.Context, yekbar.HeldMessage) (bool, error) { return true, nil })},
	{"claims what it holds as applied", []string{"Hold takes over what nobody has"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			h.State = yekbar.StateApplied
			return r.Hold(ctx, &h)
		})},
	{"holds what was applied", []string{"Hold leaves what was applied, unless the boundary broke", "Hold waits for an attempt in flight"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			h.Reason = yekbar.ReasonBoundary
			return r.Hold(ctx, &h)
		})},
	{"leaves applied what broke the boundary", []string{"Hold leaves what was applied, unless the boundary broke"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			h.Reason = yekbar.ReasonPermanent
			return r.Hold(ctx, &h)
		})},
	{"replaces the dead by the parked", []string{"Hold by several: one held message", "Hold again: parked is replaced, dead stays"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			ok, err := r.Hold(ctx, &h)
			if c, cerr := r.Claim(ctx, h.Consumer, h.MessageID); cerr == nil && c.State == yekbar.StateDead {
				err = errors.Join(err, r.Replay(ctx, h.Consumer, h.MessageID, nil, yekbar.Actor{Name: "twin", Reason: "wrong"}))
			}
			return ok, err
		})},
	{"never replaces the parked", []string{"Hold again: parked is replaced, dead stays"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			var first atomic.Bool
			return holding{r, func(ctx context.Context, h *yekbar.HeldMessage) (bool, error) {
				if first.CompareAndSwap(false, true) {
					return r.Hold(ctx, h)
				}
				return true, nil
			}}
		}},
	{"keeps messages as text", []string{"Hold takes any content"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			if strings.Contains(strings.Join(h.Errors, ""), "\x00") {
				return false, errors.New("invalid byte sequence")
			}
			return r.Hold(ctx, &h)
		})},
	{"holds without looking at attempts in flight", []string{"Hold waits for an attempt in flight", "Hold against Attempt: one of them"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			var attempted sync.Map
			return struct {
				altered
				yekbar.HoldingStore
			}{
				altered{r, func(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
					got, err := r.Attempt(ctx, cs, fn)
					if err == nil && got[0].Fresh {
						attempted.Store(cs[0].MessageID, true)
					}
					return got, err
				}},
				holding{r, func(ctx context.Context, h *yekbar.HeldMessage) (bool, error) {
					_, applied := attempted.Load(h.MessageID)
					return !applied, nil
				}},
			}
		}},
	{"inserts what was to be taken over", []string{"a parked message is taken over by an attempt"}, claims(func(c *yekbar.Claim) { c.FromParked = false })},
	{"unparks before it handles", []string{"a parked message is taken over by an attempt"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			if !cs[0].FromParked {
				return r.Attempt(ctx, cs, fn)
			}
			got, err := r.Attempt(ctx, cs, nothing)
			if err != nil || !got[0].Fresh {
				return got, err
			}
			return got, r.apart(ctx, cs, fn)
		})},
	{"holds and doesn't declare it", []string{"without Features.Holding there is no HoldingStore"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return declaring{r, func(f *yekbar.Features) { f.Holding = false }}
		}},
}

// stating is the right store with another AttemptStatements.
type stating struct {
	*right
	attempt func(ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error)
}

func (s stating) AttemptStatements(ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
	return s.attempt(ctx, cs, ss)
}

func states(wrong func(r *right, ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error)) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] {
		return stating{r, func(ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
			return wrong(r, ctx, cs, ss)
		}}
	}
}

var statementTwins = []twin{
	{"executes the statements of repeats", []string{"statements: applied once, a repeat leaves no trace", "statements: a batch, new and old", "statements: two at once"},
		states(func(r *right, ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
			got, err := r.AttemptStatements(ctx, cs, ss)
			for i := range got {
				if !got[i].Fresh {
					err = errors.Join(err, r.apart(ctx, nil, func(_ context.Context, t tx, _ []int) error { return execute(t, ss[i]) }))
				}
			}
			return got, err
		})},
	{"fails repeats whose statements would fail", []string{"statements: applied once, a repeat leaves no trace"},
		states(func(r *right, ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
			got, err := r.AttemptStatements(ctx, cs, ss)
			if err != nil || got[0].Fresh {
				return got, err
			}
			t, err := r.mem.Load().Begin(ctx)
			if err != nil {
				return nil, err
			}
			return got, errors.Join(execute(t, ss[0]), t.Rollback())
		})},
	{"counts no rows", []string{"statements: what fails leaves nothing", "statements: a batch, new and old"},
		states(func(r *right, ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
			for _, s := range ss {
				for i := range s {
					s[i].MinRows = 0
				}
			}
			return r.AttemptStatements(ctx, cs, ss)
		})},
	{"takes a statement's unique violation for a duplicate", []string{"statements: what fails leaves nothing"},
		states(func(r *right, ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
			got, err := r.AttemptStatements(ctx, cs, ss)
			if errors.Is(err, memstore.ErrExists) {
				return duplicates(cs), nil
			}
			return got, err
		})},
	{"takes statements that it doesn't declare", []string{"without Features.Statements there is no StatementStore"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return declaring{r, func(f *yekbar.Features) { f.Statements = false }}
		}},
}

// migrating is the right store with another MigrateTo.
type migrating struct {
	*right
	to func(ctx context.Context, version int) error
}

func (m migrating) Migrate(ctx context.Context) error                { return m.to(ctx, 1) }
func (m migrating) MigrateTo(ctx context.Context, version int) error { return m.to(ctx, version) }

var schemaTwins = []twin{
	{"migrates from nothing only", []string{"migrations: down, up, again, at once"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return migrating{r, func(ctx context.Context, version int) error {
				if int(r.version.Load()) == version {
					return errors.New("table exists")
				}
				return r.MigrateTo(ctx, version)
			}}
		}},
	{"drops the tables at each migration", []string{"migrations: down, up, again, at once"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return migrating{r, func(ctx context.Context, version int) error {
				return errors.Join(r.MigrateTo(ctx, 0), r.MigrateTo(ctx, version))
			}}
		}},
	{"works without its tables", []string{"missing tables are the schema's fault"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			return r.mem.Load().Attempt(ctx, cs, fn)
		})},
	{"blames the message for missing tables", []string{"missing tables are the schema's fault"},
		failures(func(_ []yekbar.Claim, err error) ([]yekbar.Claimed, error) { return nil, errors.New(err.Error()) })},
}
