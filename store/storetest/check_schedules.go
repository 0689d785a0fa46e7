package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

// The schedules in which a message is easily done twice, or held twice.
func scheduleChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "schedule: dead, then a crash before the acknowledgement", run: deadThenCrash[Tx], single: true},
		{name: "schedule: lease lost, applied elsewhere, then dead", run: appliedThenDead[Tx], single: true},
		{name: "schedule: dead, sent again, replayed", run: deadThenReplayed[Tx], single: true},
		{name: "schedule: a parked copy and a broker's copy at the same moment", run: parkedAndBroker[Tx]},
		{name: "schedule: replayed, discarded and handled at the same moment", run: replayedAndDiscarded[Tx]},
	}
}

// deliver is a delivery by the broker: what a worker does when the handler
// succeeds.
func (e *env[Tx]) deliver(id string, fresh bool, state yekbar.State) {
	e.Helper()
	got, err := e.settle(claimsOf(id), e.adds(id))
	if err != nil || got[0].Fresh != fresh || !fresh && got[0].State != state {
		e.Errorf("a delivery of %q: %+v, %v; want fresh: %v, state %q", id, got, err, fresh, state)
	}
}

func deadThenCrash[Tx any](e *env[Tx]) {
	s := e.holding()
	if _, err := e.settle(claimsOf("m-1"), e.failing("m-1")); err == nil {
		e.Error("an attempt whose function failed succeeded")
	}
	e.bury("m-1")
	e.deliver("m-1", false, yekbar.StateDead) // the next delivery, in another process
	for range 2 {                             // or one that fails before it claims
		if !e.take(s, held("m-1", yekbar.StateDead, yekbar.ReasonUndecodable)) {
			e.Error("Hold of a dead message was answered with: applied meanwhile")
		}
		if !e.take(s, held("m-1", yekbar.StateParked, yekbar.ReasonDelayed)) {
			e.Error("Hold of a dead message as parked was answered with: applied meanwhile")
		}
	}
	e.deliver("m-1", false, yekbar.StateDead)
	if e.features.Operator {
		if h := e.one("m-1"); h.Reason != yekbar.ReasonPermanent || h.State != yekbar.StateDead {
			e.Errorf("the dead message was held anew: %+v", h)
		}
	}
	e.wantDue(10, time.Hour)
	e.wantHeld(1)
	e.wantClaims(1)
	e.wantCounter("m-1", 0)
}

func appliedThenDead[Tx any](e *env[Tx]) {
	s := e.holding()
	if _, err := e.settle(claimsOf("m-1"), e.failing("m-1")); err == nil {
		e.Error("an attempt whose function failed succeeded")
	}
	e.deliver("m-1", true, "") // by another worker, when the first had lost its lease
	for _, state := range []yekbar.State{yekbar.StateDead, yekbar.StateParked} {
		if e.take(s, held("m-1", state, yekbar.ReasonAttempts)) {
			e.Errorf("Hold as %s took over what another worker had applied", state)
		}
	}
	e.deliver("m-1", false, yekbar.StateApplied)

	// The same with a parked message, whose lease ends.
	e.park("m-2", 0)
	e.wantDue(10, time.Minute, "m-2")
	e.later(2 * time.Minute)
	e.wantDue(10, time.Hour, "m-2")
	e.unpark("m-2", "m-2")
	if e.take(s, held("m-2", yekbar.StateDead, yekbar.ReasonAttempts)) {
		e.Error("Hold took over what another worker had unparked and applied")
	}
	if got, err := e.tryUnpark("m-2", "m-2"); err != nil || got.Fresh || got.State != yekbar.StateApplied {
		e.Errorf("a parked message that another worker had applied: %+v, %v", got, err)
	}
	e.wantHeld(0)
	e.wantClaims(2)
	e.wantCounter("m-1", 1)
	e.wantCounter("m-2", 1)
}

func deadThenReplayed[Tx any](e *env[Tx]) {
	s := e.operator()
	e.bury("m-1")
	e.deliver("m-1", false, yekbar.StateDead) // the producer's
	e.done("Replay", func() error { return s.Replay(e.ctx, suite, "m-1", nil, someone) })
	e.deliver("m-1", false, yekbar.StateParked)
	e.wantHeld(1)
	e.wantDue(10, time.Hour, "m-1")
	e.unpark("m-1", "m-1")
	e.deliver("m-1", false, yekbar.StateApplied)
	e.refused("Replay of what was applied", yekbar.ErrNotHeld, func() error { return s.Replay(e.ctx, suite, "m-1", nil, someone) })
	if e.take(e.holding(), held("m-1", yekbar.StateDead, yekbar.ReasonPermanent)) {
		e.Error("Hold took over what was replayed and applied")
	}
	e.wantHeld(0)
	e.wantClaims(1)
	e.wantCounter("m-1", 1)
}

func parkedAndBroker[Tx any](e *env[Tx]) {
	s := e.holding()
	const rounds = 12
	for i := range rounds {
		id := fmt.Sprintf("m-%d", i)
		e.park(id, 0)
		var all sync.WaitGroup
		var mu sync.Mutex
		fresh := 0
		count := func(what string, got yekbar.Claimed, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				e.Errorf("round %d: %s: %v", i, what, err)
			}
			if got.Fresh {
				fresh++
			}
		}
		for range 2 {
			all.Go(func() {
				got, err := e.tryUnpark(id, id)
				count("a parked copy", got, err)
			})
			all.Go(func() {
				got, err := e.settle(claimsOf(id), e.adds(id))
				if err != nil {
					got = []yekbar.Claimed{{}}
				}
				count("the broker's copy", got[0], err)
			})
		}
		all.Go(func() { e.take(s, held(id, yekbar.StateParked, yekbar.ReasonDelayed)) }) // which failed, and may come before or after
		all.Wait()
		if fresh != 1 {
			e.Fatalf("round %d: %d of the copies were fresh, want one", i, fresh)
		}
		e.wantCounter(id, 1)
		e.wantState(id, yekbar.StateApplied)
	}
	e.wantHeld(0)
	e.wantClaims(rounds)
}

func replayedAndDiscarded[Tx any](e *env[Tx]) {
	s := e.operator()
	const rounds = 12
	left := 0
	for i := range rounds {
		id := fmt.Sprintf("m-%d", i)
		e.bury(id)
		e.done("Replay", func() error { return s.Replay(e.ctx, suite, id, nil, someone) })
		var all sync.WaitGroup
		var discarded, applied bool
		all.Go(func() {
			_, err := retry(e.ctx, func() (struct{}, error) { return struct{}{}, s.Discard(e.ctx, suite, id, someone) })
			discarded = err == nil
		})
		all.Go(func() {
			got, err := e.tryUnpark(id, id)
			if err != nil {
				e.Errorf("round %d: taking over: %v", i, err)
			}
			applied = got.Fresh
		})
		all.Wait()
		if discarded == applied {
			e.Fatalf("round %d: discarded: %v, applied: %v; want one of them", i, discarded, applied)
		}
		want := map[bool]int{true: 1}[applied]
		left += want
		e.wantCounter(id, want)
	}
	e.wantHeld(0)
	e.wantClaims(rounds)
	e.Logf("%d applied, %d discarded", left, rounds-left)
}
