package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlscan"
)

// closeInner is what pgx's own transaction sends to be closed: no statement.
const closeInner = "-- committed by Yekbar"

// A tx is what handlers get: pgx's transaction without its ends.
type tx struct {
	inner pgx.Tx // pgx's own, for large objects
	conn  *pgx.Conn

	done atomic.Bool
	mu   sync.Mutex // held while the connection is used

	queue      []queued
	savepoints int
	failure    error   // of the first statement that failed and is not forgiven
	forgiven   []error // of those that are
	refused    error   // the *yekbar.BoundaryError of the first refusal
	doomed     error   // what no savepoint forgives
	left       string  // what ended the transaction
	large      bool    // inner is in use
}

var _ pgx.Tx = (*tx)(nil)

// keepForgiven bounds how many forgiven errors are remembered.
const keepForgiven = 16

// use begins the use of the connection by statements; leave must be called
// after it when the error is nil. The queue is sent before.
func (t *tx) use(ctx context.Context, sqls ...string) error {
	if err := t.take(); err != nil {
		return err
	}
	err := t.allow(sqls)
	if err == nil {
		err = t.flush(ctx)
	}
	if err != nil {
		t.mu.Unlock()
	}
	return err
}

// take locks mu, unless the transaction has ended.
func (t *tx) take() error {
	if t.done.Load() {
		return errDone()
	}
	t.mu.Lock()
	if t.done.Load() {
		t.mu.Unlock()
		return errDone()
	}
	return nil
}

func errDone() error {
	return fmt.Errorf("%w: a handler's pgx.Tx is good until the handler returns", yekbar.ErrTxDone)
}

// allow refuses statements that begin or end a transaction, and everything
// once the transaction has ended all the same.
func (t *tx) allow(sqls []string) error {
	if t.left != "" {
		return &yekbar.BoundaryError{What: t.left, Escaped: true}
	}
	for _, sql := range sqls {
		if s, ok := sqlscan.Boundary(schema.PostgreSQL, sql); ok {
			return t.refuse(s.What())
		}
	}
	return nil
}

func (t *tx) refuse(what string) error {
	err := &yekbar.BoundaryError{What: what}
	if t.refused == nil {
		t.refused = err
	}
	return err
}

// leave ends a use.
func (t *tx) leave(what string, err error) {
	t.note(what, err)
	t.mu.Unlock()
}

// note follows the transaction's state. The server's own word counts: an error
// that left the transaction alive (an argument that could not be encoded, no
// rows) is not a failed statement, and after ROLLBACK TO it is alive again.
func (t *tx) note(what string, err error) {
	switch c := t.conn.PgConn(); {
	case c.IsClosed():
		t.fail(err, "the connection was lost")
	case c.IsBusy(): // rows are being read
	case c.TxStatus() == 'E':
		t.fail(err, "a statement failed")
	case c.TxStatus() == 'T':
		if t.failure != nil && len(t.forgiven) < keepForgiven {
			t.forgiven = append(t.forgiven, t.failure)
		}
		t.failure = nil
	case t.left == "":
		t.left = what
	}
}

func (t *tx) fail(err error, otherwise string) {
	if t.failure != nil {
		return
	}
	if err == nil {
		err = errors.New(otherwise)
	}
	t.failure = err
}

// end makes every further use an error, and reports whether somebody was still
// using the transaction. Nobody uses it after that.
func (t *tx) end() (inUse bool) {
	t.done.Store(true)
	if !t.mu.TryLock() {
		hangUp(t.conn) // wakes who waits for the server
		t.mu.Lock()
		inUse = true
	}
	defer t.mu.Unlock()
	return inUse || !t.conn.IsClosed() && t.conn.PgConn().IsBusy()
}

// closeInner makes pgx's own transaction refuse further use.
func (t *tx) closeInner() {
	if t.large {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
		defer cancel()
		// It sends no statement, and on a lost connection nothing at all.
		_ = t.inner.Commit(ctx)
	}
}

// rolledBack is the error of a transaction that can't be committed because a
// statement failed.
func (t *tx) rolledBack() error {
	failure := t.failure
	if failure == nil {
		failure = errors.New("a statement sent through Conn failed")
	}
	return fmt.Errorf("%w: the handler returned nil, but a statement had failed and was not rolled back to a savepoint: %w", yekbar.ErrRolledBack, failure)
}

