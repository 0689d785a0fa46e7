package yekbar

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sentinels for errors.Is; the error itself says which message and what to do
// next.
var (
	ErrTransient     = errors.New("yekbar: transient database error")                  // nothing stored; try again
	ErrUnavailable   = errors.New("yekbar: database unavailable")                      // an outage; costs no attempt
	ErrEnvironment   = errors.New("yekbar: database not fit for this consumer")        // missing table or column, no rights, read-only, disk full; costs no attempt
	ErrCommitUnknown = errors.New("yekbar: commit outcome unknown")                    // try again; the claim answers
	ErrInFlight      = errors.New("yekbar: a copy of the message is still in flight")  // give back with a delay
	ErrTimeout       = errors.New("yekbar: attempt exceeded Config.Timeout")           // rolled back; costs an attempt
	ErrRolledBack    = errors.New("yekbar: COMMIT was turned into ROLLBACK")           // nothing stored: a failed statement was not forgiven
	ErrBoundary      = errors.New("yekbar: the handler ended or left its transaction") // never acknowledge
	ErrTxDone        = errors.New("yekbar: transaction used after its end")            // the handler kept it
	ErrSchema        = errors.New("yekbar: tables missing or of another version")      // run yekbar migrate
	ErrUnsupported   = errors.New("yekbar: the store lacks this feature")              // see Features
)

// A ConflictError reports an ID that was claimed with another payload. It is
// permanent.
type ConflictError struct {
	Consumer, MessageID string
	Stored, Received    []byte    // fingerprints
	AppliedAt           time.Time // of the stored one, by the database's clock
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("yekbar: consumer %q: message %q was claimed at %s with another payload (fingerprint %s, now %s): the producer reused an ID, or re-sends changed bytes (then see Config.OnConflict and JSONFingerprint)",
		e.Consumer, e.MessageID, e.AppliedAt.UTC().Format(time.RFC3339Nano), hex.EncodeToString(e.Stored), hex.EncodeToString(e.Received))
}

// An IdentityError reports a message without a usable ID. It is permanent.
type IdentityError struct {
	Consumer string
	Topic    string
	// Problem is "missing", "blank", "not UTF-8", "has NUL", "source has a
	// space", "source has a |", "scope has a space", "scope has a |",
	// "scope has NUL", and the like.
	Problem string
	Err     error // what Config.ID returned, where that is the problem
}

// Unwrap returns Err.
func (e *IdentityError) Unwrap() error { return e.Err }

func (e *IdentityError) Error() string {
	var b strings.Builder
	b.WriteString("yekbar: ")
	if e.Consumer != "" {
		fmt.Fprintf(&b, "consumer %q: ", e.Consumer)
	}
	b.WriteString("message ")
	if e.Topic != "" {
		fmt.Fprintf(&b, "of topic %q ", e.Topic)
	}
	fmt.Fprintf(&b, "has no usable ID: %s (Config.ID says where the ID is found)", e.Problem)
	return b.String()
}

// A BatchError is what a BatchHandler returns to name the message that failed.
type BatchError struct {
	Index int
	Err   error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("message %d of the batch: %v", e.Index, e.Err)
}

// Unwrap returns Err.
func (e *BatchError) Unwrap() error { return e.Err }

// A RowsError reports a statement that changed fewer rows than its MinRows.
type RowsError struct {
	Index   int // of the statement, among those of its message
	MinRows int
	Rows    int // -1: fewer than MinRows, not counted
}

func (e *RowsError) Error() string {
	if e.Rows < 0 {
		return fmt.Sprintf("yekbar: statement %d changed fewer than %d rows", e.Index, e.MinRows)
	}
	return fmt.Sprintf("yekbar: statement %d changed %d rows, at least %d are required", e.Index, e.Rows, e.MinRows)
}

// A BoundaryError reports a handler that ended or left its transaction; it is
// ErrBoundary for errors.Is.
type BoundaryError struct {
	// What the handler did: the statement's first words, or the method.
	What string
	// Escaped: it was noticed only afterwards, so that a part of the attempt
	// may be committed. The claim is turned to dead, because a redelivery
	// could meet it and wrongly rest. Otherwise it was refused before it was
	// sent, and nothing is stored.
	Escaped bool
}

func (e *BoundaryError) Error() string {
	if e.Escaped {
		return ErrBoundary.Error() + " (" + e.What + "): a part of its changes may be committed; compare the data by hand, then replay or discard the dead message"
	}
	return ErrBoundary.Error() + " (" + e.What + "): refused, nothing is stored; Yekbar commits when the handler returns nil and rolls back when it returns an error"
}

// Is makes every BoundaryError an ErrBoundary.
func (e *BoundaryError) Is(target error) bool { return target == ErrBoundary }

// A PanicError reports a handler that panicked or called runtime.Goexit.
type PanicError struct {
	Value any    // nil for runtime.Goexit
	Stack []byte // of the handler's goroutine
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "yekbar: the handler called runtime.Goexit"
	}
	return fmt.Sprintf("yekbar: the handler panicked: %v", e.Value)
}

// Unwrap returns the panic's value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Permanent marks err: no retry, dead letter at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// IsPermanent reports whether err, or one it wraps, is permanent: marked, a
// conflict, or a bad identity. What the database did not let happen is never
// permanent, however the handler marked it.
func IsPermanent(err error) bool {
	var (
		p *permanentError
		c *ConflictError
		i *IdentityError
	)
	return CountsAsAttempt(err) && !errors.Is(err, ErrTransient) &&
		(errors.As(err, &p) || errors.As(err, &c) || errors.As(err, &i))
}

// CountsAsAttempt reports whether err is the message's own failure. An outage,
// an environment that is wrong for every message, an unknown COMMIT, a copy in
// flight and the caller's cancellation are not. A handler's timeout is, and so
// is a transient error that outlived Config.Retry: else nothing would end a
// message that brings it about itself.
func CountsAsAttempt(err error) bool {
	for _, other := range []error{ErrUnavailable, ErrEnvironment, ErrSchema, ErrCommitUnknown, ErrInFlight, errCallerGone} {
		if errors.Is(err, other) {
			return false
		}
	}
	return err != nil
}

// errCallerGone marks an attempt that ended because the caller's context did,
// as opposed to a context error of the handler's own making.
var errCallerGone = errors.New("yekbar: the caller's context ended")

// callerGone wraps err, and why ctx ended, when the caller's context is what
// ended the attempt.
func callerGone(ctx context.Context, err error) error {
	return fmt.Errorf("%w: %w: %w", errCallerGone, context.Cause(ctx), err)
}

// RetryAfter marks err with the pause before the next attempt.
// RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, d}
}

// RetryPause returns the pause that RetryAfter marked err with.
func RetryPause(err error) (time.Duration, bool) {
	var r *retryAfterError
	if errors.As(err, &r) {
		return r.after, true
	}
	return 0, false
}

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }
