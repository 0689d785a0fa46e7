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
	ReasonPermanent   = "permanent"   // the handler said that no retry helps
	ReasonAttempts    = "attempts"    // it failed as often as the worker allows
	ReasonConflict    = "conflict"    // same ID, other payload
	ReasonIdentity    = "identity"    // no usable ID
	ReasonUndecodable = "undecodable" // no message in the delivery
	ReasonBoundary    = "boundary"    // the handler ended or left its transaction
)

// A HeldMessage is one that was taken over from the broker, whole, for one
// consumer: parked or dead.
type HeldMessage struct {
	Consumer, MessageID string
	State               State
	Message             Message
	Raw                 []byte    // the undecoded delivery, where there was no message to decode
	Fingerprint         []byte    // of its claim
	Reason              string    // one of the Reason constants
	Errors              []string  // one an attempt, newest last
	Attempts            int       // failed ones
	Due                 time.Time // of a parked one, by the database's clock
	At                  time.Time // when it was taken over, by the database's clock
}

// A HoldingStore takes messages over from the broker.
type HoldingStore interface {
	// Hold claims h with its state and stores the message, in one
	// transaction. What stands there already decides:
	//
	//   - no claim: claim and message are written;
	//   - applied: nothing is written and held is false, for the message took
	//     effect; only ReasonBoundary turns it to dead, because such a claim
	//     proves nothing;
	//   - parked: h takes its place;
	//   - dead: nothing is written and held is true.
	Hold(ctx context.Context, h *HeldMessage) (held bool, err error)
}

// HeldID returns the key under which a message without a usable identity is
// held: a hash of its place in the broker, or of its raw bytes where the broker
// has no lasting places, so that a redelivery meets the first copy. No identity
// looks like it.
func HeldID(place []byte) string {
	sum := sha256.Sum256(place)
	return hashPrefix + "raw:" + hex.EncodeToString(sum[:])
}
