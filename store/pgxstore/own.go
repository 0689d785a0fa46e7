package pgxstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// own makes a transaction without a handler: READ COMMITTED, whatever the
// attempts' isolation is, for it locks what it goes by and wants to see it as
// it is then.
func (s *Store) own(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.inTx(ctx, pgx.ReadCommitted, fn)
}

// queue keeps a statement to travel with COMMIT.
func queue(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	return Queue(ctx, tx, yekbar.Statement{SQL: sql, Args: args})
}

// exec executes one statement in a transaction of its own.
func (s *Store) exec(ctx context.Context, what, sql string, args ...any) error {
	_, err := s.pool.Exec(ctx, sql, args...)
	return statementError(ctx, what, err)
}

// all reads the rows of one statement in a transaction of its own. It gives the
// connection back before it returns, so that a pool of one is enough.
func all[T any](ctx context.Context, s *Store, what string, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, statementError(ctx, what, err)
	}
	ts, err := pgx.CollectRows(rows, scan)
	return ts, statementError(ctx, what, err)
}

// pageSize is how many rows of a list are read at once.
const pageSize = 100

// pages lists what page reads, n at a time from after on; limit 0 is no limit.
func pages[T any](after int64, limit int, page func(after int64, n int) ([]*T, error), at func(*T) int64) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		after := after
		for left := limit; ; left -= pageSize {
			n := pageSize
			if limit > 0 {
				n = min(n, left)
			}
			if n <= 0 {
				return
			}
			ts, err := page(after, n)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range ts {
				if !yield(t, nil) {
					return
				}
				after = at(t)
			}
			if len(ts) < n {
				return
			}
		}
	}
}

// encoded scans what schema.EncodeText made; NULL is empty.
type encoded string

// Scan implements sql.Scanner.
func (e *encoded) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*e = ""
		return nil
	case string:
		s, err := schema.DecodeText(v)
		*e = encoded(s)
		return err
	}
	return fmt.Errorf("text is read as %T", v)
}

func scanText(row pgx.CollectableRow) (string, error) {
	var text encoded
	err := row.Scan(&text)
	return string(text), err
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// orNull is t for a column; the zero time is NULL.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
