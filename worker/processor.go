package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// A Processor is what a Worker drives; *yekbar.Consumer[Tx] is one for every
// Tx. Users need not implement it; who wraps one embeds it.
type Processor interface {
	Name() string
	// Unwrap returns the store, in which optional abilities are found with
	// yekbar.Find.
	Unwrap() any
	// Scoped reports whether the topic, or the like, is a part of identities.
	Scoped() bool
	// Timeout is the longest time that a handler may take.
	Timeout() time.Duration
	// Retention is how long claims are kept.
	Retention() time.Duration
	// Identify returns the claim of a message.
	Identify(m *yekbar.Message) (yekbar.Claim, error)
	// Process returns nil only after COMMIT.
	Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error)
	ProcessBatch(ctx context.Context, ms []*yekbar.Message) []yekbar.BatchResult
	// ProcessHeld is Process for a message that was parked.
	ProcessHeld(ctx context.Context, h *yekbar.HeldMessage) (yekbar.Result, error)
}

var _ Processor = (*yekbar.Consumer[int])(nil)

// mismatches says what about source, processor and configuration doesn't go
// together.
func (w *Worker) mismatches() error {
	caps, p, c := w.caps, w.p, w.config
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("yekbar/worker: consumer %q: "+format, append([]any{p.Name()}, args...)...))
	}
	if caps.ManyTopics && !p.Scoped() {
		bad("the source covers several topics, which may use the same IDs: set yekbar.Config.Scope to ScopeTopic, or to ScopeGlobal when IDs are unique over all of them")
	}
	if caps.Lease > 0 && !caps.Extendable && p.Timeout() >= caps.Lease {
		bad("a handler may take %v, the broker's lease ends after %v and can't be extended: lower yekbar.Config.Timeout or raise the lease", p.Timeout(), caps.Lease)
	}
	if caps.MaxAttempts > 0 && caps.MaxAttempts <= c.MaxAttempts {
		bad("the broker gives up after %d deliveries, the worker sets aside after %d: raise the broker's limit above it, or lower Config.MaxAttempts", caps.MaxAttempts, c.MaxAttempts)
	}
	if caps.Redelivery > 0 && p.Retention() != yekbar.KeepForever && p.Retention() < caps.Redelivery && c.AllowShortRetention == "" {
		bad("claims are kept for %v, and the broker may deliver again for %v: a late repeat would take effect twice; raise yekbar.Config.Retention, or write down in Config.AllowShortRetention why that can't happen", p.Retention(), caps.Redelivery)
	}
	affinity := caps.KeyAffinity || c.SingleProcess
	switch {
	case c.Order == ByKey && !affinity:
		bad("Order is ByKey, and the broker may give messages of one key to several processes: set Config.SingleProcess when there is only one, or use a subscription with key affinity, or Unordered")
	case c.Order == ByKey && w.holding == nil:
		bad("Order is ByKey, and the store, a %T, can't hold messages of a key that must wait: use a yekbar.HoldingStore, or Unordered", p.Unwrap())
	case c.Order == Strict && (!affinity || caps.Order != broker.Total):
		bad("Order is Strict, which needs a broker with a total order and, as your word in Config.SingleProcess, no other process")
	}
	return errors.Join(errs...)
}
