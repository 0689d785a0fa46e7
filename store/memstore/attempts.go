package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

// tried is what is known of a message that failed, or was started and had no
// end.
type tried struct {
	failed, crashed int
	errors          []string
	until           time.Time // when a start must have ended; zero: none stands
}

// keptErrors is how many errors of a message are remembered.
const keptErrors = 10

func (t tried) attempts() yekbar.Attempts {
	return yekbar.Attempts{Failed: t.failed, Crashed: t.crashed, Errors: slices.Clone(t.errors)}
}

// AddFailure implements yekbar.AttemptStore.
func (s *Store) AddFailure(ctx context.Context, consumer, messageID, failure string) (yekbar.Attempts, error) {
	return s.try(ctx, claimKey{consumer, messageID}, func(t *tried, _ time.Time) yekbar.Attempts {
		t.failed++
		t.errors = append(t.errors, failure)
		t.errors = slices.Clone(t.errors[max(0, len(t.errors)-keptErrors):])
		t.until = time.Time{}
		return t.attempts()
	})
}

// Start implements yekbar.AttemptStore.
func (s *Store) Start(ctx context.Context, consumer, messageID string, within time.Duration) (yekbar.Attempts, error) {
	return s.try(ctx, claimKey{consumer, messageID}, func(t *tried, now time.Time) yekbar.Attempts {
		if t.until.After(now) {
			a := t.attempts()
			a.Running = true
			return a
		}
		if !t.until.IsZero() {
			t.crashed++
		}
		t.until = now.Add(within)
		return t.attempts()
	})
}

// ClearStart implements yekbar.AttemptStore.
func (s *Store) ClearStart(ctx context.Context, consumer, messageID string) error {
	_, err := s.try(ctx, claimKey{consumer, messageID}, func(t *tried, _ time.Time) yekbar.Attempts {
		t.until = time.Time{}
		return yekbar.Attempts{}
	})
	return err
}

// ClearAttempts implements yekbar.AttemptStore.
func (s *Store) ClearAttempts(ctx context.Context, consumer, messageID string) error {
	_, err := s.try(ctx, claimKey{consumer, messageID}, func(t *tried, _ time.Time) yekbar.Attempts {
		*t = tried{}
		return yekbar.Attempts{}
	})
	return err
}

// try changes what is known of a message; when that is nothing, there is no
// row.
func (s *Store) try(ctx context.Context, k claimKey, change func(t *tried, now time.Time) yekbar.Attempts) (yekbar.Attempts, error) {
	if err := ctx.Err(); err != nil {
		return yekbar.Attempts{}, fmt.Errorf("memstore: attempts at message %q of consumer %q: %w", k.messageID, k.consumer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.attempts[k]
	a := change(&t, s.now())
	if t.failed == 0 && t.crashed == 0 && t.until.IsZero() {
		delete(s.attempts, k)
	} else {
		s.attempts[k] = t
	}
	return a, nil
}
