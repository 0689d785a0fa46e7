package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

// commit sends COMMIT, which only this does, and says what became of it.
func (t *txn) commit() error {
	err := t.sendCommit()
	if err == nil {
		t.closeConn(false)
		return nil
	}
	if boundary := t.escaped(err); boundary != nil {
		t.closeConn(true)
		return boundary
	}
	if !commitRefused(err) {
		t.store.orphans.add(t)
		t.closeConn(true)
		return fmt.Errorf("sqlstore: %w: %w", yekbar.ErrCommitUnknown, err)
	}
	if state, ok := sqlState(err); ok && state == inFailedTransaction {
		err = fmt.Errorf("%w: a failed statement was swallowed: %w", yekbar.ErrRolledBack, err)
	}
	class, _ := fromServer(err)
	err = with(class, fmt.Errorf("COMMIT refused: %w", err))
	t.closeConn(t.rollback())
	return fmt.Errorf("sqlstore: %w", err)
}

// sendCommit sends COMMIT on a context that the caller's end doesn't reach.
//
// On PostgreSQL what proves that this is still the transaction of the claim
// goes before it: another one has another id, and the division fails. Without
// arguments pgx and lib/pq both send a text by the simple protocol, so that
// the two are one round trip, and COMMIT is not executed when the proof fails.
func (t *txn) sendCommit() error {
	if t.guard == nil {
		return t.sendPlainCommit()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), commitTime)
	defer cancel()
	text := "COMMIT"
	if t.xid != "" {
		text = sameTransaction(t.xid) + "; COMMIT"
	}
	var err error
	lost := t.conn.Raw(func(any) error {
		err = t.guard.conn.exec(ctx, text)
		return nil
	})
	return errors.Join(err, lost)
}

// sendPlainCommit does the same over a connection without a guard, in two
// round trips, for there *sql.Tx must see its own COMMIT.
func (t *txn) sendPlainCommit() error {
	// The transaction's context is all that bounds (*sql.Tx).Commit.
	timer := time.AfterFunc(commitTime, t.cancel)
	defer timer.Stop()
	if t.xid != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), commitTime)
		defer cancel()
		if _, err := t.tx.ExecContext(ctx, sameTransaction(t.xid)); err != nil {
			return err
		}
	}
	return t.tx.Commit()
}

func sameTransaction(xid string) string {
	return "SELECT 1/(pg_catalog.pg_current_xact_id() = '" + xid + "'::pg_catalog.xid8)::pg_catalog.int4"
}

const (
	divisionByZero      = "22012"
	inFailedTransaction = "25P02"
)

// escaped finds out, from what COMMIT said, that the handler had left its
// transaction.
func (t *txn) escaped(err error) *yekbar.BoundaryError {
	if state, ok := sqlState(err); ok && t.xid != "" && state == divisionByZero {
		return &yekbar.BoundaryError{What: "another transaction was open at its end", Escaped: true}
	}
	if t.guard == nil && errors.Is(err, sql.ErrTxDone) {
		return &yekbar.BoundaryError{What: "Tx.Commit or Tx.Rollback", Escaped: t.status() != "aborted"}
	}
	return nil
}

// left does the same before ROLLBACK, over PostgreSQL without a guard: the
// handler may have committed the claim before it failed.
func (t *txn) left() *yekbar.BoundaryError {
	if t.guard != nil || !t.called || t.xid == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), cleanupTime)
	defer cancel()
	if _, err := t.tx.ExecContext(ctx, sameTransaction(t.xid)); err != nil && !errors.Is(err, sql.ErrTxDone) {
		if b := t.escaped(err); b != nil {
			return b
		}
	}
	if t.status() == "committed" {
		return &yekbar.BoundaryError{What: "COMMIT", Escaped: true}
	}
	return nil
}

// status asks PostgreSQL what became of the claim's transaction, over its
// connection; "" is no answer.
func (t *txn) status() (status string) {
	if t.xid == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), cleanupTime)
	defer cancel()
	query := "SELECT pg_catalog.pg_xact_status('" + t.xid + "'::pg_catalog.xid8)"
	err := t.conn.QueryRowContext(ctx, query).Scan(&status)
	if state, ok := sqlState(err); ok && state == inFailedTransaction {
		return "in progress" // this one's block is open yet, whosever it is
	}
	if err != nil {
		return ""
	}
	return status
}

// commitRefused reports whether the database itself said that COMMIT failed,
// in a way that leaves nothing stored. All else is unknown.
func commitRefused(err error) bool {
	if state, ok := sqlState(err); ok {
		// FATAL errors (57P01 and the like) can come after the commit. 40003
		// is statement_completion_unknown.
		return state != "40003" && slices.ContainsFunc([]string{"0A", "22", "23", "25", "27", "40", "42", "44", "54", "55", "P0"},
			func(class string) bool { return strings.HasPrefix(state, class) })
	}
	if number, ok := mysqlNumber(err); ok {
		return slices.Contains([]uint16{1020, 1205, 1213, 1290, 1792, 1836}, number)
	}
	if code, ok := sqliteCode(err); ok {
		// BUSY, READONLY, FULL, CONSTRAINT: the transaction is still open.
		return slices.Contains([]int{5, 8, 13, 19}, code&0xff)
	}
	return false
}
