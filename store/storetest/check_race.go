package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

func raceChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "two at once, the first commits", run: func(e *env[Tx]) { atOnce(e, 1, true) }, single: true},
		{name: "two at once, the first rolls back", run: func(e *env[Tx]) { atOnce(e, 1, false) }, single: true},
		{name: "five waiters, the first commits", run: func(e *env[Tx]) { atOnce(e, 5, true) }},
		{name: "five waiters, the first rolls back", run: func(e *env[Tx]) { atOnce(e, 5, false) }, single: true},
		{name: "the wait for a copy in flight is bounded", run: boundedWait[Tx]},
		{name: "business statements don't inherit the claim's wait", run: waitEndsAtClaim[Tx]},
		{name: "a deadlock of the business is transient, also when hidden", run: deadlock[Tx]},
		{name: "many copies at once, each message has one effect", run: manyCopies[Tx], single: true},
	}
}

func atOnce[Tx any](e *env[Tx], waiters int, commits bool) {
	first := e.hold("m-1", "n")
	var others []*running
	for range waiters {
		others = append(others, e.start(func() ([]yekbar.Claimed, error) { return e.settle(claimsOf("m-1"), e.adds("n")) }))
	}
	e.blocked(others...)
	if !commits {
		first.release <- errBusiness
	} else {
		first.release <- nil
	}
	e.await(first.running, "the first")
	if commits && (first.err != nil || !first.fresh()) {
		e.Errorf("the first: %+v, %v; want a fresh claim", first.claimed, first.err)
	}
	if !commits && !errors.Is(first.err, errBusiness) {
		e.Errorf("the first, which failed: error %v, want its own", first.err)
	}
	fresh := 0
	for _, r := range others {
		e.await(r, "a waiter")
		switch {
		case r.err != nil:
			e.Errorf("a waiter: %v", r.err)
		case r.fresh():
			fresh++
		case r.claimed[0].State != yekbar.StateApplied:
			e.Errorf("a waiter found state %q, want %q", r.claimed[0].State, yekbar.StateApplied)
		}
	}
	if commits && fresh != 0 {
		e.Errorf("%d waiters applied what the first had committed", fresh)
	}
	if !commits && fresh != 1 {
		e.Errorf("%d waiters applied it after the first had rolled back, want exactly one", fresh)
	}
	e.wantClaims(1)
	e.wantCounter("n", 1)
}

func boundedWait[Tx any](e *env[Tx]) {
	e.need2()
	first := e.hold("m-1", "n")
	for _, wait := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond} {
		c := claim("m-1")
		c.Wait = wait
		began := time.Now()
		_, err := e.Store.Attempt(e.ctx, []yekbar.Claim{c}, e.adds("n"))
		took := time.Since(began)
		e.wantError(err, yekbar.ErrInFlight)
		if yekbar.CountsAsAttempt(err) {
			e.Errorf("a copy in flight counts as an attempt: %v", err)
		}
		if took < wait || took > wait+10*time.Second { // generous: the machine may be busy
			e.Errorf("the wait of %v for a copy in flight took %v", wait, took)
		}
	}
	c := claim("m-2")
	c.Wait = 0
	if got, err := e.Store.Attempt(e.ctx, []yekbar.Claim{c}, e.adds("other")); err != nil || !got[0].Fresh {
		e.Errorf("another message beside one in flight: %+v, %v; want a fresh claim", got, err)
	}
	first.release <- nil
	if e.await(first.running, "the first"); first.err != nil {
		e.Errorf("the first: %v", first.err)
	}
	e.wantClaims(2)
	e.wantCounter("n", 1)
	e.wantCounter("other", 1)
}

func waitEndsAtClaim[Tx any](e *env[Tx]) {
	e.need2()
	e.apply("m-0", e.adds("n")) // so that the row is there to be locked
	tx, end, err := e.Begin(e.ctx)
	if err != nil {
		e.Fatalf("Begin: %v", err)
	}
	e.Cleanup(func() { _ = end(context.WithoutCancel(e.ctx), false) }) // already ended in good times
	if err := e.Add(e.ctx, tx, "n", 1); err != nil {
		e.Fatalf("Add in a transaction of the user's: %v", err)
	}
	c := claim("m-1")
	c.Wait = 50 * time.Millisecond
	past := make(chan struct{})
	attempt := e.start(func() ([]yekbar.Claimed, error) {
		return e.Store.Attempt(e.ctx, []yekbar.Claim{c}, func(ctx context.Context, tx Tx, _ []int) error {
			if err := e.Add(ctx, tx, "n", 1); err != nil { // waits for the lock, where Add takes one
				return err
			}
			<-past
			return ctx.Err()
		})
	})
	select {
	case <-attempt.ended:
		close(past)
		e.Fatalf("a business statement was not let wait longer than the claim (%v): %v", c.Wait, attempt.err)
	case <-time.After(6 * c.Wait):
	}
	close(past)
	if err := end(e.ctx, false); err != nil {
		e.Fatalf("rollback of a transaction of the user's: %v", err)
	}
	if e.await(attempt, "the attempt"); attempt.err != nil || !attempt.fresh() {
		e.Errorf("the attempt: %+v, %v; want a fresh claim", attempt.claimed, attempt.err)
	}
	e.wantCounter("n", 2)
}

func deadlock[Tx any](e *env[Tx]) {
	e.need2()
	e.apply("m-0", e.adds("a", "b"))
	var met sync.WaitGroup // both hold their first row
	met.Add(2)
	cross := func(id, one, two string) *running {
		arrive := sync.OnceFunc(func() { met.Done(); met.Wait() })
		return e.start(func() ([]yekbar.Claimed, error) {
			defer arrive()
			return retry(e.ctx, func() ([]yekbar.Claimed, error) {
				return e.Store.Attempt(e.ctx, claimsOf(id), func(ctx context.Context, tx Tx, _ []int) error {
					err := e.Add(ctx, tx, one, 1)
					arrive()
					if err == nil {
						err = e.Add(ctx, tx, two, 1)
					}
					if err != nil && !e.fixture.Unguarded {
						return errBusiness // hides the database's
					}
					return err
				})
			})
		})
	}
	for _, r := range []*running{cross("m-1", "a", "b"), cross("m-2", "b", "a")} {
		if e.await(r, "one of two that deadlock"); r.err != nil {
			e.Errorf("one of two that deadlock: error %q does not say that it is transient", r.err)
		}
	}
	e.wantClaims(3)
	e.wantCounter("a", 3)
	e.wantCounter("b", 3)
}

func manyCopies[Tx any](e *env[Tx]) {
	const workers, messages, copies = 8, 200, 3
	deliveries := make(chan int)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for i := range deliveries {
				id := fmt.Sprintf("m-%d", i)
				_, err := e.settle(claimsOf(id), func(ctx context.Context, tx Tx, _ []int) error {
					if err := e.Insert(ctx, tx, id); err != nil { // a second effect can't hide
						return err
					}
					return e.Add(ctx, tx, fmt.Sprintf("hot-%d", i%5), 1)
				})
				if err != nil {
					e.Errorf("message %d: %v", i, err)
				}
			}
		})
	}
	for i := range messages {
		for range copies {
			deliveries <- i
		}
	}
	close(deliveries)
	working.Wait()
	e.wantClaims(messages)
	for k := range 5 {
		e.wantCounter(fmt.Sprintf("hot-%d", k), messages/5)
	}
}
