package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

// A twin is a store with one mistake, and the checks that must find it.
type twin struct {
	mistake string
	caught  []string
	// twist returns the wrong store; it may also twist the instance, where
	// the mistake is in what a store's guards do to the user's transaction.
	twist func(r *right, i *instance) yekbar.Store[tx]
}

// TestTwins: each wrong store fails the checks that are there for it, and each
// check has a wrong store that it catches.
func TestTwins(t *testing.T) {
	twins := slices.Concat(claimTwins, attemptTwins, boundaryTwins, sessionTwins, holdTwins, statementTwins, schemaTwins)
	proven := map[string]bool{}
	for _, w := range twins {
		for _, name := range w.caught {
			proven[name] = true
			t.Run(w.mistake+": "+name, func(t *testing.T) {
				t.Parallel()
				v := storetest.Judge(t, fixture(func(testing.TB) *instance {
					r, i := newRight()
					i.Store = w.twist(r, i)
					return i
				}), name, 3*time.Second) // some wrong stores hang
				if !v.Failed {
					t.Errorf("the check did not catch a store that %s; it said: %s", w.mistake, v.Said)
				}
				if v.Skipped {
					t.Errorf("the check was skipped: %s", v.Said)
				}
			})
		}
	}
	for _, name := range storetest.Names() {
		if !proven[name] {
			t.Errorf("no wrong store proves that the check %q can fail", name)
		}
	}
}

// altered is the right store with another Attempt.
type altered struct {
	*right
	attempt func(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error)
}

func (a altered) Attempt(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
	return a.attempt(ctx, cs, fn)
}

// attempts makes a twist of an Attempt.
func attempts(wrong func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error)) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] {
		return altered{r, func(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			return wrong(r, ctx, cs, fn)
		}}
	}
}

// claims makes a twist that changes each claim before it is written.
func claims(change func(*yekbar.Claim)) func(*right, *instance) yekbar.Store[tx] {
	return attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
		cs = slices.Clone(cs)
		for i := range cs {
			change(&cs[i])
		}
		return r.Attempt(ctx, cs, fn)
	})
}

// answers makes a twist that changes each answer of an Attempt that succeeded.
func answers(change func(yekbar.Claim, *yekbar.Claimed)) func(*right, *instance) yekbar.Store[tx] {
	return attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
		got, err := r.Attempt(ctx, cs, fn)
		for i := range got {
			change(cs[i], &got[i])
		}
		return got, err
	})
}

// failures makes a twist that changes what an Attempt that failed returns.
func failures(change func([]yekbar.Claim, error) ([]yekbar.Claimed, error)) func(*right, *instance) yekbar.Store[tx] {
	return attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
		got, err := r.Attempt(ctx, cs, fn)
		if err != nil {
			return change(cs, err)
		}
		return got, nil
	})
}

func ids(change func(string) string) func(*right, *instance) yekbar.Store[tx] {
	return claims(func(c *yekbar.Claim) { c.MessageID = change(c.MessageID) })
}

// byHand attempts in a transaction that no guard watches. Whatever ends it, end
// sees what fn returned and decides.
func byHand(end func(ctx context.Context, t tx, fnErr error) error) func(*right, *instance) yekbar.Store[tx] {
	return attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
		t, err := r.mem.Load().Begin(ctx)
		if err != nil {
			return nil, err
		}
		s, err := r.Bind(t)
		if err != nil {
			return nil, err
		}
		got := make([]yekbar.Claimed, len(cs))
		var fresh []int
		for i, c := range cs {
			if got[i], err = s.Claim(ctx, c); err != nil {
				return nil, errors.Join(err, t.Rollback())
			}
			if got[i].Fresh {
				fresh = append(fresh, i)
			}
		}
		if len(fresh) == 0 {
			return got, t.Rollback()
		}
		return got, end(ctx, t, fn(ctx, t, fresh))
	})
}

func nothing(context.Context, tx, []int) error { return nil }

// apart runs fn in a transaction without the claims.
func (r *right) apart(ctx context.Context, cs []yekbar.Claim, fn body) error {
	t, err := r.mem.Load().Begin(ctx)
	if err != nil {
		return err
	}
	if err := fn(ctx, t, all(cs)); err != nil {
		return errors.Join(err, t.Rollback())
	}
	return t.Commit(ctx)
}

func all(cs []yekbar.Claim) []int {
	var is []int
	for i := range cs {
		is = append(is, i)
	}
	return is
}

func duplicates(cs []yekbar.Claim) []yekbar.Claimed {
	var got []yekbar.Claimed
	for _, c := range cs {
		got = append(got, yekbar.Claimed{State: yekbar.StateApplied, Fingerprint: c.Fingerprint, At: time.Now()})
	}
	return got
}

