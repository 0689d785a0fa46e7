package yekbar

import "context"

// An Observer sees operations begin and end, in every package. It must be safe
// for concurrent use and quick: operations wait for it. end may be nil.
type Observer interface {
	Observe(ctx context.Context, op Operation) (opCtx context.Context, end func(OperationEnd))
}

// An Operation is something that takes time: "process", "settle".
type Operation struct {
	Name     string
	Consumer string
	Messages []*Message
	Attempt  int // of this call, from 1
}

// An OperationEnd says how it went.
type OperationEnd struct {
	Results []BatchResult // belong to Operation.Messages
	Err     error
}

// A Cause is the message that a write comes from. Handlers' contexts carry it;
// a transaction never travels this way.
type Cause struct {
	Consumer string
	Message  *Message
}

type causeKey struct{}

// CauseFrom returns the context's cause.
func CauseFrom(ctx context.Context) (Cause, bool) {
	c, ok := ctx.Value(causeKey{}).(Cause)
	return c, ok
}

// WithCause sets the cause: in a BatchHandler, where Yekbar can't know which
// message a write comes from.
func WithCause(ctx context.Context, c Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}
