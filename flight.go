package yekbar

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A flight lets one copy of a message at a time go to the database, so that
// the others wait in memory and not on a connection each.
type flight struct {
	mu   sync.Mutex
	gone map[string]chan struct{} // closed when the copy that is in flight has left
}

// tryEnter reports whether id was free and is now the caller's, who must
// leave; otherwise wait is closed when it becomes free.
func (f *flight) tryEnter(id string) (wait <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, taken := f.gone[id]; taken {
		return c, false
	}
	if f.gone == nil {
		f.gone = make(map[string]chan struct{})
	}
	f.gone[id] = make(chan struct{})
	return nil, true
}

func (f *flight) leave(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.gone[id])
	delete(f.gone, id)
}

// enter waits at most longest, then ErrInFlight.
func (f *flight) enter(ctx context.Context, id string, longest time.Duration) error {
	wait, ok := f.tryEnter(id)
	if ok {
		return nil
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for !ok {
		select {
		case <-wait:
			wait, ok = f.tryEnter(id)
		case <-timer.C:
			return fmt.Errorf("%w in this process, after %v", ErrInFlight, longest)
		case <-ctx.Done():
			return callerGone(ctx, ctx.Err())
		}
	}
	return nil
}
