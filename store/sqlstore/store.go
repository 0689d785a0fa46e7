package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// A Store is a yekbar.Store over a *sql.DB, which stays the caller's to close.
// It is safe for concurrent use.
type Store struct {
	db      *sql.DB
	dialect Dialect
	cfg     Config
	names   schema.Names
	sql     statements
	writer  *writer
	orphans orphans
	flavor  atomic.Pointer[flavor]
	owner   string // of leases
}

var (
	_ yekbar.Store[*sql.Tx] = (*Store)(nil)
	_ yekbar.StatementStore = (*Store)(nil)
	_ yekbar.HoldingStore   = (*Store)(nil)
	_ yekbar.AttemptStore   = (*Store)(nil)
	_ yekbar.OperatorStore  = (*Store)(nil)
	_ yekbar.HeldCounter    = (*Store)(nil)
	_ yekbar.RetentionStore = (*Store)(nil)
	_ yekbar.RegistryStore  = (*Store)(nil)
	_ yekbar.PositionStore  = (*Store)(nil)
	_ yekbar.Migrator       = (*Store)(nil)
	_ yekbar.Checker        = (*Store)(nil)
	_ yekbar.Validator      = (*Store)(nil)
)

// New returns a store; it connects to nothing. NewConsumer reports what is
// wrong with c.
func New(db *sql.DB, d Dialect, c Config) *Store {
	s := &Store{db: db, dialect: d, cfg: c, names: c.names(), owner: processName()}
	if g := s.guard(); g != nil {
		s.writer = g.writer // one for all stores over the database
	} else {
		s.writer = newWriter()
	}
	if d.schema() != "" {
		s.sql = newStatements(d, s.names)
	}
	return s
}

func (s *Store) guard() *guardDriver {
	if s.db == nil {
		return nil
	}
	g, _ := s.db.Driver().(*guardDriver)
	return g
}

func (s *Store) guarded() bool { return s.guard() != nil }

// Features declares what the store can do. SQLite can't say whose lock a claim
// waits for, so it declares no LockWait: there a claim waits for the other
// writers of this process as long as its context lets it, and for those of
// other processes for Claim.Wait, then yekbar.ErrUnavailable.
func (s *Store) Features() yekbar.Features {
	return yekbar.Features{
		Batch: true, Savepoints: true, Statements: true,
		Attempts: true, Holding: true, Operator: true, Retention: true, Registry: true, Positions: true,
		LockWait: s.dialect != SQLite, Durable: true,
	}
}

// Attempt implements yekbar.Store. With several claims the longest Wait is the
// wait for each lock. MariaDB and MySQL measure it in whole seconds, rounded
// up.
//
// The *sql.Tx is a real one. Its Commit and Rollback are the store's: over a
// guarded *sql.DB they fail and so does the attempt. After fn has returned,
// every use is sql.ErrTxDone.
func (s *Store) Attempt(ctx context.Context, claims []yekbar.Claim, fn func(ctx context.Context, tx *sql.Tx, fresh []int) error) ([]yekbar.Claimed, error) {
	var claimed []yekbar.Claimed
	err := s.inTx(ctx, waitOf(claims), func(t *txn) (commit bool, err error) {
		if claimed, err = t.claim(claims, yekbar.StateApplied); err != nil {
			return false, err
		}
		fresh := freshOf(claimed)
		if len(fresh) == 0 {
			return false, nil
		}
		return true, t.call(func() error { return fn(ctx, t.tx, fresh) })
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

func freshOf(claimed []yekbar.Claimed) []int {
	var fresh []int
	for i, c := range claimed {
		if c.Fresh {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// InTx runs fn in a transaction of the store's, with a handler's guards and no
// claim.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return s.inTx(ctx, defaultWait, func(t *txn) (bool, error) {
		if err := t.identify(); err != nil {
			return false, err
		}
		return true, t.call(func() error { return fn(ctx, t.tx) })
	})
}

// inTx makes one transaction: fn says whether to commit it. A panic, or
// runtime.Goexit, rolls back.
func (s *Store) inTx(ctx context.Context, wait time.Duration, fn func(*txn) (commit bool, err error)) error {
	return s.inTxAt(ctx, s.cfg.isolation(), wait, fn)
}

func (s *Store) inTxAt(ctx context.Context, level sql.IsolationLevel, wait time.Duration, fn func(*txn) (commit bool, err error)) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: nothing begun: %w", err)
	}
	t, err := s.begin(ctx, level, wait)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned {
			_ = t.finish(false, errors.New("panic")) // the panic goes on, and tells more
		}
	}()
	commit, err := fn(t)
	returned = true
	return t.finish(commit, err)
}

// Bind implements yekbar.Store.
func (s *Store) Bind(tx *sql.Tx) (yekbar.Session, error) {
	if tx == nil {
		return nil, errors.New("sqlstore: Bind: the *sql.Tx is nil")
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &txSession{s, tx}, nil
}

// txSession is a Session over an open transaction.
type txSession struct {
	store *Store
	tx    *sql.Tx
}

func (s *txSession) Claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	got, err := s.store.claim(ctx, s.tx, []yekbar.Claim{c}, yekbar.StateApplied)
	if err != nil {
		return yekbar.Claimed{}, fmt.Errorf("sqlstore: claim of message %q: %w", c.MessageID, s.store.claimError(nil, err))
	}
	return got.claimed[0], nil
}

func (s *txSession) SetResult(ctx context.Context, c yekbar.Claim, result []byte) error {
	if result == nil {
		result = []byte{}
	}
	_, err := s.tx.ExecContext(private(ctx), s.store.sql.setResult, c.Consumer, c.MessageID, result)
	if err != nil {
		return fmt.Errorf("sqlstore: result of message %q not stored: %w", c.MessageID, s.store.claimError(nil, err))
	}
	return nil
}

// Savepoint runs fn inside a savepoint of tx: when fn fails, what it did is
// rolled back, a statement that failed in it is forgiven, and the transaction
// goes on. It returns fn's error.
func Savepoint(ctx context.Context, tx *sql.Tx, fn func(ctx context.Context) error) error {
	const name = "yekbar_savepoint"
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+name); err != nil {
		return fmt.Errorf("sqlstore: SAVEPOINT: %w", err)
	}
	returned := false
	back := func() error {
		_, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+name)
		if err == nil {
			_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT "+name)
		}
		return err
	}
	defer func() {
		if !returned {
			// A panic goes on; the transaction is rolled back whole unless
			// someone recovers, and then this must have worked.
			if err := back(); err != nil {
				panic(fmt.Errorf("sqlstore: ROLLBACK TO SAVEPOINT after a panic: %w", err))
			}
		}
	}()
	err := fn(ctx)
	returned = true
	if err != nil {
		if err2 := back(); err2 != nil {
			return fmt.Errorf("%w; and ROLLBACK TO SAVEPOINT: %w", err, err2)
		}
		return err
	}
	if _, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+name); err != nil {
		return fmt.Errorf("sqlstore: RELEASE SAVEPOINT: %w", err)
	}
	return nil
}
