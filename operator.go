package yekbar

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// An Actor is who does something by hand, and why. Both are required, and
// stand in the audit log.
type Actor struct{ Name, Reason string }

// Validate reports what is missing.
func (a Actor) Validate() error {
	if strings.TrimSpace(a.Name) == "" || strings.TrimSpace(a.Reason) == "" {
		return errors.New("yekbar: a name and a reason are required, for the audit log")
	}
	return nil
}

// ErrNotHeld says that there is no such held message: it was applied,
// discarded or forgotten meanwhile, or never held.
var ErrNotHeld = errors.New("yekbar: no such held message")

// ErrNoClaim says that the consumer has no claim of the message.
var ErrNoClaim = errors.New("yekbar: no such claim")

// A HeldFilter selects held messages.
type HeldFilter struct {
	Consumer, MessageID, Reason string // "": any
	State                       State  // "": parked and dead
	After                       int64  // keyset: the Position of the last one seen; 0: from the newest
	Limit                       int    // 0: no limit
}

// An OperatorStore is what people do with claims and held messages. Whatever
// changes something is written to the audit log, in the same transaction.
type OperatorStore interface {
	// Held lists, newest first.
	Held(ctx context.Context, f HeldFilter) iter.Seq2[*HeldMessage, error]
	// Replay parks a dead message, due now, with its attempts and errors
	// forgotten, at its position. A payload that is not nil replaces the old
	// one, which stays in the audit log; the claim's fingerprint stays, so
	// that a late copy of the first one rests. ErrNotHeld.
	Replay(ctx context.Context, consumer, messageID string, payload []byte, by Actor) error
	// MakeDue makes a parked message due now. ErrNotHeld.
	MakeDue(ctx context.Context, consumer, messageID string, by Actor) error
	// Discard ends a held message. Its claim becomes dead and stays, so that
	// a late copy rests. ErrNotHeld.
	Discard(ctx context.Context, consumer, messageID string, by Actor) error
	// Claim returns a claim, or ErrNoClaim.
	Claim(ctx context.Context, consumer, messageID string) (Claimed, error)
	// Forget removes a claim and all that is held and recorded with it, so
	// that the message can be applied again, on purpose. ErrNoClaim.
	Forget(ctx context.Context, consumer, messageID string, by Actor) error
	// Consumers tells how each consumer stands, by name.
	Consumers(ctx context.Context) ([]ConsumerStatus, error)
	// SetPaused pauses a consumer, in all its workers within seconds, or
	// resumes it.
	SetPaused(ctx context.Context, consumer string, paused bool, by Actor) error
	// Paused returns who paused the consumer, if anybody did.
	Paused(ctx context.Context, consumer string) (by Actor, paused bool, err error)
	// Record writes an entry to the audit log, for what was not done through
	// this interface; its ID and At are the store's to give.
	Record(ctx context.Context, e AuditEntry) error
	// Audit lists what people did, newest first.
	Audit(ctx context.Context, f AuditFilter) iter.Seq2[*AuditEntry, error]
}

// A ConsumerStatus is how a consumer stands. Times are by the database's
// clock.
type ConsumerStatus struct {
	Name         string
	Subscription string    // as registered; "": none
	Watermark    time.Time // see Window; zero when none was published
	Parked, Dead int64
	Reasons      map[string]int64 // held messages by reason
	OldestParked time.Time        // zero when none is
	LastApplied  time.Time        // of the claims that are kept
	Paused       bool
	PausedBy     Actor
	PausedAt     time.Time
}

// A HeldCounter counts held messages; it reads no claims, so that a worker may
// ask every minute.
type HeldCounter interface {
	// CountHeld returns Name, Parked, Dead, Reasons and OldestParked of one
	// consumer's status.
	CountHeld(ctx context.Context, consumer string) (ConsumerStatus, error)
}

// An AuditEntry is one thing that a person did.
type AuditEntry struct {
	ID                  int64
	At                  time.Time
	By                  Actor
	Action              string // replay, due, discard, forget, pause, resume, confirm; of cmd/yekbar also rewind, prune, import
	Consumer, MessageID string
	Detail              []byte // replay: the payload that was replaced; rewind and import: from where
}

// An AuditFilter selects entries of the audit log.
type AuditFilter struct {
	Consumer string // "": any
	After    int64  // keyset: the ID of the last one seen; 0: from the newest
	Limit    int    // 0: no limit
}

// ProcessHeld is Process for a message that was parked: it turns the claim
// from parked to applied, and the held message goes with it. Duplicate means
// that it is not parked any more; ErrNotHeld, that it has no claim.
func (c *Consumer[Tx]) ProcessHeld(ctx context.Context, h *HeldMessage) (Result, error) {
	d := &delivery{message: &h.Message, claim: Claim{
		Consumer: c.name, MessageID: h.MessageID, Fingerprint: h.Fingerprint, FromParked: true, Wait: c.cfg.ClaimWait,
	}}
	if h.Consumer != c.name {
		return Result{}, fmt.Errorf("yekbar: consumer %q was given a message held for %q", c.name, h.Consumer)
	}
	c.process(ctx, d)
	return d.result.Result, d.result.Err
}
