package yekbar

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// maxName is the longest consumer name, in bytes: what a key column holds
// beside the longest message_id.
const maxName = 255

// A Consumer makes each message take effect once. It is safe for concurrent
// use, by any number of goroutines, processes and machines over one database.
type Consumer[Tx any] struct {
	name    string
	store   Store[Tx]
	cfg     Config
	try     tryFunc
	flight  flight
	checked atomic.Bool   // the store's own checks have passed
	checks  chan struct{} // one caller at a time makes them
}

// NewConsumer checks the whole configuration, reports all problems at once,
// and connects to nothing. name is stored with every claim and must not
// change; it is at most 255 bytes of UTF-8.
func NewConsumer[Tx any](name string, s Store[Tx], h Handler[Tx], c Config) (*Consumer[Tx], error) {
	if h == nil {
		return newConsumer(name, s, nil, c)
	}
	return newConsumer(name, s, eachHandler(s, func(ctx context.Context, tx Tx, m *Message) ([]byte, error) {
		return nil, h(ctx, tx, m)
	}), c)
}

// NewResultConsumer is NewConsumer for a ResultHandler.
func NewResultConsumer[Tx any](name string, s Store[Tx], h ResultHandler[Tx], c Config) (*Consumer[Tx], error) {
	if h == nil {
		return newConsumer(name, s, nil, c)
	}
	return newConsumer(name, s, eachHandler(s, h), c)
}

// NewBatchConsumer is NewConsumer for a BatchHandler.
func NewBatchConsumer[Tx any](name string, s Store[Tx], h BatchHandler[Tx], c Config) (*Consumer[Tx], error) {
	if h == nil {
		return newConsumer(name, s, nil, c)
	}
	return newConsumer(name, s, wholeBatch(s, h), c)
}

// NewStatementConsumer is NewConsumer for a StatementHandler; the store must
// be a StatementStore, otherwise ErrUnsupported.
func NewStatementConsumer[Tx any](name string, s Store[Tx], h StatementHandler, c Config) (*Consumer[Tx], error) {
	ss, ok := Find[StatementStore](s)
	if s != nil && !ok {
		return nil, fmt.Errorf("yekbar: consumer %q: NewStatementConsumer over a %T: %w: use NewConsumer", name, s, ErrUnsupported)
	}
	if h == nil {
		return newConsumer(name, s, nil, c)
	}
	return newConsumer(name, s, statements(ss, h), c)
}

