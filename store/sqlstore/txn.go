package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
)

const (
	// commitTime bounds COMMIT, which no cancellation reaches.
	commitTime = 15 * time.Second
	// cleanupTime bounds what is sent after a failure.
	cleanupTime = 5 * time.Second
)

// txn is one transaction of the store's, on a connection of its own.
type txn struct {
	store *Store
	ctx   context.Context // the caller's
	conn  *sql.Conn
	guard *guarded // nil: a plain *sql.DB
	tx    *sql.Tx
	who   session // as it was at BEGIN
	level sql.IsolationLevel

	xid     string        // PostgreSQL's pg_current_xact_id, once a row was written
	claimed *yekbar.Claim // one that is new
	called  bool          // the handler was called
	orphan  error         // why an old backend could not be ended

	settled func() bool // detaches the transaction from ctx; false: ctx ended it
	cancel  context.CancelFunc
	release func() // of the writer's turn
}

// begin takes a connection and sends BEGIN.
func (s *Store) begin(ctx context.Context, level sql.IsolationLevel, wait time.Duration) (_ *txn, err error) {
	t := &txn{store: s, ctx: ctx, level: level, release: func() {}}
	if s.dialect == SQLite {
		if t.release, err = s.writer.enter(ctx); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			t.release()
		}
	}()
	if t.conn, err = s.db.Conn(ctx); err != nil {
		return nil, s.connectError(ctx, err)
	}
	if err = t.start(wait); err != nil {
		err = t.outcome(fmt.Errorf("BEGIN: %w", err), s.classifyConnection(ctx, t, err))
		t.closeConn(t.guard == nil || t.guard.conn.broken)
		return nil, err
	}
	return t, nil
}

func (t *txn) start(wait time.Duration) error {
	s := t.store
	err := t.conn.Raw(func(raw any) error {
		c, ok := raw.(*conn)
		if !ok {
			return nil
		}
		c.session.custom = s.cfg.Classify
		if err := c.session.prepare(t.ctx, s.dialect, c, wait); err != nil {
			return err
		}
		t.who = c.session
		g := &guarded{conn: c, dialect: s.dialect, savepoints: savepoints{dialect: s.dialect}}
		g.start = func(ctx context.Context) error { return t.sendBegin(ctx, c, wait) }
		c.guard, t.guard = g, g
		return nil
	})
	if err != nil {
		return err
	}
	if f := t.who.flavor; s.dialect == MariaDB && t.guard != nil && s.flavor.Load() == nil {
		s.flavor.Store(&f)
	}
	s.endOrphans(t)
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(t.ctx))
	t.settled = context.AfterFunc(t.ctx, t.cancel)
	t.tx, err = t.conn.BeginTx(ctx, &sql.TxOptions{Isolation: t.asked()})
	if err != nil {
		t.settled()
		t.cancel()
	}
	return err
}

// asked is the isolation to ask a driver for; SQLite's have none to offer.
func (t *txn) asked() sql.IsolationLevel {
	if t.store.dialect == SQLite {
		return sql.LevelDefault
	}
	return t.level
}

// sendBegin begins on a guarded connection, in as few round trips as there can
// be, whatever the driver's own BeginTx would do.
func (t *txn) sendBegin(ctx context.Context, c *conn, wait time.Duration) error {
	switch t.store.dialect {
	case PostgreSQL:
		return c.exec(ctx, "BEGIN ISOLATION LEVEL "+isolationSQL(t.level))
	case MariaDB:
		return c.beginMariaDB(ctx, isolationSQL(t.level))
	default:
		return c.beginSQLite(ctx, wait)
	}
}

func isolationSQL(l sql.IsolationLevel) string {
	switch l {
	case sql.LevelRepeatableRead:
		return "REPEATABLE READ"
	case sql.LevelSerializable:
		return "SERIALIZABLE"
	}
	return "READ COMMITTED"
}

// claim writes the claims as the transaction's first statements.
func (t *txn) claim(claims []yekbar.Claim, state yekbar.State) ([]yekbar.Claimed, error) {
	c, err := t.store.claim(t.ctx, t.tx, claims, state)
	if err != nil {
		return nil, t.store.claimError(t, err)
	}
	t.xid = c.xid
	if fresh := freshOf(c.claimed); len(fresh) > 0 {
		t.claimed = &claims[fresh[0]]
	}
	return c.claimed, nil
}

// identify makes a transaction without claims one that COMMIT can be checked
// for.
func (t *txn) identify() (err error) {
	if t.store.dialect == PostgreSQL {
		if t.xid, err = currentXID(private(t.ctx), t.tx); err != nil {
			return t.store.claimError(t, err)
		}
	}
	return nil
}

// call runs the handler.
func (t *txn) call(fn func() error) error {
	t.called = true
	return fn()
}

