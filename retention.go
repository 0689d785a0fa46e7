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
	// be gone, and returns what is in force. It moves to the database's time
	// less retention, but never back, and never faster than twice as fast as
	// time passed since the call before: a consumer that was down for long
	// prunes nothing that a redelivery could still need. KeepForever does
	// not move it.
	Watermark(ctx context.Context, consumer string, retention time.Duration) (Window, error)
	// Prune deletes up to limit claims, with their results, that were applied
	// before a watermark that has been published for at least a minute. One
	// instance prunes a consumer at a time; another one gets 0.
	Prune(ctx context.Context, consumer string, limit int) (deleted int, err error)
}
