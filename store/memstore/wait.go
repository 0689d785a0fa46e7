package memstore

import (
	"context"
	"fmt"
	"time"
)

// await waits until a flight has landed, and returns false when timeout came
// first. A nil timeout never comes.
func (s *Store) await(ctx context.Context, landed <-chan struct{}, timeout <-chan time.Time) (bool, error) {
	s.waiting(1)
	defer s.waiting(-1)
	select {
	case <-landed:
		return true, nil
	case <-timeout:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (s *Store) waiting(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits += n
	close(s.waited)
	s.waited = make(chan struct{})
}

// AwaitWaiters returns once n calls wait for a claim in flight, so that a test
// can have them wait before it goes on.
func (s *Store) AwaitWaiters(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		waits, changed := s.waits, s.waited
		s.mu.Unlock()
		if waits >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("memstore: %d of %d calls wait for a claim: %w", waits, n, ctx.Err())
		}
	}
}
