package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
)

// A Fixture makes the stores to test.
type Fixture[Tx any] struct {
	// New returns a store over an empty, migrated database that nothing else
	// uses, and cleans up with t.Cleanup. It is called once for each check,
	// also at the same time. A pool has at least eight connections, unless
	// the database has one writer. Required.
	New func(t testing.TB) *Instance[Tx]
	// NewSingle is New with a pool of one connection. Nil: not tested.
	NewSingle func(t testing.TB) *Instance[Tx]
	// Dialect chooses the raw statements to try: "postgresql", "mariadb" or
	// "sqlite"; empty for a store without SQL.
	Dialect string
	// Unguarded: the handler's statements reach the database unseen, as they
	// do over a plain *sql.DB. What ends the transaction is then noticed
	// afterwards, if by nothing else, and not refused; and what the handler
	// hides of the database's errors stays hidden.
	Unguarded bool
}

// An Instance is one fresh store, and the way to its database beside it. Its
// functions are called with keys of lower-case ASCII letters, digits and "-".
// Their errors go back to the store as handlers would return them.
type Instance[Tx any] struct {
	// Store is what is tested. Required.
	Store yekbar.Store[Tx]

	// Add adds n to the counter key, in tx; one that is not there counts from
	// 0. A concurrent Add to the same key waits, or fails with an error that
	// the store maps to ErrTransient. Required.
	Add func(ctx context.Context, tx Tx, key string, n int) error
	// Insert makes the counter key with the value 1, in tx; when it is there,
	// that is the database's own unique violation. Required.
	Insert func(ctx context.Context, tx Tx, key string) error
	// Read returns the committed value of the counter key, or 0. Like Claims
	// and Held, it is never called while the suite has a transaction open.
	// Required.
	Read func(ctx context.Context, key string) (int, error)
	// Begin begins a transaction as a user would, without the store; end
	// commits or rolls back. Required.
	Begin func(ctx context.Context) (tx Tx, end func(ctx context.Context, commit bool) error, err error)
	// Claims counts the rows of processed_messages. Required.
	Claims func(ctx context.Context) (int, error)

	// Held counts the messages held. Required with Features.Holding.
	Held func(ctx context.Context) (int, error)
	// Later makes the database's clock be later by d, as far as the store can
	// tell: it moves the clock, or all times that are stored the other way.
	// Required with Features.Holding, Attempts or Retention.
	Later func(ctx context.Context, d time.Duration) error
	// Savepoint runs fn in a savepoint of tx and rolls back to it when fn
	// fails; it returns fn's error. Required with Features.Savepoints.
	Savepoint func(ctx context.Context, tx Tx, fn func(ctx context.Context, tx Tx) error) error
	// Statements makes statements. Required with Features.Statements.
	Statements *Statements

	// Exec executes raw SQL in tx. Nil for a store without SQL.
	Exec func(ctx context.Context, tx Tx, sql string) error
	// Ends holds what a handler could call on tx to end it ("Commit", …).
	// Nil when there is nothing of the kind.
	Ends map[string]func(ctx context.Context, tx Tx) error
	// Violations holds, by name, statements that the database refuses because
	// of a constraint of the business: at once, or at COMMIT.
	Violations map[string]func(ctx context.Context, tx Tx) error
	// Blocked returns when n transactions of the instance wait for a lock, or
	// ctx ends. It makes the races of the suite exact; without it they are
	// left to the scheduler. Not asked of a pool of one connection.
	Blocked func(ctx context.Context, n int) error
}

// Statements makes the statements that a StatementStore is tested with.
type Statements struct {
	// Add is Instance.Add as a statement.
	Add func(key string, n int) yekbar.Statement
	// Update is Add for a counter that is there; it changes no row when it is
	// not.
	Update func(key string, n int) yekbar.Statement
	// Insert is Instance.Insert as a statement.
	Insert func(key string) yekbar.Statement
}
