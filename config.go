package yekbar

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config configures a Consumer; the zero value is ready for use.
type Config struct {
	// ID says where the ID is; default IDFromTransport. Changing it, or
	// Scope, or the consumer's name, makes every message new.
	ID IDFunc
	// Scope is a part of the identity (a topic, a tenant). It is required
	// when a source covers several topics: ScopeTopic, or ScopeGlobal when
	// IDs are unique over all of them. Default: none.
	Scope func(*Message) string
	// Fingerprint tells payloads apart; default (*Message).Fingerprint.
	// NoFingerprint turns conflicts off. One of your own returns a tag (any
	// bytes, the first from 0x80 to 0xFF) and 16 bytes of a hash; only those
	// with equal tags are compared.
	Fingerprint func(*Message) []byte
	// OnConflict says what the same ID with another payload means; default
	// SetAside.
	OnConflict ConflictPolicy
	// Timeout bounds an attempt, from the claim to the handler's return;
	// COMMIT is excluded. A batch has as many times as much as it has
	// messages. Default 10 s.
	Timeout time.Duration
	// ClaimWait is how long a copy in flight, in this process or elsewhere,
	// is waited for, then ErrInFlight; default 1 s.
	ClaimWait time.Duration
	// Retry is for transient database errors, lost connections and unknown
	// COMMITs inside Process; default 5 tries, 10 ms to 1 s.
	Retry Backoff
	// Retention is how long claims are kept, and so the time within which a
	// repeat is recognised; default 30 days. KeepForever is allowed.
	Retention time.Duration
	// Observer sees every attempt as the operation "process"; default none.
	Observer Observer
	// Logger gets retries at debug level; default discards.
	Logger *slog.Logger
}

// KeepForever as Retention keeps every claim.
const KeepForever time.Duration = -1

// A ConflictPolicy says what the same ID with another payload means.
type ConflictPolicy uint8

const (
	SetAside         ConflictPolicy = iota // an error: *ConflictError, permanent
	TreatAsDuplicate                       // for producers that honestly re-send changed bytes
)

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("yekbar: Config."+format, args...)) }
	if c.OnConflict > TreatAsDuplicate {
		bad("OnConflict is %d: use SetAside or TreatAsDuplicate", c.OnConflict)
	}
	if c.Timeout < 0 {
		bad("Timeout is %v: use a positive time, or 0 for 10 s", c.Timeout)
	}
	if c.ClaimWait < 0 {
		bad("ClaimWait is %v: use a positive time, or 0 for 1 s", c.ClaimWait)
	}
	if c.Retry.Tries < 0 || c.Retry.Min < 0 || c.Retry.Max < 0 {
		bad("Retry is %+v: its fields can't be negative; Tries: 1 means no retry", c.Retry)
	}
	if c.Retry.Max > 0 && c.Retry.Max < c.Retry.Min {
		bad("Retry.Max (%v) is below Retry.Min (%v)", c.Retry.Max, c.Retry.Min)
	}
	if c.Retention < 0 && c.Retention != KeepForever {
		bad("Retention is %v: use a positive time, 0 for 30 days, or KeepForever", c.Retention)
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	setDefault(&c.Timeout, 10*time.Second)
	setDefault(&c.ClaimWait, time.Second)
	setDefault(&c.Retention, 30*24*time.Hour)
	setDefault(&c.Retry.Tries, 5)
	setDefault(&c.Retry.Min, 10*time.Millisecond)
	setDefault(&c.Retry.Max, max(time.Second, c.Retry.Min))
	if c.ID == nil {
		c.ID = IDFromTransport
	}
	if c.Fingerprint == nil {
		c.Fingerprint = (*Message).Fingerprint
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
