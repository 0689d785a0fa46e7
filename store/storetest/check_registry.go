package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

func registryChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "another subscription is refused until it is confirmed", run: subscriptions[Tx], single: true},
		{name: "a renamed consumer takes all along", run: renames[Tx]},
		{name: "a former name is refused", run: formerNames[Tx], single: true},
		{name: "of a message that both names claimed the applied claim stays", run: renamesBoth[Tx]},
		{name: "positions are kept by partition", run: positionsKept[Tx], single: true},
	}
}

func (e *env[Tx]) register(consumer, subscription string, former ...string) error {
	s := e.registry()
	_, err := retry(e.ctx, func() (struct{}, error) {
		return struct{}{}, s.Register(e.ctx, yekbar.Registration{Consumer: consumer, Subscription: subscription, FormerNames: former})
	})
	return err
}

func (e *env[Tx]) mustRegister(consumer, subscription string, former ...string) {
	e.Helper()
	if err := e.register(consumer, subscription, former...); err != nil {
		e.Fatalf("Register of %q over %q, formerly %q: %v", consumer, subscription, former, err)
	}
}

// registerAtOnce is mustRegister by four workers that start at the same moment.
func (e *env[Tx]) registerAtOnce(consumer, subscription string, former ...string) {
	e.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := e.register(consumer, subscription, former...); err != nil {
				e.Errorf("Register of %q over %q, formerly %q, four at once: %v", consumer, subscription, former, err)
			}
		})
	}
	all.Wait()
}

func subscriptions[Tx any](e *env[Tx]) {
	s := e.registry()
	want := func(stored, subscription string) {
		e.Helper()
		var se *yekbar.SubscriptionError
		if err := e.register(suite, subscription); !errors.As(err, &se) || *se != (yekbar.SubscriptionError{Consumer: suite, Stored: stored, Subscription: subscription}) {
			e.Errorf("Register over %q, when it was over %q: error %v", subscription, stored, err)
		}
	}
	e.mustRegister(suite, "")
	e.registerAtOnce(suite, "nats A/x")
	for range 2 {
		e.mustRegister(suite, "nats A/x")
		e.mustRegister(suite, "")
		want("nats A/x", "nats B/x")
		want("nats A/x", "nats a/x")
	}
	e.mustRegister("other", "nats B/x")
	e.done("ConfirmSubscription", func() error { return s.ConfirmSubscription(e.ctx, suite, "nats B/x", someone) })
	e.mustRegister(suite, "nats B/x")
	want("nats B/x", "nats A/x")
	if e.features.Operator {
		e.wantActions("confirm ")
	}
}

func (e *env[Tx]) of(consumer, id string) []yekbar.Claim {
	c := claim(id)
	c.Consumer = consumer
	return []yekbar.Claim{c}
}

func (e *env[Tx]) wantOf(consumer, id string, state yekbar.State) yekbar.Claimed {
	e.Helper()
	got, err := e.settle(e.of(consumer, id), e.adds("unwanted"))
	if err != nil || got[0].Fresh || got[0].State != state {
		e.Fatalf("a delivery of %q to %q: %+v, %v; want one that is not fresh, state %q", id, consumer, got, err, state)
	}
	return got[0]
}

func renames[Tx any](e *env[Tx]) {
	e.registry()
	const many = 250
	for i := range many {
		e.apply(fmt.Sprintf("m-%03d", i), e.adds("n"))
	}
	e.applyWithResult("m-result", "result")
	e.mustRegister(suite, "nats A/x")
	held, claims := 0, many+1
	if e.features.Holding {
		e.park("parked", 0)
		e.bury("dead")
		held, claims = 2, claims+2
	}
	if e.features.Attempts {
		e.fail("failing", "one")
	}
	if e.features.Positions {
		e.done("SavePositions", func() error { return e.positions().SavePositions(e.ctx, suite, map[string]string{"a": "1", "b": "2"}) })
		e.done("SavePositions", func() error { return e.positions().SavePositions(e.ctx, "new", map[string]string{"b": "3"}) })
	}
	if e.features.Operator {
		e.done("SetPaused", func() error { return e.operator().SetPaused(e.ctx, suite, true, someone) })
	}
	e.registerAtOnce("new", "nats A/x", suite) // by all workers of a new release
	e.mustRegister("new", "nats A/x", suite)   // as every start does

	for i := range many {
		e.wantOf("new", fmt.Sprintf("m-%03d", i), yekbar.StateApplied)
	}
	if got := e.wantOf("new", "m-result", yekbar.StateApplied); string(got.Result) != "result" {
		e.Errorf("the result of a message after its consumer was renamed: %q", got.Result)
	}
	e.wantClaims(claims)
	if e.features.Holding {
		e.wantOf("new", "parked", yekbar.StateParked)
		e.wantOf("new", "dead", yekbar.StateDead)
		hs := get(e, "TakeDue", func() ([]*yekbar.HeldMessage, error) { return e.holding().TakeDue(e.ctx, "new", 10, time.Hour) })
		if len(hs) != 1 || hs[0].MessageID != "parked" || hs[0].Consumer != "new" {
			e.Errorf("TakeDue after the consumer was renamed: %+v", hs)
		}
		e.wantDue(10, time.Hour)
		e.wantHeld(held)
	}
	if e.features.Attempts {
		got := get(e, "AddFailure", func() (yekbar.Attempts, error) { return e.attempts().AddFailure(e.ctx, "new", "failing", "two") })
		e.wantAttempts("a failure after the consumer was renamed", got, 2, 0, false, "one", "two")
	}
	if e.features.Positions {
		e.wantPositions("new", map[string]string{"a": "1", "b": "3"})
		e.wantPositions(suite, nil)
	}
	if e.features.Operator {
		if st := e.status("new"); !st.Paused || st.PausedBy != someone {
			e.Errorf("the status of a paused consumer after it was renamed: %+v", st)
		}
		if st := e.status(suite); st.Name != "" {
			e.Errorf("a name that a consumer had is listed among the consumers: %+v", st)
		}
	}
	e.wantCounter("unwanted", 0)
}

