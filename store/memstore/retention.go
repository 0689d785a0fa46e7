package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

// Watermark implements yekbar.RetentionStore.
func (s *Store) Watermark(ctx context.Context, consumer string, retention time.Duration) (yekbar.Window, error) {
	if err := ctx.Err(); err != nil {
		return yekbar.Window{}, fmt.Errorf("memstore: watermark of consumer %q: %w", consumer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, c := s.now(), s.consumer(consumer)
	c.pruning = c.pruning.Advance(now, retention)
	s.consumers[consumer] = c
	return yekbar.Window{Watermark: c.pruning.Watermark, Now: now}, nil
}

// Prune implements yekbar.RetentionStore.
func (s *Store) Prune(ctx context.Context, consumer string, limit int) (deleted int, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, fmt.Errorf("memstore: prune consumer %q: %w", consumer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.consumers[consumer].pruning.Limit(s.now())
	var old []claimKey
	for k, c := range s.claims {
		if k.consumer == consumer && c.state == yekbar.StateApplied && c.at.Before(until) {
			old = append(old, k)
		}
	}
	slices.SortFunc(old, func(a, b claimKey) int { return cmp.Compare(a.messageID, b.messageID) })
	for _, k := range old[:min(limit, len(old))] {
		delete(s.claims, k) // and its result
		delete(s.attempts, k)
	}
	return min(limit, len(old)), len(old) > limit, nil
}
