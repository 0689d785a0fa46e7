package yekbar

import (
	"context"
	"time"
)

// A Window is the time within which a consumer's repeats are recognised.
type Window struct {
	// Watermark is up to when claims may be gone: a message that the broker
	// received before it, and that has no claim, may have been applied.
	Watermark time.Time
	// Now is the database's clock.
	Now time.Time
}

// A RetentionStore deletes applied claims that are past their deduplication
// window.
type RetentionStore interface {
	// Watermark publishes, before anything is deleted, up to when claims may
	// be gone, and returns what is in force: the zero time while nothing has
	// been. It moves to the database's time less retention, but never back,
	// nor to before the consumer was first seen, and never faster than twice
	// as fast as time passes from call to call. More than ten minutes between
	// two calls count as ten: a consumer that was down for long prunes
	// nothing that a redelivery could still need. KeepForever does not move
	// it.
	Watermark(ctx context.Context, consumer string, retention time.Duration) (Window, error)
	// Prune deletes up to limit claims that were applied before a watermark
	// that has been published for at least a minute, with their results and
	// attempts. It looks at a bounded number of claims and goes on there at
	// the next call; more says that it has not come to their end. One
	// instance prunes a consumer at a time; another one gets 0 and false.
	Prune(ctx context.Context, consumer string, limit int) (deleted int, more bool, err error)
}
