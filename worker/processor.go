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
// Tx. Users need not implement it.
type Processor interface {
	Name() string
	// Unwrap returns the store, in which optional abilities are found with
	// yekbar.Find.
	Unwrap() any
	// Process returns nil only after COMMIT.
	Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error)
	ProcessBatch(ctx context.Context, ms []*yekbar.Message) []yekbar.BatchResult
}

var _ Processor = (*yekbar.Consumer[int])(nil)

// What a Processor may also say about itself.
type (
	// A scoped processor knows whether the topic, or the like, is a part of
	// its identities.
	scoped interface{ Scoped() bool }
	// A bounded processor says how long an attempt may take.
	bounded interface{ Timeout() time.Duration }
	// An identifier knows the claim of a message.
	identifier interface {
		Identify(m *yekbar.Message) (yekbar.Claim, error)
	}
)

var _ interface {
	scoped
	bounded
	identifier
} = (*yekbar.Consumer[int])(nil)

// mismatches says what about source, processor and configuration doesn't go
// together.
func mismatches(caps broker.Capabilities, p Processor, c Config) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("yekbar/worker: consumer %q: "+format, append([]any{p.Name()}, args...)...))
	}
	if s, ok := p.(scoped); ok && caps.ManyTopics && !s.Scoped() {
		bad("the source covers several topics, which may use the same IDs: set yekbar.Config.Scope to ScopeTopic, or to ScopeGlobal when IDs are unique over all of them")
	}
	if b, ok := p.(bounded); ok && caps.Lease > 0 && !caps.Extendable && b.Timeout() >= caps.Lease {
		bad("a handler may take %v, the broker's lease ends after %v and can't be extended: lower yekbar.Config.Timeout or raise the lease", b.Timeout(), caps.Lease)
	}
	if caps.MaxAttempts > 0 && caps.MaxAttempts <= c.MaxAttempts {
		bad("the broker gives up after %d deliveries, the worker sets aside after %d: raise the broker's limit above it, or lower Config.MaxAttempts", caps.MaxAttempts, c.MaxAttempts)
	}
	return errors.Join(errs...)
}
