package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

// Hold implements yekbar.HoldingStore. It waits for an attempt in flight until
// ctx ends.
func (s *Store) Hold(ctx context.Context, h *yekbar.HeldMessage) (held bool, err error) {
	k := claimKey{h.Consumer, h.MessageID}
	for {
		held, landed := s.tryHold(k, h)
		if landed == nil {
			return held, nil
		}
		if _, err := s.await(ctx, landed, nil); err != nil {
			return false, fmt.Errorf("memstore: hold of message %q of consumer %q: %w", h.MessageID, h.Consumer, err)
		}
	}
}

func (s *Store) tryHold(k claimKey, h *yekbar.HeldMessage) (held bool, landed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flying[k]; f != nil {
		return false, f.landed
	}
	switch s.claims[k].state {
	case yekbar.StateApplied:
		if h.Reason != yekbar.ReasonBoundary {
			return false, nil
		}
	case yekbar.StateDead:
		return true, nil
	}
	now := time.Now().UTC()
	s.claims[k] = claim{state: h.State, fingerprint: slices.Clone(h.Fingerprint), at: now}
	kept := copyHeld(*h)
	kept.At = now
	s.held[k] = kept
	return true, nil
}

// Held returns the held messages, sorted by consumer and message ID.
func (s *Store) Held() []yekbar.HeldMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hs []yekbar.HeldMessage
	for _, h := range s.held {
		hs = append(hs, copyHeld(h))
	}
	slices.SortFunc(hs, func(a, b yekbar.HeldMessage) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.MessageID, b.MessageID))
	})
	return hs
}

func copyHeld(h yekbar.HeldMessage) yekbar.HeldMessage {
	h.Raw, h.Fingerprint, h.Errors = slices.Clone(h.Raw), slices.Clone(h.Fingerprint), slices.Clone(h.Errors)
	h.Message.Payload, h.Message.Header = slices.Clone(h.Message.Payload), slices.Clone(h.Message.Header)
	for i := range h.Message.Header {
		h.Message.Header[i].Value = slices.Clone(h.Message.Header[i].Value)
	}
	return h
}
