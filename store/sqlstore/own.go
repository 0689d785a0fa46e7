package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// own makes a transaction without a handler: READ COMMITTED, whatever the
// handlers' isolation is, for it locks what it goes by and wants to see it as
// it is then.
func (s *Store) own(ctx context.Context, fn func(*txn) (commit bool, err error)) error {
	return s.inTxAt(ctx, sql.LevelReadCommitted, defaultWait, fn)
}

// read is a query outside any transaction. It gives its connection back before
// it returns, so that a pool of one is enough.
func (s *Store) read(ctx context.Context, row func(*sql.Rows) error, text string, args ...any) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: nothing asked: %w", err)
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return s.connectError(ctx, err)
	}
	defer giveBack(conn)
	rows, err := conn.QueryContext(ctx, s.rebind(text), args...)
	if err = each(rows, err, row); err != nil {
		return with(ended(ctx), s.claimError(nil, err))
	}
	return nil
}

// exec executes one of the store's own statements, its placeholders written
// as ?.
func (t *txn) exec(text string, args ...any) error {
	_, err := t.tx.ExecContext(private(t.ctx), t.store.rebind(text), args...)
	if err != nil {
		return t.store.claimError(t, err)
	}
	return nil
}

// query is exec for what returns rows.
func (t *txn) query(row func(*sql.Rows) error, text string, args ...any) error {
	rows, err := t.tx.QueryContext(private(t.ctx), t.store.rebind(text), args...)
	if err = each(rows, err, row); err != nil {
		return t.store.claimError(t, err)
	}
	return nil
}

// one is query for at most one row.
func (t *txn) one(dest []any, text string, args ...any) (found bool, err error) {
	err = t.query(func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, text, args...)
	return found, err
}

// rebind numbers the placeholders for PostgreSQL.
func (s *Store) rebind(text string) string {
	if s.dialect != PostgreSQL {
		return text
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		fmt.Fprintf(&b, "$%d", n)
		text = after
	}
}

// table is one of the store's tables in SQL.
func (s *Store) table(name string) string { return s.names.Table(s.dialect.schema(), name) }

const (
	ofMessage  = " WHERE consumer_name = ? AND message_id = ?"
	ofConsumer = " WHERE consumer_name = ?"
)

// ensure inserts a row unless it is there, and locks it in any case.
func (t *txn) ensure(table string, key []string, values ...any) error {
	text := "INSERT INTO " + t.store.table(table) + " (" + strings.Join(key, ", ") + ") VALUES (" + marks(len(key)) + ")"
	if t.store.dialect == MariaDB {
		text += " ON DUPLICATE KEY UPDATE consumer_name = VALUES(consumer_name)"
	} else {
		text += " ON CONFLICT (" + strings.Join(key, ", ") + ") DO UPDATE SET consumer_name = excluded.consumer_name"
	}
	return t.exec(text, values...)
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// lockClaim reads the state of a claim, "" where there is none, and keeps
// others from changing it. It waits for an attempt in flight.
func (t *txn) lockClaim(consumer, messageID string) (state yekbar.State, err error) {
	var text string
	c := &claiming{Store: t.store, ctx: private(t.ctx), tx: t.tx}
	err = c.limited(defaultWait, func() error {
		err := t.tx.QueryRowContext(c.ctx, t.store.rebind("SELECT state FROM "+t.store.sql.claims+ofMessage+t.store.dialect.forUpdate()), consumer, messageID).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return "", t.store.claimError(t, err)
	}
	return yekbar.State(text), nil
}

// forUpdate locks what a SELECT reads. On SQLite BEGIN IMMEDIATE has done that.
func (d Dialect) forUpdate() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE"
}

// skipLocked is forUpdate for what nobody else has locked. MariaDB knows it
// from 10.6 on, MySQL from 8.0 on.
func (d Dialect) skipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// later is the database's clock plus a ? that duration makes an argument of.
func (d Dialect) later() string {
	switch d {
	case PostgreSQL:
		return "pg_catalog.clock_timestamp() + ?::pg_catalog.int8 * '1 microsecond'::pg_catalog.interval"
	case MariaDB:
		return "UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"
	}
	return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)"
}

func (d Dialect) duration(of time.Duration) any {
	if d == SQLite {
		return fmt.Sprintf("%+.3f seconds", of.Seconds())
	}
	return of.Microseconds()
}

// clock is the database's clock to scan as an instant. Unlike now it is read
// once in a statement, and an index can be searched with it.
func (d Dialect) clock() string {
	if d == PostgreSQL {
		return "(SELECT pg_catalog.clock_timestamp())"
	}
	return d.now()
}

// among is a condition, and its arguments, that a message is one of ids: as
// one argument where the database can, so that the statement's text is always
// the same.
func (d Dialect) among(ids []string) (condition string, args []any) {
	if d == MariaDB {
		hex := make([]string, len(ids))
		for i, id := range ids {
			hex[i] = hexText(id)
		}
		return "message_id IN (" + strings.Join(hex, ", ") + ")", nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		panic(err) // strings always encode
	}
	if d == PostgreSQL {
		// Where statistics are stale, the bounds keep the planner from walking
		// through all of the consumer.
		return "message_id >= ? AND message_id <= ? AND message_id = ANY (ARRAY(SELECT j.id FROM pg_catalog.json_array_elements_text(?::pg_catalog.text::pg_catalog.json) AS j(id)))",
			[]any{slices.Min(ids), slices.Max(ids), string(list)}
	}
	return "message_id IN (SELECT value FROM json_each(?))", []any{string(list)}
}

// bytes is a column to scan as bytes. modernc.org/sqlite gives nil for an empty
// BLOB, as for NULL, but not for an empty text.
func (d Dialect) bytes(column string) string {
	if d == SQLite {
		return "CASE WHEN length(" + column + ") = 0 THEN '' ELSE " + column + " END"
	}
	return column
}

// strings reads one column.
func (t *txn) strings(text string, args ...any) (list []string, err error) {
	err = t.query(func(rows *sql.Rows) error {
		var v string
		if err := rows.Scan(&v); err != nil {
			return err
		}
		list = append(list, v)
		return nil
	}, text, args...)
	return list, err
}

// encoded scans text that schema.EncodeText wrote, or NULL as "".
type encoded struct{ to *string }

// Scan implements sql.Scanner.
func (e encoded) Scan(v any) error {
	var text sql.NullString
	err := text.Scan(v)
	if err == nil {
		*e.to, err = schema.DecodeText(text.String)
	}
	return err
}
