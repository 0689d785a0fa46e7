package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
)

// seen is for stores that look before they insert.
type seen struct {
	sync.Mutex
	ids map[string]bool
}

func (s *seen) has(c yekbar.Claim) bool {
	s.Lock()
	defer s.Unlock()
	return s.ids[c.Consumer+"\x00"+c.MessageID]
}

func (s *seen) add(c yekbar.Claim) {
	s.Lock()
	defer s.Unlock()
	s.ids[c.Consumer+"\x00"+c.MessageID] = true
}

var attemptTwins = []twin{
	{"marks before it handles", []string{"an attempt that fails leaves nothing", "a context that ends in the attempt leaves nothing", "a batch that fails leaves nothing"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			got, err := r.Attempt(ctx, cs, nothing)
			if err != nil || !got[0].Fresh {
				return got, err
			}
			return got, r.apart(ctx, cs, fn)
		})},
	{"looks first, then inserts", []string{"two at once, the first commits", "five waiters, the first commits"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			known := &seen{ids: map[string]bool{}}
			return altered{r, func(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
				if known.has(cs[0]) {
					return duplicates(cs), nil
				}
				if err := r.apart(ctx, cs, fn); err != nil {
					return nil, err
				}
				known.add(cs[0])
				_, err := r.Attempt(ctx, cs, nothing)
				return []yekbar.Claimed{{Fresh: true}}, err
			}}
		}},
	{"takes a copy in flight for a duplicate", []string{"two at once, the first rolls back", "five waiters, the first rolls back", "the wait for a copy in flight is bounded"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			cs = slices.Clone(cs)
			for i := range cs {
				cs[i].Wait = 0
			}
			got, err := r.Attempt(ctx, cs, fn)
			if errors.Is(err, yekbar.ErrInFlight) {
				return duplicates(cs), nil
			}
			return got, err
		})},
	{"waits without bound", []string{"the wait for a copy in flight is bounded"}, claims(func(c *yekbar.Claim) { c.Wait = time.Hour })},
	{"never waits", []string{"the wait for a copy in flight is bounded"}, claims(func(c *yekbar.Claim) { c.Wait = 0 })},
	{"lets its function inherit the claim's wait", []string{"business statements don't inherit the claim's wait"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			return r.Attempt(ctx, cs, func(ctx context.Context, t tx, fresh []int) error {
				ctx, cancel := context.WithTimeout(ctx, cs[0].Wait)
				defer cancel()
				return fn(ctx, t, fresh)
			})
		})},
	{"forgets what kind of error it was", []string{"an attempt that fails leaves nothing", "a deadlock of the business is transient, also when hidden", "a context that ends in the attempt leaves nothing", "MapTx keeps what the store can do"},
		failures(func(_ []yekbar.Claim, err error) ([]yekbar.Claimed, error) { return nil, errors.New(err.Error()) })},
	{"calls every failure an outage", []string{"a unique violation of the business is no duplicate", "a constraint of the business is no duplicate"},
		failures(func(_ []yekbar.Claim, err error) ([]yekbar.Claimed, error) {
			return nil, errors.Join(err, yekbar.ErrUnavailable)
		})},
	{"takes any unique violation for a duplicate", []string{"a unique violation of the business is no duplicate", "a constraint of the business is no duplicate"},
		failures(func(cs []yekbar.Claim, err error) ([]yekbar.Claimed, error) {
			if errors.Is(err, memstore.ErrExists) {
				return duplicates(cs), nil
			}
			return nil, err
		})},
	{"commits what a failed attempt wrote", []string{"an attempt that fails leaves nothing", "a batch that fails leaves nothing"},
		byHand(func(ctx context.Context, t tx, fnErr error) error { return errors.Join(fnErr, t.Commit(ctx)) })},
	{"loses its connection when the function panics", []string{"an attempt that panics leaves nothing"},
		byHand(func(ctx context.Context, t tx, fnErr error) error {
			if fnErr != nil {
				return errors.Join(fnErr, t.Rollback())
			}
			return t.Commit(ctx)
		})},
	{"commits when the function panics", []string{"an attempt that panics leaves nothing"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			var panicked any
			got, err := r.Attempt(ctx, cs, func(ctx context.Context, t tx, fresh []int) error {
				defer func() { panicked = recover() }()
				return fn(ctx, t, fresh)
			})
			if panicked != nil {
				panic(panicked)
			}
			return got, err
		})},
	{"undoes a failed statement alone", []string{"a swallowed error doesn't commit", "a savepoint forgives a failed statement"},
		func(r *right, i *instance) yekbar.Store[tx] {
			insert := i.Insert
			i.Insert = func(ctx context.Context, t tx, key string) error {
				if err := t.Savepoint("statement"); err != nil {
					return err
				}
				if err := insert(ctx, t, key); err != nil {
					return errors.Join(err, t.RollbackTo("statement"))
				}
				return t.Release("statement")
			}
			return r
		}},
	{"forgives no statement", []string{"a savepoint forgives a failed statement"},
		func(r *right, i *instance) yekbar.Store[tx] {
			i.Savepoint = func(ctx context.Context, t tx, fn func(context.Context, tx) error) error { return fn(ctx, t) }
			return r
		}},
	{"autocommits after the end", []string{"a transaction kept after its end does nothing"},
		func(r *right, i *instance) yekbar.Store[tx] {
			add := i.Add
			i.Add = func(ctx context.Context, t tx, key string, n int) error {
				err := add(ctx, t, key, n)
				if errors.Is(err, yekbar.ErrTxDone) {
					return r.apart(ctx, nil, func(ctx context.Context, t tx, _ []int) error { return add(ctx, t, key, n) })
				}
				return err
			}
			return r
		}},
	{"ignores the context", []string{"a context that ended before", "a context that ends in the attempt leaves nothing", "a context that ends during the wait for a copy"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			return r.Attempt(context.WithoutCancel(ctx), cs, fn)
		})},
	{"commits, and then notices that the context ended", []string{"a context that ends at any moment: all or nothing"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			got, err := r.Attempt(context.WithoutCancel(ctx), cs, fn)
			return got, errors.Join(err, ctx.Err())
		})},
	{"has each message of a batch in its own transaction", []string{"a batch that fails leaves nothing", "a batch: new, mixed and old"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			var got []yekbar.Claimed
			for i := range cs {
				one, err := r.Attempt(ctx, cs[i:i+1], func(ctx context.Context, t tx, _ []int) error { return fn(ctx, t, []int{i}) })
				if err != nil {
					return nil, err
				}
				got = append(got, one...)
			}
			return got, nil
		})},
	{"counts the fresh ones of a batch from zero", []string{"a batch: new, mixed and old"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			return r.Attempt(ctx, cs, func(ctx context.Context, t tx, fresh []int) error { return fn(ctx, t, all(cs[:len(fresh)])) })
		})},
	{"takes a whole batch for old when a part of it is", []string{"a batch: new, mixed and old", "overlapping batches in opposite order"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			got, err := r.Attempt(ctx, cs, func(ctx context.Context, t tx, fresh []int) error {
				if len(fresh) < len(cs) {
					return memstore.ErrExists
				}
				return fn(ctx, t, fresh)
			})
			if errors.Is(err, memstore.ErrExists) {
				return duplicates(cs), nil
			}
			return got, err
		})},
	{"takes a batch that it doesn't declare", []string{"a batch without Features.Batch is refused"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return declaring{r, func(f *yekbar.Features) { f.Batch = false }}
		}},
}

