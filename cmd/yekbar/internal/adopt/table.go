package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// A Table is one that has a row for each message that was processed. A view
// will do.
type Table struct {
	Name     string // also SCHEMA.NAME
	ID       string // column
	Source   string // column; "": none
	Time     string // column; "": none
	Consumer string // column; "": the rows are all one consumer's
	Named    string // what Consumer has in the rows that count
}

// Query selects the rows.
func (t Table) Query(d schema.Dialect) (text string, args []any) {
	var name []string
	for part := range strings.SplitSeq(t.Name, ".") {
		name = append(name, schema.Quote(d, part))
	}
	column := func(c string) string {
		if c == "" {
			return "NULL"
		}
		return schema.Quote(d, c)
	}
	asText := func(c string) string {
		switch {
		case c == "NULL":
			return c
		case d == schema.PostgreSQL:
			return "CAST(" + c + " AS text)"
		case d == schema.SQLite:
			return "CAST(" + c + " AS TEXT)"
		}
		return c // the text protocol has text, or a binary column's bytes
	}
	at := column(t.Time)
	if d == schema.SQLite {
		at = asText(at) // the driver would guess what dates look like
	}
	text = "SELECT " + asText(column(t.ID)) + ", " + asText(column(t.Source)) + ", " + at + " FROM " + strings.Join(name, ".")
	if t.Consumer != "" {
		placeholder := "?"
		if d == schema.PostgreSQL {
			placeholder = "$1"
		}
		text += " WHERE " + asText(column(t.Consumer)) + " = " + placeholder
		args = append(args, t.Named)
	}
	return text, args
}

// Rows reads the table in one go, over a connection of its own.
func (t Table) Rows(ctx context.Context, db *sql.DB, d schema.Dialect) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		stopped := false
		err := t.read(ctx, db, d, func(r Row) bool {
			stopped = !yield(r, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(Row{}, err)
		}
	}
}

func (t Table) read(ctx context.Context, db *sql.DB, d schema.Dialect, take func(Row) bool) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if d == schema.MariaDB {
		// TIMESTAMP columns are shown in the session's zone.
		if _, err := conn.ExecContext(ctx, "SET time_zone = '+00:00'"); err != nil {
			return err
		}
	}
	text, args := t.Query(d)
	rows, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		return fmt.Errorf("read %s: %w; see --table and the --…-column flags", t.Name, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, source sql.NullString
		var at any
		if err := rows.Scan(&id, &source, &at); err != nil {
			return fmt.Errorf("read %s: %w", t.Name, err)
		}
		when, err := instant(at)
		if err != nil {
			return fmt.Errorf("column %s of the row with ID %q: %w", t.Time, id.String, err)
		}
		if !take(Row{Source: source.String, ID: id.String, At: when}) {
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read %s: %w", t.Name, err)
	}
	return nil
}

// instant understands a timestamp. A number could be seconds as well as
// milliseconds: none is guessed.
func instant(v any) (time.Time, error) {
	switch v := v.(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return v, nil
	case []byte:
		return instant(string(v))
	case string:
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02"} {
			if t, err := time.Parse(layout, v); err == nil {
				return t, nil
			}
		}
		return time.Time{}, fmt.Errorf("%q is no time; use one as in RFC 3339 (without a zone it is UTC), or make a view that has it so, and import that", v)
	}
	return time.Time{}, fmt.Errorf("%v (%T) is no time; make a view that turns it into a timestamp, and import that", v, v)
}

// Stamp dates claims in the transaction that made them. What lies in the
// database's future keeps the time of the import.
func Stamp(d sqlstore.Dialect, names schema.Names) func(context.Context, *sql.Tx, string, []Dated) error {
	dialect := schema.Dialect(d.String())
	table := names.Table(dialect, schema.ProcessedMessages)
	return func(ctx context.Context, tx *sql.Tx, consumer string, claims []Dated) error {
		var cases, ids strings.Builder
		var when, keys []any
		n := 0
		next := func(cast string) string {
			n++
			if dialect == schema.PostgreSQL {
				return fmt.Sprintf("$%d%s", n, cast)
			}
			return "?"
		}
		for _, c := range claims {
			fmt.Fprintf(&cases, " WHEN %s THEN %s", next("::text"), next("::timestamptz"))
			when = append(when, c.MessageID, timeText(dialect, c.At))
		}
		name := next("::text")
		for i, c := range claims {
			if i > 0 {
				ids.WriteString(", ")
			}
			ids.WriteString(next("::text"))
			keys = append(keys, c.MessageID)
		}
		least := "LEAST"
		if dialect == schema.SQLite {
			least = "MIN"
		}
		_, err := tx.ExecContext(ctx, "UPDATE "+table+" SET processed_at = "+least+"(processed_at, CASE message_id"+cases.String()+" END) WHERE consumer_name = "+name+" AND message_id IN ("+ids.String()+")",
			append(append(when, consumer), keys...)...)
		if err != nil {
			return fmt.Errorf("date the claims: %w", err)
		}
		return nil
	}
}

// timeText is a time as processed_at has it.
func timeText(d schema.Dialect, t time.Time) string {
	switch d {
	case schema.MariaDB:
		return t.UTC().Format("2006-01-02 15:04:05.000000")
	case schema.SQLite:
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return t.UTC().Format(time.RFC3339Nano)
}
