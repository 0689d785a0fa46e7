package yekbar

import (
	"fmt"
	"time"
)

// An Outcome says what a processed message did. The zero value is not an
// outcome.
type Outcome uint8

const (
	Applied   Outcome = iota + 1 // claimed and committed now
	Duplicate                    // committed earlier, with the same payload
)

// String returns "applied" or "duplicate".
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// A Result is what Process found out.
type Result struct {
	Outcome   Outcome
	Value     []byte    // the recorded result, of now or of the first time; nil if none
	AppliedAt time.Time // by the database's clock
	State     State     // applied; parked or dead when a duplicate meets a message that was taken over
}

// A BatchResult is the Result or the error of one message of a batch.
type BatchResult struct {
	Result
	Err error
}