func formerNames[Tx any](e *env[Tx]) {
	want := func(former, now string) {
		e.Helper()
		var re *yekbar.RenamedError
		if err := e.register(former, "s"); !errors.As(err, &re) || *re != (yekbar.RenamedError{Consumer: former, Now: now}) {
			e.Errorf("Register of %q, which is %q now: error %v", former, now, err)
		}
	}
	e.mustRegister("one", "s")
	e.mustRegister("two", "s", "one", "unborn")
	want("one", "two")
	want("unborn", "two")
	e.mustRegister("three", "s", "two", "one", "three")
	for _, former := range []string{"one", "two", "unborn"} {
		want(former, "three")
	}
	if err := e.register("thief", "s", "one"); err == nil {
		e.Error("a second consumer took over a former name of another")
	}
	e.mustRegister("three", "s")
}

func renamesBoth[Tx any](e *env[Tx]) {
	e.registry()
	s := e.holding()
	states := []yekbar.State{yekbar.StateApplied, yekbar.StateParked, yekbar.StateDead}
	put := func(consumer, id string, state yekbar.State) {
		if state == yekbar.StateApplied {
			if got, err := e.settle(e.of(consumer, id), e.adds("n")); err != nil || !got[0].Fresh {
				e.Fatalf("Attempt: %+v, %v", got, err)
			}
			return
		}
		h := held(id, state, yekbar.ReasonPermanent)
		h.Consumer = consumer
		if !e.take(s, h) {
			e.Fatal("Hold of a new message was answered with: applied meanwhile")
		}
	}
	all, stays := map[string]yekbar.State{}, 0
	for _, old := range states {
		for _, own := range states {
			id := fmt.Sprintf("%s-%s", old, own)
			put("old", id, old)
			put(suite, id, own)
			all[id] = own
			if old == yekbar.StateApplied {
				all[id] = old
			}
			if all[id] != yekbar.StateApplied {
				stays++
			}
		}
	}
	e.mustRegister(suite, "s", "old")
	for _, id := range slices.Sorted(maps.Keys(all)) {
		e.wantOf(suite, id, all[id])
	}
	e.wantClaims(len(all))
	e.wantHeld(stays)
	e.wantCounter("unwanted", 0)
}

func (e *env[Tx]) wantPositions(consumer string, want map[string]string) {
	e.Helper()
	got := get(e, "Positions", func() (map[string]string, error) { return e.positions().Positions(e.ctx, consumer) })
	if !maps.Equal(got, want) {
		e.Errorf("positions of %q: %q, want %q", consumer, got, want)
	}
}

func positionsKept[Tx any](e *env[Tx]) {
	s := e.positions()
	save := func(consumer string, ps map[string]string) {
		e.Helper()
		e.done("SavePositions", func() error { return s.SavePositions(e.ctx, consumer, ps) })
	}
	e.wantPositions(suite, nil)
	save(suite, nil)
	save(suite, map[string]string{"orders/0": "17", "orders/1": "4", "Orders/1": "odd", "": "alone"})
	save("other", map[string]string{"orders/0": "1"})
	save(suite, map[string]string{"orders/1": "5", "orders/2": ""})
	e.wantPositions(suite, map[string]string{"orders/0": "17", "orders/1": "5", "Orders/1": "odd", "": "alone", "orders/2": ""})
	save(suite, map[string]string{"orders/0": "3"}) // after a rewind
	e.wantPositions(suite, map[string]string{"orders/0": "3", "orders/1": "5", "Orders/1": "odd", "": "alone", "orders/2": ""})
	e.wantPositions("other", map[string]string{"orders/0": "1"})
}
