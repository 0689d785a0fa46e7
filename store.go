package yekbar

import (
	"context"
	"time"
)

// A Store is the database seam: it makes the claim and the change one
// transaction. Tx is the database's own transaction type, which handlers get.
//
// Implementing a Store elsewhere is supported: the package storetest tests all
// that is said here, and Store gains no methods before v2. What else a store
// can do, it says by implementing the optional interfaces of this package
// ([StatementStore], [HoldingStore], [Migrator], …), which callers look for
// with [Find].
//
// A Store is safe for concurrent use and works with a pool of one connection.
type Store[Tx any] interface {
	// Attempt makes one try, never more: it begins a transaction, writes all
	// claims as its first statements, calls fn with the transaction and the
	// indices of the claims that are new, and commits. When no claim is new
	// it does not call fn, and writes nothing.
	//
	// The answer to claims[i] is at index i. Claims name each message at
	// most once; the caller has sorted them.
	//
	// On an error nothing is stored, or the error is ErrCommitUnknown, or it
	// is a *BoundaryError that says Escaped. Errors are mapped to this
	// package's: whatever fn returned is wrapped, and when the database
	// failed a statement of the transaction for a reason that is not the
	// message's (ErrTransient, ErrUnavailable, ErrEnvironment), that
	// sentinel is wrapped too, also when fn hid it.
	//
	// When ctx ends before COMMIT was sent, nothing is stored and the error
	// wraps ctx.Err(). COMMIT itself runs on a context that the caller's
	// cancellation does not reach, bounded by the store.
	Attempt(ctx context.Context, claims []Claim, fn func(ctx context.Context, tx Tx, fresh []int) error) ([]Claimed, error)
	// Bind returns the Tx-free view of an open transaction: the store's own,
	// as fn gets it, or one that the caller began and will commit.
	Bind(tx Tx) (Session, error)
	// Features declares what the store can do.
	Features() Features
}

// A Session writes Yekbar's rows over one open transaction. It is used by one
// goroutine at a time, and not after the transaction's end.
type Session interface {
	// Claim claims, or says what it found.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// SetResult stores the result of a claim that this transaction made.
	SetResult(ctx context.Context, c Claim, result []byte) error
}

// A Claim is one row of processed_messages before it is written.
type Claim struct {
	Consumer    string
	MessageID   string
	Fingerprint []byte
	// FromParked takes the message over from the parked state instead of
	// inserting a row: fresh means that it was parked and is applied now, and
	// that the held message is gone, all in this transaction. A claim that is
	// not there is not fresh and has no State.
	FromParked bool
	// Wait is the longest wait for a copy in flight elsewhere, then
	// ErrInFlight; it bounds the claim alone, not the statements after it.
	// Zero means no wait; stores without Features.LockWait wait as their
	// database does.
	Wait time.Duration
}

// Claimed is what the database answered to a claim.
type Claimed struct {
	// Fresh: this transaction wrote the claim.
	Fresh bool
	// State, Fingerprint, Result and At are the stored ones of a claim that
	// is not fresh. Of a fresh one only At may be set.
	State       State
	Fingerprint []byte
	Result      []byte
	// At is when it was claimed, by the database's clock.
	At time.Time
}

// Features declares what a store can do; storetest tests exactly that.
type Features struct {
	Batch      bool // several claims in one Attempt
	Savepoints bool // a failed statement can be survived
	Statements bool // StatementStore
	Outbox     bool
	Effects    bool
	Attempts   bool // AttemptStore
	Holding    bool // HoldingStore
	Operator   bool // OperatorStore
	Retention  bool // RetentionStore
	Registry   bool // RegistryStore
	Positions  bool // PositionStore
	LockWait   bool // bounds Claim.Wait
	Durable    bool // false for memstore
}

// A StatementStore runs claim, statements and commit in one round trip where
// the database can.
type StatementStore interface {
	// AttemptStatements is Store.Attempt with the statements ss[i] of
	// claims[i] in place of a function. The statements of a claim that is not
	// fresh are not executed, or leave no trace. Fewer rows than
	// Statement.MinRows fail the attempt with a *RowsError.
	AttemptStatements(ctx context.Context, claims []Claim, ss [][]Statement) ([]Claimed, error)
}

// A Checker verifies, against the live database, all that the store depends
// on: tables and their version, byte-exact IDs, a claim key that is not
// deferrable, nothing that swallows a claim. The error wraps ErrSchema,
// ErrEnvironment or ErrUnavailable and names the mend. A Consumer checks once,
// before its first message.
type Checker interface {
	Check(ctx context.Context) error
}

// A Validator reports what is wrong with a store's configuration, all problems
// at once, without connecting. NewConsumer asks.
type Validator interface {
	Validate() error
}

// A Migrator creates and changes Yekbar's tables. Any number of processes may
// call it at once.
type Migrator interface {
	// Migrate brings the tables to this release's version; it never goes
	// back.
	Migrate(ctx context.Context) error
	// MigrateTo brings the tables to a version, up or down; 0 removes them.
	MigrateTo(ctx context.Context, version int) error
	// MigrationSQL returns the statements that lead from one version to
	// another, without connecting.
	MigrationSQL(from, to int) (string, error)
	// SchemaVersion returns the version of the tables (0: none) and the one
	// this release wants.
	SchemaVersion(ctx context.Context) (have, want int, err error)
}

// MapTx gives a store another transaction type, such as *gorm.DB. forth makes
// it from the store's own; back must return the very transaction that forth
// was given. All optional abilities of s are kept (see [Find]).
func MapTx[A, B any](s Store[A], forth func(context.Context, A) (B, error), back func(B) (A, error)) Store[B] {
	return &mapped[A, B]{s, forth, back}
}

type mapped[A, B any] struct {
	in    Store[A]
	forth func(context.Context, A) (B, error)
	back  func(B) (A, error)
}

func (m *mapped[A, B]) Attempt(ctx context.Context, cs []Claim, fn func(context.Context, B, []int) error) ([]Claimed, error) {
	return m.in.Attempt(ctx, cs, func(ctx context.Context, a A, fresh []int) error {
		b, err := m.forth(ctx, a)
		if err != nil {
			return err
		}
		return fn(ctx, b, fresh)
	})
}

func (m *mapped[A, B]) Bind(tx B) (Session, error) {
	a, err := m.back(tx)
	if err != nil {
		return nil, err
	}
	return m.in.Bind(a)
}

func (m *mapped[A, B]) Features() Features { return m.in.Features() }
func (m *mapped[A, B]) Unwrap() any        { return m.in }

// Find looks for an optional, Tx-free interface in a store and in what it
// wraps (Unwrap() any).
func Find[T any](store any) (T, bool) {
	for store != nil {
		if t, ok := store.(T); ok {
			return t, true
		}
		u, ok := store.(interface{ Unwrap() any })
		if !ok {
			break
		}
		store = u.Unwrap()
	}
	var zero T
	return zero, false
}