func newConsumer[Tx any](name string, s Store[Tx], try tryFunc, c Config) (*Consumer[Tx], error) {
	errs := []error{c.Validate()}
	if p := nameProblem(name); p != "" {
		errs = append(errs, fmt.Errorf("yekbar: the consumer's name %s", p))
	}
	if s == nil {
		errs = append(errs, errors.New("yekbar: the store is nil"))
	} else if v, ok := Find[Validator](s); ok {
		errs = append(errs, v.Validate())
	}
	if try == nil {
		errs = append(errs, errors.New("yekbar: the handler is nil"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("yekbar: consumer %q can't be made: %w", name, err)
	}
	return &Consumer[Tx]{name: name, store: s, cfg: c.withDefaults(), try: try, checks: make(chan struct{}, 1)}, nil
}

func nameProblem(name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "is empty"
	case strings.TrimSpace(name) != name:
		return "begins or ends with a space"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.IndexByte(name, 0) >= 0:
		return "has a NUL"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes; at most %d fit the key", len(name), maxName)
	}
	return ""
}

// Name returns the name given to NewConsumer.
func (c *Consumer[Tx]) Name() string { return c.name }

// Unwrap returns the store, for Find.
func (c *Consumer[Tx]) Unwrap() any { return c.store }

// Scoped reports whether Config.Scope was given.
func (c *Consumer[Tx]) Scoped() bool { return c.cfg.Scope != nil }

// Timeout returns the longest time that an attempt may take, COMMIT excluded.
func (c *Consumer[Tx]) Timeout() time.Duration { return c.cfg.Timeout }

// Retention returns how long claims are kept.
func (c *Consumer[Tx]) Retention() time.Duration { return c.cfg.Retention }

// Identify returns the claim of m, or the *IdentityError that Process would. A
// panic in a function of the Config is a *PanicError.
func (c *Consumer[Tx]) Identify(m *Message) (claim Claim, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	source, id, err := c.cfg.ID(m)
	if err == nil {
		scope := ""
		if c.cfg.Scope != nil {
			scope = c.cfg.Scope(m)
		}
		id, err = identity(scope, source, id)
	}
	if err != nil {
		bad := &IdentityError{Problem: err.Error(), Err: err}
		if known := (*IdentityError)(nil); errors.As(err, &known) {
			bad.Problem, bad.Err = known.Problem, known.Err
		}
		bad.Consumer, bad.Topic = c.name, m.Topic
		return Claim{}, bad
	}
	f := c.cfg.Fingerprint(m)
	if 0 < len(f) && len(f) <= fingerprintHash {
		return Claim{}, fmt.Errorf("yekbar: consumer %q: Config.Fingerprint returned %d bytes; a tag and %d bytes of a hash are needed", c.name, len(f), fingerprintHash)
	}
	return Claim{Consumer: c.name, MessageID: id, Fingerprint: f, Wait: c.cfg.ClaimWait}, nil
}

// Process returns after COMMIT: a nil error means Applied or Duplicate, and
// only then may the message be acknowledged. After an unknown COMMIT it tries
// again, and the claim answers; Duplicate is then what it says also when it
// was this very call that applied the message.
//
// What an error means for the message, say [CountsAsAttempt], [IsPermanent]
// and [RetryPause].
func (c *Consumer[Tx]) Process(ctx context.Context, m *Message) (Result, error) {
	d, err := c.delivery(m)
	if err != nil {
		return Result{}, err
	}
	c.process(ctx, d)
	return d.result.Result, d.result.Err
}

// process processes one delivery, when no copy of it is in flight.
func (c *Consumer[Tx]) process(ctx context.Context, d *delivery) {
	if err := c.check(ctx); err != nil {
		c.fail([]*delivery{d}, err)
		return
	}
	if err := c.flight.enter(ctx, d.claim.MessageID, c.cfg.ClaimWait); err != nil {
		c.fail([]*delivery{d}, err)
		return
	}
	defer c.flight.leave(d.claim.MessageID)
	c.one(ctx, d)
}

// A delivery is one message on its way through Process.
type delivery struct {
	message *Message
	claim   Claim
	arrival int // its place in the batch
	result  BatchResult
}

func (c *Consumer[Tx]) delivery(m *Message) (*delivery, error) {
	if m == nil {
		return nil, fmt.Errorf("yekbar: consumer %q: the message is nil", c.name)
	}
	claim, err := c.Identify(m)
	if err != nil {
		return nil, err
	}
	return &delivery{message: m, claim: claim}, nil
}

func (c *Consumer[Tx]) wrap(d *delivery, err error) error {
	return fmt.Errorf("yekbar: consumer %q: message %q: %w", c.name, d.claim.MessageID, err)
}

// check lets the store check itself until it once succeeded; one caller at a
// time does, and the others wait.
func (c *Consumer[Tx]) check(ctx context.Context) error {
	if c.checked.Load() {
		return nil
	}
	select {
	case c.checks <- struct{}{}:
	case <-ctx.Done():
		return callerGone(ctx, ctx.Err())
	}
	defer func() { <-c.checks }()
	checker, ok := Find[Checker](c.store)
	if c.checked.Load() || !ok {
		c.checked.Store(true)
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	err := checker.Check(bounded)
	switch {
	case err == nil:
		c.checked.Store(true)
	case ctx.Err() != nil:
		err = callerGone(ctx, err)
	case bounded.Err() != nil:
		err = fmt.Errorf("%w: no answer to the checks at start within %v: %w", ErrUnavailable, c.cfg.Timeout, err)
	}
	return err
}

// one processes a delivery alone, trying again as Config.Retry says.
func (c *Consumer[Tx]) one(ctx context.Context, d *delivery) {
	if err := c.tries(ctx, []*delivery{d}); err != nil {
		d.result = BatchResult{Err: c.wrap(d, err)}
	}
}

// tries runs attempts until one succeeds, then sets all results; or until the
// error is none that another attempt could mend.
func (c *Consumer[Tx]) tries(ctx context.Context, ds []*delivery) error {
	unknown := false
	for n := 1; ; n++ {
		a, err := c.attempt(ctx, n, ds)
		if err == nil {
			return nil
		}
		// A claim that was fresh again proves that the unknown COMMIT failed.
		unknown = errors.Is(err, ErrCommitUnknown) || unknown && a.fresh == nil
		if n >= c.cfg.Retry.Tries || !c.again(err, len(ds)) {
			return stillUnknown(unknown, err)
		}
		c.cfg.Logger.DebugContext(ctx, "yekbar: trying again", "consumer", c.name, "messages", len(ds), "try", n, "error", err)
		if !sleep(ctx, c.cfg.Retry.Pause(n)) {
			return stillUnknown(unknown, callerGone(ctx, err))
		}
	}
}

// again reports whether the same deliveries should be tried once more. A
// transient error of a batch is answered with smaller ones instead.
func (c *Consumer[Tx]) again(err error, n int) bool {
	if errors.Is(err, errCallerGone) {
		return false
	}
	return errors.Is(err, ErrCommitUnknown) || errors.Is(err, ErrUnavailable) || n == 1 && errors.Is(err, ErrTransient)
}

func stillUnknown(unknown bool, err error) error {
	if unknown && !errors.Is(err, ErrCommitUnknown) {
		return fmt.Errorf("%w, and then: %w", ErrCommitUnknown, err)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// settled sets the result that the database's answer means.
func (c *Consumer[Tx]) settled(d *delivery, got Claimed, value []byte) {
	if got.Fresh {
		d.result = BatchResult{Result: Result{Outcome: Applied, Value: value, AppliedAt: got.At, State: StateApplied}}
		return
	}
	if d.claim.FromParked && got.State == "" {
		d.result = BatchResult{Err: c.wrap(d, ErrNotHeld)}
		return
	}
	if !d.claim.FromParked && c.cfg.OnConflict == SetAside && !sameFingerprint(got.Fingerprint, d.claim.Fingerprint) {
		d.result = BatchResult{Err: &ConflictError{
			Consumer: c.name, MessageID: d.claim.MessageID,
			Stored: got.Fingerprint, Received: d.claim.Fingerprint, AppliedAt: got.At,
		}}
		return
	}
	d.result = BatchResult{Result: Result{Outcome: Duplicate, Value: got.Result, AppliedAt: got.At, State: got.State}}
}
