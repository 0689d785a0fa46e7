package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

func holdChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "Hold takes over what nobody has", run: holdNew[Tx], single: true},
		{name: "Hold leaves what was applied, unless the boundary broke", run: holdApplied[Tx]},
		{name: "Hold again: parked is replaced, dead stays", run: holdAgain[Tx]},
		{name: "Hold takes any content", run: holdContent[Tx]},
		{name: "Hold waits for an attempt in flight", run: holdInFlight[Tx]},
		{name: "Hold against Attempt: one of them", run: holdRace[Tx]},
		{name: "Hold by several: one held message", run: holdSeveral[Tx]},
		{name: "a parked message is taken over by an attempt", run: fromParked[Tx], single: true},
		{name: "without Features.Holding there is no HoldingStore", run: holdUndeclared[Tx]},
	}
}

func held(id string, state yekbar.State, reason string) *yekbar.HeldMessage {
	h := &yekbar.HeldMessage{
		Consumer: suite, MessageID: id, State: state, Reason: reason, Fingerprint: fingerprintOf(id),
		Message: yekbar.Message{ID: id, Topic: "orders", Payload: []byte("payload of " + id)},
		Errors:  []string{"first error", "second error"}, Attempts: 2,
	}
	if state == yekbar.StateParked {
		h.Delay = time.Hour
	}
	return h
}

// take is Hold, repeated while the store says "try again".
func (e *env[Tx]) take(s yekbar.HoldingStore, h *yekbar.HeldMessage) bool {
	e.Helper()
	ok, err := retry(e.ctx, func() (bool, error) { return s.Hold(e.ctx, h) })
	if err != nil {
		e.Errorf("Hold of %q as %s (%s): %v", h.MessageID, h.State, h.Reason, err)
	}
	return ok
}

func (e *env[Tx]) wantState(id string, want yekbar.State) {
	e.Helper()
	got, err := e.settle(claimsOf(id), e.adds("unwanted"))
	if err != nil || got[0].Fresh || got[0].State != want {
		e.Errorf("a delivery of %q: %+v, %v; want one that is not fresh, state %q", id, got, err, want)
		return
	}
	if !bytes.Equal(got[0].Fingerprint, fingerprintOf(id)) {
		e.Errorf("a delivery of %q: fingerprint %x, want %x", id, got[0].Fingerprint, fingerprintOf(id))
	}
	e.wantCounter("unwanted", 0)
}

func holdUndeclared[Tx any](e *env[Tx]) {
	if e.features.Holding {
		e.Skip("the store declares Features.Holding")
	}
	if s, ok := yekbar.Find[yekbar.HoldingStore](e.Store); ok {
		_, err := s.Hold(e.ctx, held("m-1", yekbar.StateDead, yekbar.ReasonPermanent))
		e.wantError(err, yekbar.ErrUnsupported)
	}
	e.wantClaims(0)
}

func holdNew[Tx any](e *env[Tx]) {
	s := e.holding()
	for i, state := range []yekbar.State{yekbar.StateDead, yekbar.StateParked} {
		id := string(state)
		if !e.take(s, held(id, state, yekbar.ReasonPermanent)) {
			e.Errorf("Hold of a new message as %s was answered with: applied meanwhile", state)
		}
		e.wantClaims(i + 1)
		e.wantHeld(i + 1)
		e.wantState(id, state)
	}
	other := held("dead", yekbar.StateDead, yekbar.ReasonPermanent)
	other.Consumer = "other"
	if !e.take(s, other) {
		e.Error("Hold for another consumer was answered with: applied meanwhile")
	}
	e.wantClaims(3)
	e.wantHeld(3)
}

func holdApplied[Tx any](e *env[Tx]) {
	s := e.holding()
	e.apply("m-1", e.adds("n"))
	for _, reason := range []string{yekbar.ReasonPermanent, yekbar.ReasonAttempts, yekbar.ReasonConflict, yekbar.ReasonIdentity, yekbar.ReasonUndecodable} {
		for _, state := range []yekbar.State{yekbar.StateDead, yekbar.StateParked} {
			if e.take(s, held("m-1", state, reason)) {
				e.Errorf("Hold (%s, %s) took over a message that was applied", state, reason)
			}
			e.wantClaims(1)
			e.wantHeld(0)
			e.wantState("m-1", yekbar.StateApplied)
		}
	}
	if !e.take(s, held("m-1", yekbar.StateDead, yekbar.ReasonBoundary)) {
		e.Error("Hold after a broken boundary left the claim applied: a redelivery would rest on it")
	}
	e.wantClaims(1)
	e.wantHeld(1)
	e.wantState("m-1", yekbar.StateDead)
	e.wantCounter("n", 1)
}

func holdAgain[Tx any](e *env[Tx]) {
	s := e.holding()
	for _, step := range []struct{ state, want yekbar.State }{
		{yekbar.StateParked, yekbar.StateParked},
		{yekbar.StateParked, yekbar.StateParked},
		{yekbar.StateDead, yekbar.StateDead},
		{yekbar.StateParked, yekbar.StateDead},
		{yekbar.StateDead, yekbar.StateDead},
	} {
		if !e.take(s, held("m-1", step.state, yekbar.ReasonPermanent)) {
			e.Errorf("Hold as %s, to be %s, was answered with: applied meanwhile", step.state, step.want)
		}
		e.wantClaims(1)
		e.wantHeld(1)
		e.wantState("m-1", step.want)
	}
}