var claimTwins = []twin{
	{"stores no claim", []string{"a new message is applied and a repeat is not", "many copies at once, each message has one effect"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			got := duplicates(cs)
			for i := range got {
				got[i] = yekbar.Claimed{Fresh: true}
			}
			return got, r.apart(ctx, cs, fn)
		})},
	{"calls the function for repeats", []string{"a new message is applied and a repeat is not"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			got, err := r.Attempt(ctx, cs, fn)
			if err == nil && !got[0].Fresh {
				err = r.apart(ctx, cs, fn)
			}
			return got, err
		})},
	{"says no time", []string{"a new message is applied and a repeat is not", "Bind over a transaction of the user's"},
		func(r *right, _ *instance) yekbar.Store[tx] { return timeless{r} }},
	{"says the client's time", []string{"a new message is applied and a repeat is not"},
		answers(func(_ yekbar.Claim, c *yekbar.Claimed) { c.At = time.Now() })},
	{"says no state", []string{"a new message is applied and a repeat is not", "two at once, the first commits"},
		answers(func(_ yekbar.Claim, c *yekbar.Claimed) { c.State = "" })},
	{"answers with the fingerprint it was given", []string{"a repeat writes nothing"},
		answers(func(given yekbar.Claim, c *yekbar.Claimed) { c.Fingerprint = given.Fingerprint })},
	{"calls another payload new", []string{"a repeat writes nothing"},
		claims(func(c *yekbar.Claim) { c.MessageID += string(c.Fingerprint) })},
	{"truncates IDs", []string{"IDs are compared byte for byte"}, ids(func(id string) string { return id[:min(len(id), 255)] })},
	{"folds the case of IDs", []string{"IDs are compared byte for byte"}, ids(strings.ToLower)},
	{"trims IDs", []string{"IDs are compared byte for byte"}, ids(func(id string) string { return strings.TrimRight(id, " ") })},
	{"composes accents in IDs", []string{"IDs are compared byte for byte"}, ids(func(id string) string { return strings.ReplaceAll(id, "e\u0301", "\u00e9") })},
	{"takes numeric IDs for numbers", []string{"IDs are compared byte for byte"}, ids(func(id string) string {
		if id == "1e3" {
			return "1000"
		}
		return id
	})},
	{"knows no consumers", []string{"consumers have claims of their own"}, claims(func(c *yekbar.Claim) { c.Consumer = "" })},
	{"glues consumer and ID together", []string{"consumers have claims of their own"}, claims(func(c *yekbar.Claim) {
		c.Consumer, c.MessageID = "", c.Consumer+" "+c.MessageID
	})},
	{"trims fingerprints", []string{"fingerprints come back as they were"}, answers(func(_ yekbar.Claim, c *yekbar.Claimed) {
		c.Fingerprint = []byte(strings.TrimRight(string(c.Fingerprint), "\x00 "))
	})},
	{"keeps results as text", []string{"results come back as they were"}, answers(func(_ yekbar.Claim, c *yekbar.Claimed) {
		c.Result = []byte(strings.ToValidUTF8(string(c.Result), "?"))
	})},
	{"keeps results by ID alone, at once", []string{"results come back as they were"},
		func(r *right, _ *instance) yekbar.Store[tx] { return &loudResults{right: r} }},
}

// timeless answers without At, in sessions too.
type timeless struct{ *right }

func (s timeless) Attempt(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
	got, err := s.right.Attempt(ctx, cs, fn)
	for i := range got {
		got[i].At = time.Time{}
	}
	return got, err
}

func (s timeless) Bind(t tx) (yekbar.Session, error) {
	in, err := s.right.Bind(t)
	return timelessSession{in}, err
}

type timelessSession struct{ yekbar.Session }

func (s timelessSession) Claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	got, err := s.Session.Claim(ctx, c)
	got.At = time.Time{}
	return got, err
}

// loudResults stores results outside the transaction.
type loudResults struct {
	*right
	results sync.Map
}

func (s *loudResults) Attempt(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
	got, err := s.right.Attempt(ctx, cs, fn)
	for i := range got {
		if v, ok := s.results.Load(cs[i].MessageID); ok && !got[i].Fresh {
			got[i].Result = v.([]byte)
		}
	}
	return got, err
}

func (s *loudResults) Bind(t tx) (yekbar.Session, error) {
	in, err := s.right.Bind(t)
	return loudSession{in, s}, err
}

type loudSession struct {
	yekbar.Session
	s *loudResults
}

func (l loudSession) SetResult(_ context.Context, c yekbar.Claim, result []byte) error {
	l.s.results.Store(c.MessageID, result)
	return nil
}

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