// finish ends the transaction, in any case, and says how.
func (t *txn) finish(commit bool, err error) error {
	defer t.release()
	defer t.cancel()
	cancelled := !t.settled()
	unclean := t.endSQLTx(commit && err == nil && !cancelled)
	boundary, failed := t.verdict()
	switch {
	case boundary != nil:
		err = joinBoundary(boundary, err)
	case err != nil:
		err = t.outcome(err, t.failureClass(failed, err))
	case cancelled || ended(t.ctx) != nil:
		err = t.outcome(errors.New("rolled back, for the context ended"), nil)
	case failed != nil && commit:
		err = fmt.Errorf("%w: %w", yekbar.ErrRolledBack, failed)
	case unclean != nil && commit:
		err = t.outcome(unclean, t.store.classify(t, unclean))
	case commit:
		return t.commit()
	}
	left := t.left()
	lost := t.rollback()
	t.closeConn(lost)
	switch {
	case left != nil:
		err = joinBoundary(left, err)
	case t.doubtful() && t.stillClaimed():
		err = joinBoundary(t.guard.doubtful, err)
	}
	return err
}

// endSQLTx ends the *sql.Tx of a guarded connection, so that its rows and
// statements are closed and it can't be used any more. Nothing is sent by
// that, and the guard looks at what the rows say until then.
func (t *txn) endSQLTx(commit bool) error {
	if t.guard == nil {
		return nil
	}
	if err := t.conn.Raw(func(any) error { t.guard.over = true; return nil }); err != nil {
		return err
	}
	if commit {
		if err := t.tx.Commit(); err != nil {
			return err
		}
	}
	if err := t.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// verdict says what the guard saw.
func (t *txn) verdict() (*yekbar.BoundaryError, *failure) {
	if t.guard == nil {
		return nil, nil
	}
	return t.guard.boundary, t.guard.failure
}

// joinBoundary puts what the handler did to its transaction in front of what
// it returned.
func joinBoundary(b *yekbar.BoundaryError, err error) error {
	var known *yekbar.BoundaryError
	if err == nil {
		return b
	}
	if errors.As(err, &known) && known == b {
		return err
	}
	return fmt.Errorf("%w: %w", b, err)
}

// failureClass is that of the first failed statement, which the handler may
// have hidden; over a plain *sql.DB all there is, is what the handler
// returned.
func (t *txn) failureClass(f *failure, err error) error {
	switch {
	case f != nil:
		return f.class
	case t.guard == nil && t.called:
		return t.store.classify(t, err)
	}
	return nil
}

// outcome is the error of an attempt that stored nothing.
func (t *txn) outcome(err, class error) error {
	err = with(class, err)
	if ctxErr := ended(t.ctx); ctxErr != nil {
		err = with(ctxErr, err)
	}
	return fmt.Errorf("sqlstore: %w", err)
}

// rollback sends ROLLBACK and reports whether the connection is lost.
func (t *txn) rollback() (lost bool) {
	if t.guard == nil {
		if err := t.tx.Rollback(); err != nil {
			return true // ended by the handler, or lost: who knows how it is
		}
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), cleanupTime)
	defer cancel()
	err := t.conn.Raw(func(any) error {
		if t.guard.conn.broken || !t.guard.open {
			return driver.ErrBadConn
		}
		return t.guard.conn.exec(ctx, "ROLLBACK")
	})
	return err != nil || t.guard.boundary != nil && t.guard.boundary.Escaped
}

// doubtful reports that the guard could not tell a statement that committed
// from a transaction that the database rolled back.
func (t *txn) doubtful() bool {
	return t.guard != nil && t.guard.doubtful != nil && t.claimed != nil &&
		(t.guard.boundary == nil || !t.guard.boundary.Escaped)
}

// stillClaimed looks for the claim after ROLLBACK. When it can't look, it
// stands there: nobody may take an attempt for undone that may not be.
func (t *txn) stillClaimed() bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), cleanupTime)
	defer cancel()
	n := 1
	err := t.store.db.QueryRowContext(ctx, t.store.sql.exists, t.claimed.Consumer, t.claimed.MessageID).Scan(&n)
	return err != nil || n > 0
}

// ended is ctx.Err(), or what it is about to be: drivers and the net package
// have timers of their own for a context's deadline.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return nil
}

// closeConn gives the connection back, or closes it for good.
func (t *txn) closeConn(lost bool) {
	if t.guard == nil && t.tx != nil {
		// A *sql.Tx that is still open keeps its connection from being closed.
		if err := t.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			lost = true
		}
	}
	err := t.conn.Raw(func(any) error {
		if t.guard != nil {
			lost = lost || t.guard.conn.broken
			t.guard.conn.guard, t.guard.conn.broken = nil, lost
		}
		return nil
	})
	if lost || err != nil {
		discard(t.conn)
	} else {
		giveBack(t.conn)
	}
}

// giveBack returns a connection to the pool. (*sql.Conn).Close can only say
// that this was done before.
func giveBack(c *sql.Conn) { _ = c.Close() }

// discard closes a connection for good. The error is what tells database/sql
// to do that, or says that it was done.
func discard(c *sql.Conn) { _ = c.Raw(func(any) error { return driver.ErrBadConn }) }