func holdContent[Tx any](e *env[Tx]) {
	s := e.holding()
	for i, h := range heldContents() {
		if !e.take(s, h) {
			e.Errorf("Hold of %q was answered with: applied meanwhile", h.MessageID)
		}
		e.wantHeld(i + 1)
	}
	e.wantClaims(len(heldContents()))
}

func holdInFlight[Tx any](e *env[Tx]) {
	s := e.holding()
	for i, commit := range []bool{true, false} {
		id := fmt.Sprintf("m-%d", i)
		first := e.hold(id, id)
		took := make(chan bool, 1)
		taking := e.start(func() ([]yekbar.Claimed, error) {
			took <- e.take(s, held(id, yekbar.StateDead, yekbar.ReasonPermanent))
			return nil, nil
		})
		e.blocked(taking)
		if commit {
			first.release <- nil
		} else {
			first.release <- errBusiness
		}
		if e.await(first.running, "the attempt"); commit && first.err != nil {
			e.Errorf("the attempt: %v", first.err)
		}
		e.await(taking, "Hold")
		if <-took == commit {
			e.Errorf("Hold during an attempt (that commits: %v) was answered with held: %v", commit, commit)
		}
	}
	e.wantHeld(1)
	e.wantClaims(2)
	e.wantState("m-0", yekbar.StateApplied)
	e.wantState("m-1", yekbar.StateDead)
}

func holdRace[Tx any](e *env[Tx]) {
	s := e.holding()
	const rounds = 40
	holds, applies := 0, 0
	for i := range rounds {
		id := fmt.Sprintf("m-%d", i)
		var took, fresh bool
		var both sync.WaitGroup
		hold := func() { took = e.take(s, held(id, yekbar.StateDead, yekbar.ReasonPermanent)) }
		attempt := func() {
			got, err := e.settle(claimsOf(id), e.adds(id))
			if err != nil {
				e.Errorf("Attempt beside Hold: %v", err)
				return
			}
			fresh = got[0].Fresh
		}
		if i%2 == 0 {
			hold, attempt = attempt, hold
		}
		both.Go(hold)
		both.Go(attempt)
		both.Wait()
		if took == fresh {
			e.Fatalf("round %d: held: %v, applied: %v; want one of them", i, took, fresh)
		}
		want := 0
		if fresh {
			applies, want = applies+1, 1
		} else {
			holds++
		}
		e.wantCounter(id, want)
	}
	e.wantClaims(rounds)
	e.wantHeld(holds)
	e.Logf("%d applied, %d held", applies, holds)
}

func holdSeveral[Tx any](e *env[Tx]) {
	s := e.holding()
	const rounds = 12
	for i := range rounds {
		id := fmt.Sprintf("m-%d", i)
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				state := yekbar.StateDead
				if n%2 == 0 {
					state = yekbar.StateParked
				}
				if !e.take(s, held(id, state, yekbar.ReasonAttempts)) {
					e.Errorf("round %d: Hold, four at once, was answered with: applied meanwhile", i)
				}
			})
		}
		all.Wait()
		e.wantState(id, yekbar.StateDead) // which stays, whenever it came
		e.wantHeld(i + 1)
	}
	e.wantClaims(rounds)
}

func fromParked[Tx any](e *env[Tx]) {
	s := e.holding()
	take := claim("m-1")
	take.FromParked = true
	attempt := func(fn body[Tx]) (yekbar.Claimed, error) {
		got, err := e.settle([]yekbar.Claim{take}, fn)
		if err != nil {
			return yekbar.Claimed{}, err
		}
		return got[0], nil
	}
	if got, err := attempt(e.adds("n")); err != nil || got.Fresh || got.State != "" {
		e.Errorf("taking over a message that has no claim: %+v, %v; want one that is not fresh, without a state", got, err)
	}
	e.wantClaims(0)
	e.take(s, held("m-1", yekbar.StateParked, yekbar.ReasonPermanent))
	_, err := attempt(func(ctx context.Context, tx Tx, fresh []int) error {
		return errors.Join(e.adds("n")(ctx, tx, fresh), errBusiness)
	})
	e.wantError(err, errBusiness)
	e.wantState("m-1", yekbar.StateParked)
	if got, err := attempt(e.adds("n")); err != nil || !got.Fresh {
		e.Errorf("taking over a parked message: %+v, %v; want a fresh claim", got, err)
	}
	if got, err := attempt(e.adds("n")); err != nil || got.Fresh || got.State != yekbar.StateApplied {
		e.Errorf("taking over a parked message again: %+v, %v; want one that is not fresh, state applied", got, err)
	}
	e.wantClaims(1)
	e.wantCounter("n", 1)
	e.wantState("m-1", yekbar.StateApplied)

	e.take(s, held("m-2", yekbar.StateDead, yekbar.ReasonPermanent))
	take = claim("m-2")
	take.FromParked = true
	if got, err := attempt(e.adds("n")); err != nil || got.Fresh || got.State != yekbar.StateDead {
		e.Errorf("taking over a dead message as if it were parked: %+v, %v; want one that is not fresh, state dead", got, err)
	}
	e.wantCounter("n", 1)

	e.take(s, held("m-3", yekbar.StateParked, yekbar.ReasonPermanent))
	take = claim("m-3")
	take.FromParked = true
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := attempt(e.adds("once")); err != nil {
				e.Errorf("two take over a parked message: %v", err)
			}
		})
	}
	both.Wait()
	e.wantCounter("once", 1)
}
