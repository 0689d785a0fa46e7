package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

func attemptChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "failures are counted until they are cleared", run: failuresCounted[Tx], single: true},
		{name: "a start without an end is a crash", run: crashesCounted[Tx], single: true},
		{name: "failures and starts at the same moment", run: attemptsRace[Tx]},
		{name: "Hold clears attempts", run: holdClears[Tx]},
	}
}

func (e *env[Tx]) fail(id, failure string) yekbar.Attempts {
	e.Helper()
	s := e.attempts()
	return get(e, "AddFailure", func() (yekbar.Attempts, error) { return s.AddFailure(e.ctx, suite, id, failure) })
}

func (e *env[Tx]) begin(id string, within time.Duration) yekbar.Attempts {
	e.Helper()
	s := e.attempts()
	return get(e, "Start", func() (yekbar.Attempts, error) { return s.Start(e.ctx, suite, id, within) })
}

func (e *env[Tx]) wantAttempts(what string, got yekbar.Attempts, failed, crashed int, running bool, errs ...string) {
	e.Helper()
	if got.Failed != failed || got.Crashed != crashed || got.Running != running || !slices.Equal(got.Errors, errs) {
		e.Errorf("%s: %+v, want %d failed, %d crashed, running: %v, errors %q", what, got, failed, crashed, running, errs)
	}
}

func failuresCounted[Tx any](e *env[Tx]) {
	s := e.attempts()
	e.wantAttempts("the first failure", e.fail("m-1", "one"), 1, 0, false, "one")
	e.wantAttempts("the second failure", e.fail("m-1", "two"), 2, 0, false, "one", "two")
	e.wantAttempts("another message", e.fail("m-2", "x"), 1, 0, false, "x")
	e.done("AddFailure for another consumer", func() error {
		got, err := s.AddFailure(e.ctx, "other", "m-1", "y")
		if err == nil {
			e.wantAttempts("another consumer", got, 1, 0, false, "y")
		}
		return err
	})
	var errs []string
	var last yekbar.Attempts
	for i := range 12 {
		text := fmt.Sprintf("failure %d", i)
		errs = append(errs, text)
		last = e.fail("m-1", text)
	}
	e.wantAttempts("many failures", last, 14, 0, false, errs[2:]...)
	for range 2 {
		e.done("ClearAttempts", func() error { return s.ClearAttempts(e.ctx, suite, "m-1") })
	}
	e.wantAttempts("the first failure after they were cleared", e.fail("m-1", "new"), 1, 0, false, "new")
	e.wantAttempts("another message, after that", e.fail("m-2", "z"), 2, 0, false, "x", "z")
	if got := e.fail("m-3", "NUL \x00 and bytes \xff\xfe"); got.Failed != 1 || len(got.Errors) != 1 {
		e.Errorf("a failure that is no text: %+v", got)
	}
	e.wantClaims(0)
}

func crashesCounted[Tx any](e *env[Tx]) {
	s := e.attempts()
	clearStart := func() { e.done("ClearStart", func() error { return s.ClearStart(e.ctx, suite, "m-1") }) }
	const within = 10 * time.Minute
	clearStart() // of nothing
	e.wantAttempts("a start", e.begin("m-1", within), 0, 0, false)
	e.wantAttempts("another one meanwhile", e.begin("m-1", within), 0, 0, true)
	e.wantAttempts("another message", e.begin("m-2", within), 0, 0, false)
	e.later(11 * time.Minute)
	e.wantAttempts("a start after one without an end", e.begin("m-1", within), 0, 1, false)
	e.wantAttempts("another one meanwhile", e.begin("m-1", within), 0, 1, true)
	e.wantAttempts("a failure, which ends it", e.fail("m-1", "one"), 1, 1, false, "one")
	e.later(11 * time.Minute)
	e.wantAttempts("a start after one that failed", e.begin("m-1", within), 1, 1, false, "one")
	clearStart()
	e.wantAttempts("a start after one that was given back", e.begin("m-1", within), 1, 1, false, "one")
	clearStart()
	e.later(11 * time.Minute)
	e.wantAttempts("a start long after one that was given back", e.begin("m-1", within), 1, 1, false, "one")
	e.later(11 * time.Minute)
	e.wantAttempts("a start after the second crash", e.begin("m-1", within), 1, 2, false, "one")
	e.done("ClearAttempts", func() error { return s.ClearAttempts(e.ctx, suite, "m-1") })
	e.wantAttempts("a start after all was cleared", e.begin("m-1", within), 0, 0, false)
}

func attemptsRace[Tx any](e *env[Tx]) {
	s := e.attempts()
	const n = 8
	var mu sync.Mutex
	each := func(fn func() (yekbar.Attempts, error)) (all []yekbar.Attempts) {
		var wait sync.WaitGroup
		for range n {
			wait.Go(func() {
				got, err := retry(e.ctx, fn)
				if err != nil {
					e.Errorf("%d at once: %v", n, err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, got)
			})
		}
		wait.Wait()
		return all
	}
	counts := map[int]bool{}
	for _, a := range each(func() (yekbar.Attempts, error) { return s.AddFailure(e.ctx, suite, "m-1", "failure") }) {
		counts[a.Failed] = true
	}
	if len(counts) != n || !counts[n] {
		e.Errorf("%d failures at once were counted as %v", n, counts)
	}
	for round := range 2 {
		began := 0
		for _, a := range each(func() (yekbar.Attempts, error) { return s.Start(e.ctx, suite, "m-2", time.Hour) }) {
			if !a.Running {
				began++
			}
			if a.Crashed != round {
				e.Errorf("a start, %d at once: %d crashes are counted, want %d", n, a.Crashed, round)
			}
		}
		if began != 1 {
			e.Errorf("of %d starts at once %d began, want one", n, began)
		}
		e.later(2 * time.Hour)
	}
}

func holdClears[Tx any](e *env[Tx]) {
	s := e.holding()
	for _, state := range []yekbar.State{yekbar.StateParked, yekbar.StateDead} {
		id := string(state)
		e.fail(id, "one")
		e.begin(id, time.Minute)
		if !e.take(s, held(id, state, yekbar.ReasonAttempts)) {
			e.Error("Hold of a new message was answered with: applied meanwhile")
		}
		e.later(time.Hour)
		e.wantAttempts("a failure after Hold", e.fail(id, "new"), 1, 0, false, "new")
	}
}
