package yekbar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// A State says who owns a message; it stands in its claim.
type State string

const (
	StateApplied State = "applied" // done; a repeat rests
	StateParked  State = "parked"  // the database retries it
	StateDead    State = "dead"    // a person decides
)

// Why a message is held.
const (
	ReasonDelayed     = "delayed"       // parked until its next attempt
	ReasonBehindKey   = "behind-key"    // parked behind an earlier message of its ordering key
	ReasonReplayed    = "replayed"      // parked by a person, who wants it tried again
	ReasonAttempts    = "attempts"      // dead: it failed as often as it may
	ReasonPermanent   = "permanent"     // dead: the handler said that no retry helps
	ReasonConflict    = "conflict"      // dead: same ID, other payload
	ReasonIdentity    = "identity"      // dead: no usable ID
	ReasonUndecodable = "undecodable"   // dead: no message in the delivery
	ReasonCrash       = "crash"         // dead: processes died while it alone was handled
	ReasonBoundary    = "boundary"      // dead: the handler ended or left its transaction
	ReasonBeyond      = "beyond-window" // dead: older than the claims that are kept
)

// A HeldMessage is one that was taken over from the broker, whole, for one
// consumer: parked or dead.
type HeldMessage struct {
	Consumer, MessageID string
	State               State
	Message             Message
	Raw                 []byte   // the undecoded delivery, where there was no message to decode
	Fingerprint         []byte   // of its claim
	Reason              string   // one of the Reason constants
	Errors              []string // one an attempt, newest last
	Attempts            int      // failed ones
	Ordered             bool     // messages of its ordering key that are held later and are Ordered wait for it
	// Delay is, for Hold, how long a parked message waits; Due is when that
	// ends, by the database's clock.
	Delay    time.Duration
	Due      time.Time
	At       time.Time // when it was taken over, by the database's clock
	Position int64     // in the order of taking over
}

// A HoldingStore takes messages over from the broker.
type HoldingStore interface {
	// Hold claims h with its state and stores the message, in one
	// transaction, and clears its attempts (see AttemptStore). What stands
	// there already decides:
	//
	//   - no claim: claim and message are written;
	//   - applied: nothing is written and held is false, for the message took
	//     effect; only ReasonBoundary turns it to dead, because such a claim
	//     proves nothing;
	//   - parked: h takes its place, and keeps its position;
	//   - dead: nothing is written and held is true.
	Hold(ctx context.Context, h *HeldMessage) (held bool, err error)
	// TakeDue leases up to limit parked messages of consumer that are due,
	// the longest due first: each is due again after lease, unless it was
	// applied or held anew by then. One that is Ordered waits until no
	// message of its key that is Ordered and was held earlier is left.
	TakeDue(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*HeldMessage, error)
	// HeldKeys returns the ordering keys of consumer's messages that are
	// Ordered.
	HeldKeys(ctx context.Context, consumer string) ([]string, error)
}

// HeldID returns the key under which a message without a usable identity is
// held: a hash of its place in the broker, or of its raw bytes where the broker
// has no lasting places, so that a redelivery meets the first copy. No identity
// looks like it.
func HeldID(place []byte) string {
	sum := sha256.Sum256(place)
	return hashPrefix + "raw:" + hex.EncodeToString(sum[:])
}
