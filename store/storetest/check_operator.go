package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

func operatorChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "a dead message is replayed", run: replays[Tx], single: true},
		{name: "a corrected payload is replayed, and the old one kept", run: replaysPayload[Tx]},
		{name: "a parked message is made due", run: makesDue[Tx]},
		{name: "a held message is discarded", run: discards[Tx], single: true},
		{name: "a claim is forgotten", run: forgets[Tx], single: true},
		{name: "changes by hand wait for an attempt in flight", run: operatorInFlight[Tx]},
		{name: "consumers are paused", run: pauses[Tx]},
		{name: "how consumers stand", run: statuses[Tx]},
		{name: "who did it and why are required", run: actors[Tx]},
	}
}

func replays[Tx any](e *env[Tx]) {
	s := e.operator()
	replay := func(id string) error { return s.Replay(e.ctx, suite, id, nil, someone) }
	e.refused("Replay of what was never held", yekbar.ErrNotHeld, func() error { return replay("m-1") })
	want := e.bury("m-1", func(h *yekbar.HeldMessage) {
		h.Message.Header = yekbar.Header{{Name: "b", Value: []byte("1")}, {Name: "a", Value: []byte("2")}}
	})
	before := e.one("m-1")
	e.bury("others", func(h *yekbar.HeldMessage) { h.Consumer, h.MessageID = "other", "m-1" })
	e.park("parked", time.Hour)
	e.refused("Replay of what is parked", yekbar.ErrNotHeld, func() error { return replay("parked") })

	e.done("Replay", func() error { return replay("m-1") })
	want.State, want.Reason, want.Attempts, want.Errors = yekbar.StateParked, yekbar.ReasonReplayed, 0, nil
	after := e.one("m-1")
	e.wantWhole(after, want)
	if after.Position != before.Position {
		e.Errorf("Replay moved the message from position %d to %d", before.Position, after.Position)
	}
	e.wantState("m-1", yekbar.StateParked)
	e.refused("Replay again", yekbar.ErrNotHeld, func() error { return replay("m-1") })
	e.wantDue(10, time.Hour, "m-1") // and not that of the other consumer
	e.unpark("m-1", "n")
	e.refused("Replay of what was applied", yekbar.ErrNotHeld, func() error { return replay("m-1") })
	e.wantState("m-1", yekbar.StateApplied)
	e.wantCounter("n", 1)
	e.wantHeld(2)
	e.wantActions("replay m-1")
}

func replaysPayload[Tx any](e *env[Tx]) {
	s := e.operator()
	old := []byte("payload of m-1")
	for i, payload := range [][]byte{[]byte("corrected \x00\xff"), {}} {
		want := e.bury(fmt.Sprintf("m-%d", i+1))
		id := want.MessageID
		e.done("Replay", func() error { return s.Replay(e.ctx, suite, id, payload, someone) })
		want.State, want.Reason, want.Attempts, want.Errors = yekbar.StateParked, yekbar.ReasonReplayed, 0, nil
		want.Message.Payload = payload
		e.wantWhole(e.one(id), want)
		e.wantState(id, yekbar.StateParked) // with the first fingerprint: a late copy rests
	}
	e.bury("m-3")
	e.done("Replay", func() error { return s.Replay(e.ctx, suite, "m-3", nil, someone) })
	log := e.audit(yekbar.AuditFilter{})
	if len(log) != 3 || string(log[2].Detail) != string(old) || string(log[1].Detail) != "payload of m-2" || log[0].Detail != nil {
		e.Errorf("the audit log: %+v; want the payloads that were replaced", log)
	}
}

func makesDue[Tx any](e *env[Tx]) {
	s := e.operator()
	due := func(id string) error { return s.MakeDue(e.ctx, suite, id, someone) }
	e.park("m-1", time.Hour)
	e.park("m-2", time.Hour)
	e.bury("dead")
	e.done("MakeDue", func() error { return due("m-1") })
	e.wantDue(10, time.Hour, "m-1")
	e.done("MakeDue, of what is leased", func() error { return due("m-1") })
	e.wantDue(10, time.Hour, "m-1")
	e.refused("MakeDue of a dead message", yekbar.ErrNotHeld, func() error { return due("dead") })
	e.unpark("m-1", "n")
	e.refused("MakeDue of an applied message", yekbar.ErrNotHeld, func() error { return due("m-1") })
	e.wantActions("due m-1", "due m-1")
}

