package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

// Held implements yekbar.OperatorStore.
func (s *Store) Held(ctx context.Context, f yekbar.HeldFilter) iter.Seq2[*yekbar.HeldMessage, error] {
	return func(yield func(*yekbar.HeldMessage, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, fmt.Errorf("memstore: held messages: %w", err))
			return
		}
		for _, h := range s.heldAs(f) {
			if !yield(&h, nil) {
				return
			}
		}
	}
}

func (s *Store) heldAs(f yekbar.HeldFilter) []yekbar.HeldMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hs []yekbar.HeldMessage
	for _, h := range s.held {
		if is(f.Consumer, h.Consumer) && is(f.MessageID, h.MessageID) && is(f.Reason, h.Reason) && is(f.State, h.State) &&
			(f.After == 0 || h.Position < f.After) {
			hs = append(hs, copyHeld(h))
		}
	}
	slices.SortFunc(hs, func(a, b yekbar.HeldMessage) int { return cmp.Compare(b.Position, a.Position) })
	return first(hs, f.Limit)
}

// is compares with what a filter wants, if it wants anything.
func is[T ~string](want, got T) bool { return want == "" || want == got }

func first[T any](all []T, limit int) []T {
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all
}

// Replay implements yekbar.OperatorStore.
func (s *Store) Replay(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
	return s.change(ctx, yekbar.AuditEntry{Action: "replay", Consumer: consumer, MessageID: messageID, By: by}, func(k claimKey, e *yekbar.AuditEntry) error {
		h, ok := s.held[k]
		if !ok || h.State != yekbar.StateDead {
			return yekbar.ErrNotHeld
		}
		h.State, h.Reason, h.Due, h.Attempts, h.Errors = yekbar.StateParked, yekbar.ReasonReplayed, s.now(), 0, nil
		if payload != nil {
			e.Detail, h.Message.Payload = h.Message.Payload, slices.Clone(payload)
		}
		s.held[k] = h
		s.setState(k, yekbar.StateParked)
		return nil
	})
}

// MakeDue implements yekbar.OperatorStore.
func (s *Store) MakeDue(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return s.change(ctx, yekbar.AuditEntry{Action: "due", Consumer: consumer, MessageID: messageID, By: by}, func(k claimKey, _ *yekbar.AuditEntry) error {
		h, ok := s.held[k]
		if !ok || h.State != yekbar.StateParked {
			return yekbar.ErrNotHeld
		}
		h.Due = s.now()
		s.held[k] = h
		return nil
	})
}

// Discard implements yekbar.OperatorStore.
func (s *Store) Discard(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return s.change(ctx, yekbar.AuditEntry{Action: "discard", Consumer: consumer, MessageID: messageID, By: by}, func(k claimKey, _ *yekbar.AuditEntry) error {
		if _, ok := s.held[k]; !ok {
			return yekbar.ErrNotHeld
		}
		delete(s.held, k)
		s.setState(k, yekbar.StateDead)
		return nil
	})
}

// Forget implements yekbar.OperatorStore.
func (s *Store) Forget(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return s.change(ctx, yekbar.AuditEntry{Action: "forget", Consumer: consumer, MessageID: messageID, By: by}, func(k claimKey, _ *yekbar.AuditEntry) error {
		if _, ok := s.claims[k]; !ok {
			return yekbar.ErrNoClaim
		}
		delete(s.claims, k)
		delete(s.held, k)
		delete(s.attempts, k)
		return nil
	})
}

// change makes a change, and its entry in the audit log, when no attempt at
// the message is in flight.
func (s *Store) change(ctx context.Context, e yekbar.AuditEntry, fn func(claimKey, *yekbar.AuditEntry) error) error {
	if err := e.By.Validate(); err != nil {
		return err
	}
	k := claimKey{e.Consumer, e.MessageID}
	return s.settled(ctx, e.Action, k, func() error {
		if err := fn(k, &e); err != nil {
			return fmt.Errorf("memstore: %s: message %q of consumer %q: %w", e.Action, k.messageID, k.consumer, err)
		}
		s.log(e)
		return nil
	})
}

func (s *Store) setState(k claimKey, state yekbar.State) {
	c := s.claims[k]
	c.state = state
	s.claims[k] = c
}

