package pgxstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/yekbar-go/yekbar"
)

// commit sends what is queued, the guard and COMMIT in one round trip.
func (a *attempt) commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	conn, queue := a.conn.Conn(), a.tx.queue
	b := &pgx.Batch{}
	for _, q := range queue {
		q.queue(b)
	}
	b.Queue(guard, xidString(a.xid))
	b.Queue("commit")

	br := conn.SendBatch(ctx, b)
	for _, q := range queue {
		if err := q.read(br); err != nil {
			return a.notCommitted(ctx, br, "a queued statement", err)
		}
	}
	if _, err := br.Exec(); err != nil {
		return a.notCommitted(ctx, br, "the guard before COMMIT", a.guardError(err))
	}
	return a.readCommit(ctx, br)
}

// readCommit reads the answer to COMMIT, the batch's last.
func (a *attempt) readCommit(ctx context.Context, br pgx.BatchResults) error {
	notices := watchNotices(a.conn.Conn())
	tag, err := br.Exec()
	if err != nil {
		return a.notCommitted(ctx, br, "COMMIT", err)
	}
	closeErr := br.Close()
	noticed := notices.end()
	switch {
	case tag.String() == "ROLLBACK":
		return errors.Join(fmt.Errorf("%w: a statement had failed", yekbar.ErrRolledBack), a.rollback(ctx))
	case tag.String() != "COMMIT":
		return a.unknown(fmt.Errorf("the server answered COMMIT with %q", tag))
	case noticed:
		return a.unknown(errors.New("the server said something beside COMMIT, as it does when a wait for synchronous replication is cancelled"))
	case closeErr != nil:
		// Committed, and then the connection was lost.
		a.abandon()
		return nil //nolint:nilerr // the answer to COMMIT had come
	}
	a.ended = true
	return nil
}

// guardError makes a boundary error of the guard's own failure.
func (a *attempt) guardError(err error) error {
	pgErr := (*pgconn.PgError)(nil)
	if errors.As(err, &pgErr) && pgErr.Code == "22012" {
		return &yekbar.BoundaryError{What: throughConn, Escaped: true}
	}
	return err
}

// notCommitted sorts an error of the round trip with COMMIT into those that
// leave the transaction rolled back for certain, and the rest.
func (a *attempt) notCommitted(ctx context.Context, br pgx.BatchResults, what string, err error) error {
	closeErr := br.Close()
	conn := a.conn.Conn()
	untrace(conn)
	if boundary := (*yekbar.BoundaryError)(nil); errors.As(err, &boundary) {
		a.abandon()
		return err
	}
	alive := !conn.IsClosed() && !conn.PgConn().IsBusy()
	pgErr := (*pgconn.PgError)(nil)
	switch {
	case errors.As(err, &pgErr) && !isFatal(pgErr):
		// The server refused this one, and skipped what came after it.
	case alive && (conn.PgConn().TxStatus() == 'T' || conn.PgConn().TxStatus() == 'E'):
		// The transaction is still open: something before COMMIT failed, or
		// could not be encoded.
	case pgconn.SafeToRetry(err):
		a.abandon()
		return fmt.Errorf("%w: pgxstore: %s was not sent: %w", yekbar.ErrUnavailable, what, err)
	default:
		return a.unknown(errors.Join(err, closeErr))
	}
	err = fmt.Errorf("pgxstore: %s: %w", what, err)
	if errors.As(err, &pgErr) {
		err = mark(classify(pgErr), err)
	}
	err = ended(ctx, err)
	return errors.Join(err, a.rollback(ctx))
}

// unknown gives the connection up.
func (a *attempt) unknown(err error) error {
	a.abandon()
	return fmt.Errorf("%w: %w", yekbar.ErrCommitUnknown, err)
}

// A noticeWatch sees whether the server sent a notice. There is no other way
// to a pool's connection than its trace: its OnNotice is set before it is
// opened.
type noticeWatch struct {
	conn *pgx.Conn
	seen atomic.Bool
}

func watchNotices(conn *pgx.Conn) *noticeWatch {
	w := &noticeWatch{conn: conn}
	conn.PgConn().Frontend().Trace(w, pgproto3.TracerOptions{SuppressTimestamps: true})
	return w
}

// Write takes a line of the trace.
func (w *noticeWatch) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("\tNoticeResponse\t")) {
		w.seen.Store(true)
	}
	return len(line), nil
}

func (w *noticeWatch) end() bool {
	untrace(w.conn)
	return w.seen.Load()
}

// untrace leaves a closed connection alone: pgx says goodbye on it in a
// goroutine of its own.
func untrace(conn *pgx.Conn) {
	if !conn.IsClosed() {
		conn.PgConn().Frontend().Untrace()
	}
}