func discards[Tx any](e *env[Tx]) {
	s := e.operator()
	discard := func(id string) error { return s.Discard(e.ctx, suite, id, someone) }
	e.refused("Discard of what was never held", yekbar.ErrNotHeld, func() error { return discard("k-1") })
	e.bury("k-1", ofKey("k"))
	e.park("k-2", 0, ofKey("k"))
	e.park("k-3", 0, ofKey("k"))
	e.wantDue(10, time.Hour)
	e.done("Discard", func() error { return discard("k-1") })
	e.wantState("k-1", yekbar.StateDead)
	e.wantHeld(2)
	e.wantDue(10, time.Hour, "k-2") // the key goes on
	e.done("Discard", func() error { return discard("k-2") })
	e.wantState("k-2", yekbar.StateDead)
	e.wantDue(10, time.Hour, "k-3")
	for _, id := range []string{"k-1", "k-2"} {
		e.refused("Discard again", yekbar.ErrNotHeld, func() error { return discard(id) })
		if !e.take(e.holding(), held(id, yekbar.StateDead, yekbar.ReasonAttempts)) {
			e.Error("Hold of a late copy of what was discarded was answered with: applied meanwhile")
		}
	}
	e.wantHeld(1)
	if got, err := e.tryUnpark("k-2", "n"); err != nil || got.Fresh || got.State != yekbar.StateDead {
		e.Errorf("a message that was discarded while it was leased, handled: %+v, %v; want one that is not fresh, state dead", got, err)
	}
	e.unpark("k-3", "n")
	e.refused("Discard of an applied message", yekbar.ErrNotHeld, func() error { return discard("k-3") })
	e.wantCounter("n", 1)
	e.wantClaims(3)
	e.wantActions("discard k-1", "discard k-2")
}

func forgets[Tx any](e *env[Tx]) {
	s := e.operator()
	forget := func(id string) error { return s.Forget(e.ctx, suite, id, someone) }
	e.refused("Forget of what was never claimed", yekbar.ErrNoClaim, func() error { return forget("m-1") })
	e.applyWithResult("m-1", "result")
	e.applyWithResult("m-2", "result")
	got := get(e, "Claim", func() (yekbar.Claimed, error) { return s.Claim(e.ctx, suite, "m-1") })
	if got.Fresh || got.State != yekbar.StateApplied || string(got.Result) != "result" || string(got.Fingerprint) != string(fingerprintOf("m-1")) || got.At.IsZero() {
		e.Errorf("Claim: %+v, want what was stored", got)
	}
	e.done("Forget", func() error { return forget("m-1") })
	e.refused("Claim of what was forgotten", yekbar.ErrNoClaim, func() error {
		_, err := s.Claim(e.ctx, suite, "m-1")
		return err
	})
	e.refused("Forget again", yekbar.ErrNoClaim, func() error { return forget("m-1") })
	e.wantClaims(1)
	e.wantAgain("m-1")
	e.wantResult("m-2", "result")

	if e.features.Holding && e.features.Attempts {
		e.bury("m-3")
		e.fail("m-3", "one")
		e.done("Forget of a held message", func() error { return forget("m-3") })
		e.wantHeld(0)
		e.wantAttempts("a failure after Forget", e.fail("m-3", "two"), 1, 0, false, "two")
		e.wantAgain("m-3")
	}
}

// wantAgain asserts that a message is applied again, without its old result.
func (e *env[Tx]) wantAgain(id string) {
	e.Helper()
	if !e.apply(id, e.adds("again")) {
		e.Errorf("message %q was not applied again", id)
	}
	e.wantResult(id, "")
}

// wantResult asserts that a repeat gets a result; "" is none.
func (e *env[Tx]) wantResult(id, want string) {
	e.Helper()
	got, err := e.settle(claimsOf(id), e.adds("unwanted"))
	if err != nil || got[0].Fresh || string(got[0].Result) != want {
		e.Errorf("a repeat of %q: %+v, %v; want one that is not fresh, with the result %q", id, got, err, want)
	}
	e.wantCounter("unwanted", 0)
}