// explain adds to a handler's error what the database said, when that was not
// about the message: also when the handler hid it.
func (t *tx) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	failure := t.failure
	for _, f := range t.forgiven {
		if failure == nil && errors.Is(err, f) {
			failure = f
		}
	}
	err = ended(ctx, err)
	if failure == nil || errors.Is(err, yekbar.ErrInFlight) {
		return err
	}
	pgErr := (*pgconn.PgError)(nil)
	if ctx.Err() != nil && !errors.As(failure, &pgErr) {
		return err // the connection ended because the context did
	}
	class := classify(failure)
	if class == nil || errors.Is(err, class) {
		return err
	}
	if !errors.Is(err, failure) {
		return fmt.Errorf("%w: %w; the handler returned: %w", class, failure, err)
	}
	return mark(class, err)
}

// Commit is refused.
func (t *tx) Commit(context.Context) error { return t.refuseEnd("Commit") }

// Rollback is refused.
func (t *tx) Rollback(context.Context) error { return t.refuseEnd("Rollback") }

func (t *tx) refuseEnd(method string) error {
	if err := t.take(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	return t.refuse(method)
}

// Begin sets a savepoint.
func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.use(ctx); err != nil {
		return nil, err
	}
	t.savepoints++
	name := "yekbar_" + strconv.Itoa(t.savepoints)
	_, err := t.conn.Exec(ctx, "savepoint "+name)
	t.leave("Begin", err)
	if err != nil {
		return nil, err
	}
	return &nested{t: t, name: name}, nil
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.use(ctx, sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := t.conn.Exec(ctx, sql, t.watched(args)...)
	t.leave(sql, err)
	return tag, err
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.use(ctx, sql); err != nil {
		return failedRows{err}, err
	}
	in, err := t.conn.Query(ctx, sql, t.watched(args)...)
	t.leave(sql, err)
	return &rows{Rows: in, t: t, what: sql}, err
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rs, _ := t.Query(ctx, sql, args...)
	return row{rs}
}

func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := t.use(ctx); err != nil {
		return 0, err
	}
	n, err := t.conn.CopyFrom(ctx, table, columns, src)
	t.leave("CopyFrom", err)
	return n, err
}

func (t *tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.use(ctx, sql); err != nil {
		return nil, err
	}
	sd, err := t.conn.Prepare(ctx, name, sql)
	t.leave(sql, err)
	return sd, err
}

func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	sqls := make([]string, len(b.QueuedQueries))
	for i, q := range b.QueuedQueries {
		sqls[i] = q.SQL
	}
	if err := t.use(ctx, sqls...); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	for _, q := range b.QueuedQueries {
		q.Arguments = t.watched(q.Arguments)
	}
	in := t.conn.SendBatch(ctx, b)
	t.leave("SendBatch", nil)
	return &batchResults{BatchResults: in, t: t}
}

// LargeObjects works on pgx's own transaction. What is queued stays so: it
// can't be of large objects.
func (t *tx) LargeObjects() pgx.LargeObjects {
	if t.take() == nil {
		defer t.mu.Unlock()
		t.large = true
	}
	return t.inner.LargeObjects()
}

// Conn returns the connection. What is done through it is seen only by its
// effect, before COMMIT.
func (t *tx) Conn() *pgx.Conn { return t.conn }

// watched checks what a query rewriter makes of a statement; pgx's named
// arguments change no more than placeholders.
func (t *tx) watched(args []any) []any {
	for i, a := range args {
		switch a := a.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.NamedArgs, pgx.StrictNamedArgs:
			continue
		case pgx.QueryRewriter:
			args = append([]any{}, args...)
			args[i] = rewriter{a, t}
		}
		return args
	}
	return args
}

type rewriter struct {
	in pgx.QueryRewriter
	t  *tx
}

func (r rewriter) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, args []any) (string, []any, error) {
	sql, args, err := r.in.RewriteQuery(ctx, conn, sql, args)
	if err == nil {
		err = r.t.allow([]string{sql})
	}
	return sql, args, err
}
