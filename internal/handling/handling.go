// Package handling lets a worker see when a consumer's handlers run, so that
// it notices one that does not end.
package handling

import (
	"context"
	"time"
)

// A Watch is told that a handler begins, with the message it was given (nil:
// several at once) and the time it may take; end is called when it has
// returned.
type Watch func(message any, limit time.Duration) (end func())

type key struct{}

// WithWatch returns a context in which handlers are watched.
func WithWatch(ctx context.Context, w Watch) context.Context {
	return context.WithValue(ctx, key{}, w)
}

// Begin tells the context's Watch, if it has one.
func Begin(ctx context.Context, message any, limit time.Duration) (end func()) {
	if w, ok := ctx.Value(key{}).(Watch); ok {
		return w(message, limit)
	}
	return func() {}
}