func operatorInFlight[Tx any](e *env[Tx]) {
	e.need2()
	s := e.operator()
	e.holding()
	for _, action := range []struct {
		name   string
		act    func(id string) error
		missed error // when the message was applied before
	}{
		{"discard", func(id string) error { return s.Discard(e.ctx, suite, id, someone) }, yekbar.ErrNotHeld},
		{"forget", func(id string) error { return s.Forget(e.ctx, suite, id, someone) }, nil},
	} {
		for _, commit := range []bool{true, false} {
			id := fmt.Sprintf("%s-%v", action.name, commit)
			e.park(id, time.Hour)
			first := e.holdClaim(func() yekbar.Claim { c := claim(id); c.FromParked = true; return c }(), id)
			acting := e.start(func() ([]yekbar.Claimed, error) {
				_, err := retry(e.ctx, func() (struct{}, error) { return struct{}{}, action.act(id) })
				return nil, err
			})
			e.blocked(acting)
			want := error(nil)
			if commit {
				first.release <- nil
				want = action.missed
			} else {
				first.release <- errBusiness
			}
			if e.await(first.running, "the attempt"); commit && first.err != nil {
				e.Errorf("%s: the attempt: %v", id, first.err)
			}
			if e.await(acting, action.name); !errors.Is(acting.err, want) {
				e.Errorf("%s during an attempt (that commits: %v): error %v, want %v", action.name, commit, acting.err, want)
			}
			e.wantCounter(id, map[bool]int{true: 1}[commit])
			if got, err := e.tryUnpark(id, id); err != nil || got.Fresh {
				e.Errorf("%s, then the message handled: %+v, %v; want one that is not fresh", action.name, got, err)
			}
		}
	}
	e.wantHeld(0)
}

func pauses[Tx any](e *env[Tx]) {
	s := e.operator()
	paused := func(consumer string, want bool, who yekbar.Actor) {
		e.Helper()
		e.done("Paused", func() error {
			by, got, err := s.Paused(e.ctx, consumer)
			if err == nil && (got != want || by != who) {
				e.Errorf("consumer %q: paused: %v by %+v, want %v by %+v", consumer, got, by, want, who)
			}
			return err
		})
	}
	other := yekbar.Actor{Name: "another", Reason: "really \x00\xff"}
	paused(suite, false, yekbar.Actor{})
	for _, by := range []yekbar.Actor{someone, other} {
		e.done("SetPaused", func() error { return s.SetPaused(e.ctx, suite, true, by) })
		paused(suite, true, by)
	}
	paused("other", false, yekbar.Actor{})
	st := e.status(suite)
	if !st.Paused || st.PausedBy != other || st.PausedAt.IsZero() {
		e.Errorf("a paused consumer's status: %+v", st)
	}
	e.done("SetPaused", func() error { return s.SetPaused(e.ctx, suite, false, someone) })
	paused(suite, false, yekbar.Actor{})
	if st := e.status(suite); st.Paused || st.PausedBy != (yekbar.Actor{}) || !st.PausedAt.IsZero() {
		e.Errorf("the status of a consumer that was resumed: %+v", st)
	}
	e.wantActions("pause ", "pause ", "resume ")
}

// status returns the status of a consumer, or the zero value.
func (e *env[Tx]) status(consumer string) yekbar.ConsumerStatus {
	e.Helper()
	s := e.operator()
	all := get(e, "Consumers", func() ([]yekbar.ConsumerStatus, error) { return s.Consumers(e.ctx) })
	if !slices.IsSortedFunc(all, func(a, b yekbar.ConsumerStatus) int { return cmp.Compare(a.Name, b.Name) }) {
		e.Errorf("Consumers is not sorted by name: %+v", all)
	}
	var found yekbar.ConsumerStatus
	for _, st := range all {
		if st.Name == consumer {
			found = st
		}
	}
	if c, ok := yekbar.Find[yekbar.HeldCounter](e.Store); ok {
		n := get(e, "CountHeld", func() (yekbar.ConsumerStatus, error) { return c.CountHeld(e.ctx, consumer) })
		if n.Name != consumer || n.Parked != found.Parked || n.Dead != found.Dead || !maps.Equal(n.Reasons, found.Reasons) || !n.OldestParked.Equal(found.OldestParked) {
			e.Errorf("CountHeld says %+v, Consumers %+v", n, found)
		}
	}
	return found
}

