package yekbar

import (
	"context"
	"time"
)

// Attempts is what became of a message so far that is neither applied nor
// held.
type Attempts struct {
	Failed  int      // attempts that ended in an error of the message's own
	Crashed int      // starts alone in a process that had no end
	Errors  []string // of the failed ones, newest last, at most ten
	// Running: a start stands that may still end, in another process.
	Running bool
}

// An AttemptStore remembers failed attempts, and starts of suspects, over
// restarts and for all workers. It has rows only for messages that failed, or
// were delivered again without a reason that is known; in good times it is
// empty.
type AttemptStore interface {
	// AddFailure records a failed attempt, which ends a start, and returns
	// what there is now.
	AddFailure(ctx context.Context, consumer, messageID, failure string) (Attempts, error)
	// Start records that a suspect is handled alone, and must have ended
	// within the given time. A start that stands and is past its time was a
	// crash and is counted; one that is not makes Running true, and then
	// nothing is recorded.
	Start(ctx context.Context, consumer, messageID string, within time.Duration) (Attempts, error)
	// ClearStart ends a start without a failure: the message was given back.
	ClearStart(ctx context.Context, consumer, messageID string) error
	// ClearAttempts forgets all about a message: it was applied.
	ClearAttempts(ctx context.Context, consumer, messageID string) error
}
