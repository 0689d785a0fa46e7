package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
)

// ability returns what the store declares to be, or skips the check.
func ability[T any, Tx any](e *env[Tx], declared bool, feature string) T {
	e.Helper()
	e.need(declared, feature)
	s, ok := yekbar.Find[T](e.Store)
	if !ok {
		e.Fatalf("the store declares Features.%s and does not implement %T", feature, new(T))
	}
	return s
}

func (e *env[Tx]) holding() yekbar.HoldingStore {
	e.Helper()
	return ability[yekbar.HoldingStore](e, e.features.Holding, "Holding")
}

func (e *env[Tx]) attempts() yekbar.AttemptStore {
	e.Helper()
	return ability[yekbar.AttemptStore](e, e.features.Attempts, "Attempts")
}

func (e *env[Tx]) operator() yekbar.OperatorStore {
	e.Helper()
	return ability[yekbar.OperatorStore](e, e.features.Operator, "Operator")
}

func (e *env[Tx]) retention() yekbar.RetentionStore {
	e.Helper()
	return ability[yekbar.RetentionStore](e, e.features.Retention, "Retention")
}

func (e *env[Tx]) registry() yekbar.RegistryStore {
	e.Helper()
	return ability[yekbar.RegistryStore](e, e.features.Registry, "Registry")
}

func (e *env[Tx]) positions() yekbar.PositionStore {
	e.Helper()
	return ability[yekbar.PositionStore](e, e.features.Positions, "Positions")
}

// done is fn, repeated while the store says "try again"; it must succeed.
func (e *env[Tx]) done(what string, fn func() error) {
	e.Helper()
	get(e, what, func() (struct{}, error) { return struct{}{}, fn() })
}

// get is done for what returns a value.
func get[T any, Tx any](e *env[Tx], what string, fn func() (T, error)) T {
	e.Helper()
	v, err := retry(e.ctx, fn)
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
	return v
}

// refused is fn, repeated while the store says "try again"; it must fail with
// the error.
func (e *env[Tx]) refused(what string, target error, fn func() error) {
	e.Helper()
	_, err := retry(e.ctx, func() (struct{}, error) { return struct{}{}, fn() })
	if !errors.Is(err, target) {
		e.Errorf("%s: error %v, want %v", what, err, target)
	}
}

func (e *env[Tx]) later(d time.Duration) {
	e.Helper()
	if e.Later == nil {
		e.Fatal("storetest: Instance.Later is required with Features.Holding, Attempts or Retention")
	}
	if err := e.Later(e.ctx, d); err != nil {
		e.Fatalf("Later(%v): %v", d, err)
	}
}

func abilityChecks[Tx any]() []check[Tx] {
	return []check[Tx]{{name: "abilities are as declared", run: declaredAbilities[Tx]}}
}

func declaredAbilities[Tx any](e *env[Tx]) {
	f := e.features
	undeclared(e, f.Attempts, "Attempts", func(s yekbar.AttemptStore) error {
		_, err := s.AddFailure(e.ctx, suite, "m-1", "failure")
		return err
	})
	undeclared(e, f.Operator, "Operator", func(s yekbar.OperatorStore) error {
		return s.SetPaused(e.ctx, suite, true, someone)
	})
	undeclared(e, f.Retention, "Retention", func(s yekbar.RetentionStore) error {
		_, err := s.Watermark(e.ctx, suite, time.Hour)
		return err
	})
	undeclared(e, f.Registry, "Registry", func(s yekbar.RegistryStore) error {
		return s.Register(e.ctx, yekbar.Registration{Consumer: suite})
	})
	undeclared(e, f.Positions, "Positions", func(s yekbar.PositionStore) error {
		return s.SavePositions(e.ctx, suite, map[string]string{"p": "1"})
	})
}

// undeclared asserts that an ability is there when it is declared, and else is
// not, or says so.
func undeclared[T any, Tx any](e *env[Tx], declared bool, feature string, use func(T) error) {
	e.Helper()
	s, ok := yekbar.Find[T](e.Store)
	switch {
	case declared && !ok:
		e.Errorf("the store declares Features.%s and does not implement %T", feature, new(T))
	case !declared && ok:
		if err := use(s); !errors.Is(err, yekbar.ErrUnsupported) {
			e.Errorf("the store does not declare Features.%s, and has it: %v", feature, err)
		}
	}
}

// someone is who does things by hand.
var someone = yekbar.Actor{Name: "someone", Reason: "because"}

// park holds a message as parked.
func (e *env[Tx]) park(id string, delay time.Duration, change ...func(*yekbar.HeldMessage)) *yekbar.HeldMessage {
	e.Helper()
	return e.put(id, yekbar.StateParked, yekbar.ReasonDelayed, append(change, func(h *yekbar.HeldMessage) { h.Delay = delay })...)
}

// bury holds a message as dead.
func (e *env[Tx]) bury(id string, change ...func(*yekbar.HeldMessage)) *yekbar.HeldMessage {
	e.Helper()
	return e.put(id, yekbar.StateDead, yekbar.ReasonPermanent, change...)
}

func (e *env[Tx]) put(id string, state yekbar.State, reason string, change ...func(*yekbar.HeldMessage)) *yekbar.HeldMessage {
	e.Helper()
	h := held(id, state, reason)
	for _, c := range change {
		c(h)
	}
	if !e.take(e.holding(), h) {
		e.Fatalf("Hold of the new message %q was answered with: applied meanwhile", id)
	}
	return h
}

// ofKey makes a held message one of an ordering key, in order.
func ofKey(key string) func(*yekbar.HeldMessage) {
	return func(h *yekbar.HeldMessage) { h.Ordered, h.Message.OrderingKey = true, key }
}

// due is TakeDue; it returns the messages' IDs as they came.
func (e *env[Tx]) due(limit int, lease time.Duration) []string {
	e.Helper()
	hs := get(e, "TakeDue", func() ([]*yekbar.HeldMessage, error) { return e.holding().TakeDue(e.ctx, suite, limit, lease) })
	if len(hs) > limit {
		e.Errorf("TakeDue(limit %d) gave %d messages", limit, len(hs))
	}
	ids := make([]string, len(hs))
	for i, h := range hs {
		ids[i] = h.MessageID
		if h.Consumer != suite || h.State != yekbar.StateParked {
			e.Errorf("TakeDue gave message %q of consumer %q in state %s", h.MessageID, h.Consumer, h.State)
		}
	}
	return ids
}

// unpark applies a parked message, which must be parked.
func (e *env[Tx]) unpark(id, key string) {
	e.Helper()
	got, err := e.tryUnpark(id, key)
	if err != nil || !got.Fresh {
		e.Fatalf("taking over the parked message %q: %+v, %v; want a fresh claim", id, got, err)
	}
}

func (e *env[Tx]) tryUnpark(id, key string) (yekbar.Claimed, error) {
	c := claim(id)
	c.FromParked = true
	got, err := e.settle([]yekbar.Claim{c}, e.adds(key))
	if err != nil {
		return yekbar.Claimed{}, err
	}
	return got[0], nil
}

func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%02d", prefix, i)
	}
	return ids
}