func statuses[Tx any](e *env[Tx]) {
	s := e.operator()
	if got := get(e, "Consumers", func() ([]yekbar.ConsumerStatus, error) { return s.Consumers(e.ctx) }); len(got) != 0 {
		e.Errorf("consumers of an empty database: %+v", got)
	}
	e.apply("m-1", e.adds("n"))
	e.bury("m-2")
	e.bury("m-3", func(h *yekbar.HeldMessage) { h.Reason = yekbar.ReasonCrash })
	e.park("m-4", time.Hour)
	e.later(time.Hour)
	e.park("m-5", time.Hour)
	e.bury("m-6", func(h *yekbar.HeldMessage) { h.Consumer = "held" })
	e.done("SetPaused", func() error { return s.SetPaused(e.ctx, "waiting", true, someone) })
	st := e.status(suite)
	want := map[string]int64{yekbar.ReasonPermanent: 1, yekbar.ReasonCrash: 1, yekbar.ReasonDelayed: 2}
	if st.Parked != 2 || st.Dead != 2 || fmt.Sprint(st.Reasons) != fmt.Sprint(want) {
		e.Errorf("status: %+v, want 2 parked and 2 dead, by reason %v", st, want)
	}
	if at := e.one("m-4").At; !st.OldestParked.Equal(at) {
		e.Errorf("the oldest parked message is from %v, want %v", st.OldestParked, at)
	}
	at := get(e, "Claim", func() (yekbar.Claimed, error) { return s.Claim(e.ctx, suite, "m-1") }).At
	if !st.LastApplied.Equal(at) {
		e.Errorf("the last message was applied at %v, want %v", st.LastApplied, at)
	}
	if st := e.status("held"); st.Dead != 1 || st.Parked != 0 || !st.LastApplied.IsZero() || !st.OldestParked.IsZero() {
		e.Errorf("the status of a consumer with one dead message: %+v", st)
	}
	if st := e.status("waiting"); st.Name != "waiting" || !st.Paused || st.Dead+st.Parked != 0 {
		e.Errorf("the status of a consumer that was paused before its first message: %+v", st)
	}
}

func actors[Tx any](e *env[Tx]) {
	s := e.operator()
	e.bury("dead")
	e.park("parked", time.Hour)
	for _, by := range []yekbar.Actor{{}, {Name: "someone"}, {Reason: "because"}, {Name: " ", Reason: "because"}, {Name: "someone", Reason: "\t\n"}} {
		for name, act := range map[string]func() error{
			"Replay":  func() error { return s.Replay(e.ctx, suite, "dead", []byte("new"), by) },
			"MakeDue": func() error { return s.MakeDue(e.ctx, suite, "parked", by) },
			"Discard": func() error { return s.Discard(e.ctx, suite, "dead", by) },
			"Forget":  func() error { return s.Forget(e.ctx, suite, "dead", by) },
			"pause":   func() error { return s.SetPaused(e.ctx, suite, true, by) },
			"resume":  func() error { return s.SetPaused(e.ctx, suite, false, by) },
			"ConfirmSubscription": func() error {
				r, ok := yekbar.Find[yekbar.RegistryStore](e.Store)
				if !ok {
					return errors.New("not there")
				}
				return r.ConfirmSubscription(e.ctx, suite, "s", by)
			},
		} {
			if act() == nil {
				e.Errorf("%s by %+v did not fail", name, by)
			}
		}
	}
	e.wantState("dead", yekbar.StateDead)
	e.wantState("parked", yekbar.StateParked)
	e.wantHeld(2)
	e.wantDue(10, time.Hour)
	e.wantActions()
	if e.status(suite).Paused {
		e.Error("the consumer is paused")
	}
}
