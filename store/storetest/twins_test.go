package storetest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
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
	twins := slices.Concat(claimTwins, attemptTwins, boundaryTwins, sessionTwins, holdTwins, dueTwins, heldTwins, countTwins,
		operatorTwins, retentionTwins, registryTwins, scheduleTwins, statementTwins, schemaTwins)
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