func (s *Store) log(e yekbar.AuditEntry) {
	e.ID, e.At = int64(len(s.audit)+1), s.now()
	s.audit = append(s.audit, e)
}

// Record implements yekbar.OperatorStore.
func (s *Store) Record(_ context.Context, e yekbar.AuditEntry) error {
	if err := e.By.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Detail = bytes.Clone(e.Detail)
	s.log(e)
	return nil
}

// Claim implements yekbar.OperatorStore.
func (s *Store) Claim(_ context.Context, consumer, messageID string) (yekbar.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims[claimKey{consumer, messageID}]
	if !ok {
		return yekbar.Claimed{}, fmt.Errorf("memstore: message %q of consumer %q: %w", messageID, consumer, yekbar.ErrNoClaim)
	}
	return c.found(), nil
}

// Consumers implements yekbar.OperatorStore.
func (s *Store) Consumers(context.Context) ([]yekbar.ConsumerStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]yekbar.ConsumerStatus{}
	of := func(name string) yekbar.ConsumerStatus {
		if st, ok := all[name]; ok {
			return st
		}
		c := s.consumers[name]
		return yekbar.ConsumerStatus{
			Name: name, Subscription: c.subscription, Watermark: c.pruning.Watermark, Reasons: map[string]int64{},
			Paused: c.paused, PausedBy: c.pausedBy, PausedAt: c.pausedAt,
		}
	}
	for name, c := range s.consumers {
		if c.renamedTo == "" {
			all[name] = of(name)
		}
	}
	for k, c := range s.claims {
		st := of(k.consumer)
		if c.state == yekbar.StateApplied {
			st.LastApplied = later(st.LastApplied, c.at)
		}
		all[k.consumer] = st
	}
	for _, h := range s.held {
		st := of(h.Consumer)
		st.Reasons[h.Reason]++
		switch {
		case h.State == yekbar.StateDead:
			st.Dead++
		case st.Parked == 0 || h.At.Before(st.OldestParked):
			st.OldestParked = h.At
			fallthrough
		default:
			st.Parked++
		}
		all[h.Consumer] = st
	}
	return slices.SortedFunc(maps.Values(all), func(a, b yekbar.ConsumerStatus) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// CountHeld implements yekbar.HeldCounter.
func (s *Store) CountHeld(ctx context.Context, consumer string) (yekbar.ConsumerStatus, error) {
	all, err := s.Consumers(ctx)
	for _, c := range all {
		if c.Name == consumer {
			return c, err
		}
	}
	return yekbar.ConsumerStatus{Name: consumer, Reasons: map[string]int64{}}, err
}

// SetPaused implements yekbar.OperatorStore.
func (s *Store) SetPaused(_ context.Context, consumer string, paused bool, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.consumer(consumer)
	c.paused, c.pausedBy, c.pausedAt = false, yekbar.Actor{}, time.Time{}
	action := "resume"
	if paused {
		c.paused, c.pausedBy, c.pausedAt = true, by, s.now()
		action = "pause"
	}
	s.consumers[consumer] = c
	s.log(yekbar.AuditEntry{Action: action, Consumer: consumer, By: by})
	return nil
}

// Paused implements yekbar.OperatorStore.
func (s *Store) Paused(_ context.Context, consumer string) (by yekbar.Actor, paused bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.consumers[consumer]
	return c.pausedBy, c.paused, nil
}

// Audit implements yekbar.OperatorStore.
func (s *Store) Audit(ctx context.Context, f yekbar.AuditFilter) iter.Seq2[*yekbar.AuditEntry, error] {
	return func(yield func(*yekbar.AuditEntry, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, fmt.Errorf("memstore: audit log: %w", err))
			return
		}
		for _, e := range s.audited(f) {
			e.Detail = slices.Clone(e.Detail)
			if !yield(&e, nil) {
				return
			}
		}
	}
}

func (s *Store) audited(f yekbar.AuditFilter) []yekbar.AuditEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var es []yekbar.AuditEntry
	for _, e := range slices.Backward(s.audit) {
		if is(f.Consumer, e.Consumer) && (f.After == 0 || e.ID < f.After) {
			es = append(es, e)
		}
	}
	return first(es, f.Limit)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