// declaring is the right store with other Features.
type declaring struct {
	*right
	change func(*yekbar.Features)
}

func (d declaring) Features() yekbar.Features {
	f := d.right.Features()
	d.change(&f)
	return f
}

var boundaryTwins = []twin{
	{"lets the handler commit", []string{"methods that end the transaction are a broken boundary", "raw SQL that ends the transaction is a broken boundary", "raw SQL that perhaps ends it: all or nothing"},
		byHand(func(ctx context.Context, t tx, fnErr error) error {
			if fnErr != nil {
				return errors.Join(fnErr, t.Rollback())
			}
			if err := t.Commit(ctx); !errors.Is(err, yekbar.ErrTxDone) {
				return err
			}
			return nil
		})},
	{"takes a broken boundary for a rollback", []string{"methods that end the transaction are a broken boundary", "raw SQL that ends the transaction is a broken boundary"},
		failures(func(_ []yekbar.Claim, err error) ([]yekbar.Claimed, error) {
			if errors.Is(err, yekbar.ErrBoundary) {
				return nil, yekbar.ErrRolledBack
			}
			return nil, err
		})},
	{"refuses every ROLLBACK", []string{"an ORM's own savepoints keep working"}, executes(func(sql string) bool { return strings.HasPrefix(strings.ToUpper(sql), "ROLLBACK") },
		func(t tx, _ string) error { return t.Rollback() })},
	{"forgives at RELEASE", []string{"an ORM's own savepoints keep working"}, executes(func(sql string) bool { return strings.HasPrefix(sql, "RELEASE") },
		func(t tx, _ string) error { return t.RollbackTo("SP1") })},
	{"sets a savepoint in a spoilt transaction", []string{"an ORM's own savepoints keep working"},
		func(r *right, i *instance) yekbar.Store[tx] {
			exec, insert := i.Exec, i.Insert
			i.Insert = func(ctx context.Context, t tx, key string) error {
				if err := t.Savepoint("statement"); err != nil {
					return err
				}
				return insert(ctx, t, key)
			}
			i.Exec = func(ctx context.Context, t tx, sql string) error {
				if err := exec(ctx, t, sql); err == nil || !strings.HasPrefix(sql, "SAVEPOINT") {
					return err
				}
				return errors.Join(t.RollbackTo("statement"), exec(ctx, t, sql))
			}
			return r
		}},
}

// executes makes a twist of Exec for the statements that which selects.
func executes(which func(sql string) bool, wrong func(t tx, sql string) error) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, i *instance) yekbar.Store[tx] {
		exec := i.Exec
		i.Exec = func(ctx context.Context, t tx, sql string) error {
			if which(sql) {
				return wrong(t, sql)
			}
			return exec(ctx, t, sql)
		}
		return r
	}
}
