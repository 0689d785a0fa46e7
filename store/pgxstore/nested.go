package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A nested is a savepoint of a tx, as pgx has it: Commit releases it, Rollback
// goes back to it.
type nested struct {
	t      *tx
	name   string
	closed bool
}

var _ pgx.Tx = (*nested)(nil)

func (n *nested) end(ctx context.Context, sql string) error {
	if n.closed {
		return pgx.ErrTxClosed
	}
	n.closed = true
	_, err := n.t.Exec(ctx, sql+n.name)
	return err
}

func (n *nested) Commit(ctx context.Context) error   { return n.end(ctx, "release savepoint ") }
func (n *nested) Rollback(ctx context.Context) error { return n.end(ctx, "rollback to savepoint ") }

func (n *nested) Begin(ctx context.Context) (pgx.Tx, error) {
	if n.closed {
		return nil, pgx.ErrTxClosed
	}
	return n.t.Begin(ctx)
}

func (n *nested) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if n.closed {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return n.t.Exec(ctx, sql, args...)
}

func (n *nested) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if n.closed {
		return failedRows{pgx.ErrTxClosed}, pgx.ErrTxClosed
	}
	return n.t.Query(ctx, sql, args...)
}

func (n *nested) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rs, _ := n.Query(ctx, sql, args...)
	return row{rs}
}

func (n *nested) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if n.closed {
		return 0, pgx.ErrTxClosed
	}
	return n.t.CopyFrom(ctx, table, columns, src)
}

func (n *nested) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if n.closed {
		return nil, pgx.ErrTxClosed
	}
	return n.t.Prepare(ctx, name, sql)
}

func (n *nested) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if n.closed {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	return n.t.SendBatch(ctx, b)
}

func (n *nested) LargeObjects() pgx.LargeObjects { return n.t.LargeObjects() }
func (n *nested) Conn() *pgx.Conn                { return n.t.Conn() }
