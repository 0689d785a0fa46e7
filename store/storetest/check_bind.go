package storetest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
)

func bindChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "Bind over the store's own transaction", run: bindOwn[Tx], single: true},
		{name: "Bind over a transaction of the user's", run: bindForeign[Tx], single: true},
		{name: "a claim in a transaction of the user's is waited for", run: bindInFlight[Tx]},
	}
}

func bindOwn[Tx any](e *env[Tx]) {
	for _, result := range []error{errBusiness, nil} {
		_, err := e.settle(claimsOf("m-1"), func(ctx context.Context, tx Tx, fresh []int) error {
			s, err := e.Store.Bind(tx)
			if err != nil {
				return err
			}
			for i, want := range []bool{true, false} {
				got, err := s.Claim(ctx, claim("second"))
				if err != nil {
					return err
				}
				if got.Fresh != want {
					e.Errorf("claim %d of a second message in one transaction: fresh is %v, want %v", i+1, got.Fresh, want)
				}
			}
			if got, err := s.Claim(ctx, claim("m-1")); err != nil || got.Fresh {
				e.Errorf("the attempt's own claim, claimed again in it: %+v, %v; want one that is not fresh", got, err)
			}
			if err := s.SetResult(ctx, claim("second"), []byte("two")); err != nil {
				return err
			}
			if err := e.adds("n")(ctx, tx, fresh); err != nil {
				return err
			}
			return result
		})
		if result == nil {
			if err != nil {
				e.Fatalf("an attempt with two claims: %v", err)
			}
			break
		}
		e.wantError(err, result)
		e.wantClaims(0)
		e.wantCounter("n", 0)
	}
	e.wantClaims(2)
	e.wantCounter("n", 1)
	got, err := e.settle(claimsOf("second"), e.adds("n"))
	if err != nil || got[0].Fresh || string(got[0].Result) != "two" {
		e.Errorf("a repeat of the second message: %+v, %v; want a repeat with its result", got, err)
	}
}

// inUsers runs fn in a transaction of the user's own.
func (e *env[Tx]) inUsers(commit bool, fn func(tx Tx, s yekbar.Session)) {
	e.Helper()
	tx, end, err := e.Begin(e.ctx)
	if err != nil {
		e.Fatalf("Begin: %v", err)
	}
	ended := false
	defer func() {
		if !ended { // fn ended the check
			_ = end(context.WithoutCancel(e.ctx), false)
		}
	}()
	s, err := e.Store.Bind(tx)
	if err != nil {
		e.Fatalf("Bind over a transaction of the user's: %v", err)
	}
	fn(tx, s)
	ended = true
	if err := end(e.ctx, commit); err != nil {
		e.Fatalf("end of a transaction of the user's (commit: %v): %v", commit, err)
	}
}

func bindForeign[Tx any](e *env[Tx]) {
	for i, commit := range []bool{false, true, false} {
		e.inUsers(commit, func(tx Tx, s yekbar.Session) {
			c := claim("m-1")
			got, err := s.Claim(e.ctx, c)
			if err != nil {
				e.Fatalf("Claim in a transaction of the user's: %v", err)
			}
			if want := i < 2; got.Fresh != want {
				e.Fatalf("Claim %d: fresh is %v, want %v", i+1, got.Fresh, want)
			}
			if !got.Fresh {
				if got.State != yekbar.StateApplied || !bytes.Equal(got.Fingerprint, c.Fingerprint) || string(got.Result) != "one" || got.At.IsZero() {
					e.Errorf("an old claim in a transaction of the user's: %+v, want what was stored", got)
				}
				return
			}
			if err := s.SetResult(e.ctx, c, []byte("one")); err != nil {
				e.Fatalf("SetResult in a transaction of the user's: %v", err)
			}
			if err := e.Add(e.ctx, tx, "n", 1); err != nil {
				e.Fatalf("Add in a transaction of the user's: %v", err)
			}
		})
		want := min(i, 1)
		e.wantClaims(want)
		e.wantCounter("n", want)
	}
	if e.apply("m-1", e.adds("n")) {
		e.Error("what was claimed in a transaction of the user's was applied again")
	}
	e.apply("m-2", e.adds("n"))
	e.inUsers(false, func(_ Tx, s yekbar.Session) {
		if got, err := s.Claim(e.ctx, claim("m-2")); err != nil || got.Fresh {
			e.Errorf("what an attempt had applied, claimed by the user: %+v, %v; want one that is not fresh", got, err)
		}
	})
}

func bindInFlight[Tx any](e *env[Tx]) {
	e.need2()
	for i, commit := range []bool{true, false} {
		id := fmt.Sprintf("m-%d", i)
		var waiting *running
		e.inUsers(commit, func(tx Tx, s yekbar.Session) {
			if got, err := s.Claim(e.ctx, claim(id)); err != nil || !got.Fresh {
				e.Fatalf("Claim: %+v, %v; want a fresh one", got, err)
			}
			c := claim(id)
			c.Wait = 20 * time.Millisecond
			_, err := e.Store.Attempt(e.ctx, []yekbar.Claim{c}, e.adds(id))
			e.wantError(err, yekbar.ErrInFlight)
			waiting = e.start(func() ([]yekbar.Claimed, error) { return e.settle(claimsOf(id), e.adds(id)) })
			e.blocked(waiting)
		})
		e.await(waiting, "an attempt behind a transaction of the user's")
		if waiting.err != nil || waiting.fresh() == commit {
			e.Errorf("an attempt behind a transaction of the user's (commit: %v): %+v, %v", commit, waiting.claimed, waiting.err)
		}
	}
	first := e.hold("m-2", "n")
	tx, end, err := e.Begin(e.ctx)
	if err != nil {
		e.Fatalf("Begin: %v", err)
	}
	s, err := e.Store.Bind(tx)
	if err != nil {
		e.Fatalf("Bind: %v", err)
	}
	c := claim("m-2")
	c.Wait = 20 * time.Millisecond
	_, err = s.Claim(e.ctx, c)
	e.wantError(err, yekbar.ErrInFlight)
	if err := end(e.ctx, false); err != nil {
		e.Errorf("rollback of a transaction of the user's: %v", err)
	}
	first.release <- nil
	if e.await(first.running, "the first"); first.err != nil {
		e.Errorf("the first: %v", first.err)
	}
	e.wantCounter("n", 1)
}
