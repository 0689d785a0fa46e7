package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

// Hold implements yekbar.HoldingStore. It waits for an attempt in flight until
// ctx ends.
func (s *Store) Hold(ctx context.Context, h *yekbar.HeldMessage) (held bool, err error) {
	if h.State != yekbar.StateParked && h.State != yekbar.StateDead {
		return false, fmt.Errorf("memstore: hold of message %q of consumer %q: state %q: use parked or dead", h.MessageID, h.Consumer, h.State)
	}
	k := claimKey{h.Consumer, h.MessageID}
	err = s.settled(ctx, "hold", k, func() error {
		held = s.hold(k, h)
		return nil
	})
	return held, err
}

func (s *Store) hold(k claimKey, h *yekbar.HeldMessage) (held bool) {
	switch s.claims[k].state {
	case yekbar.StateApplied:
		if h.Reason != yekbar.ReasonBoundary {
			return false
		}
	case yekbar.StateDead:
		return true
	}
	now := s.now()
	s.claims[k] = claim{state: h.State, fingerprint: slices.Clone(h.Fingerprint), at: now}
	delete(s.attempts, k)
	kept := copyHeld(*h)
	kept.At, kept.Due, kept.Delay = now, time.Time{}, 0
	if h.State == yekbar.StateParked {
		kept.Due = now.Add(h.Delay)
	}
	if old, ok := s.held[k]; ok {
		kept.Position = old.Position
	} else {
		s.position++
		kept.Position = s.position
	}
	s.held[k] = kept
	return true
}

// settled calls fn, with the lock held, when no attempt at the message is in
// flight.
func (s *Store) settled(ctx context.Context, what string, k claimKey, fn func() error) error {
	for {
		landed, err := s.ifSettled(k, fn)
		if landed == nil {
			return err
		}
		if _, err := s.await(ctx, landed, nil); err != nil {
			return fmt.Errorf("memstore: %s: message %q of consumer %q: %w", what, k.messageID, k.consumer, err)
		}
	}
}

func (s *Store) ifSettled(k claimKey, fn func() error) (landed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flying[k]; f != nil {
		return f.landed, nil
	}
	return nil, fn()
}

// TakeDue implements yekbar.HoldingStore.
func (s *Store) TakeDue(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memstore: parked messages of consumer %q: %w", consumer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	heads := map[string]int64{} // the first position of each key
	var due []yekbar.HeldMessage
	for _, h := range s.held {
		if h.Consumer != consumer {
			continue
		}
		if first, ok := heads[h.Message.OrderingKey]; h.Ordered && (!ok || h.Position < first) {
			heads[h.Message.OrderingKey] = h.Position
		}
		if h.State == yekbar.StateParked && !h.Due.After(now) {
			due = append(due, h)
		}
	}
	due = slices.DeleteFunc(due, func(h yekbar.HeldMessage) bool {
		return h.Ordered && heads[h.Message.OrderingKey] != h.Position
	})
	slices.SortFunc(due, func(a, b yekbar.HeldMessage) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Position, b.Position))
	})
	var taken []*yekbar.HeldMessage
	for _, h := range due[:min(limit, len(due))] {
		h.Due = now.Add(lease)
		s.held[claimKey{h.Consumer, h.MessageID}] = h
		h = copyHeld(h)
		taken = append(taken, &h)
	}
	return taken, nil
}

// HeldKeys implements yekbar.HoldingStore.
func (s *Store) HeldKeys(ctx context.Context, consumer string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memstore: held keys of consumer %q: %w", consumer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[string]bool{}
	for _, h := range s.held {
		if h.Consumer == consumer && h.Ordered {
			keys[h.Message.OrderingKey] = true
		}
	}
	return slices.Sorted(maps.Keys(keys)), nil
}

func copyHeld(h yekbar.HeldMessage) yekbar.HeldMessage {
	h.Raw, h.Fingerprint, h.Errors = slices.Clone(h.Raw), slices.Clone(h.Fingerprint), slices.Clone(h.Errors)
	h.Message.Payload, h.Message.Header = slices.Clone(h.Message.Payload), slices.Clone(h.Message.Header)
	for i := range h.Message.Header {
		h.Message.Header[i].Value = slices.Clone(h.Message.Header[i].Value)
	}
	return h
}
