package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// SQL fills an Instance for a store that speaks SQL: it creates the business
// tables and has a statement for each operation. SQLite needs its foreign keys
// switched on, MariaDB the right to create a procedure.
type SQL[Tx any] struct {
	Dialect string // "postgresql", "mariadb" or "sqlite"
	// Prefix stands before the names of the business tables, quoted as
	// needed: `"s1".`, or nothing.
	Prefix string
	// Table gives the name of one of the store's tables (schema.Tables),
	// qualified and quoted as needed.
	Table func(table string) string

	// Exec executes one statement without parameters in tx.
	Exec func(ctx context.Context, tx Tx, sql string) error
	// Outside executes one statement outside any transaction.
	Outside func(ctx context.Context, sql string) error
	// Number reads one number outside any transaction.
	Number func(ctx context.Context, sql string) (int, error)
}

// Fill creates the tables and sets all of i's functions that can be had from
// SQL: not Store, Begin, Savepoint and Blocked. To Ends it adds.
func (s SQL[Tx]) Fill(t testing.TB, i *Instance[Tx]) {
	t.Helper()
	for _, ddl := range s.tables() {
		if err := s.Outside(t.Context(), ddl); err != nil {
			t.Fatalf("storetest: %s: %v", ddl, err)
		}
	}
	counters := s.Prefix + "storetest_counters"
	i.Exec = s.Exec
	i.Add = func(ctx context.Context, tx Tx, key string, n int) error {
		return s.Exec(ctx, tx, s.upsert(quote(key), fmt.Sprint(n)))
	}
	i.Insert = func(ctx context.Context, tx Tx, key string) error {
		return s.Exec(ctx, tx, "INSERT INTO "+counters+" (name, n) VALUES ("+quote(key)+", 1)")
	}
	i.Read = func(ctx context.Context, key string) (int, error) {
		return s.Number(ctx, "SELECT COALESCE(MAX(n), 0) FROM "+counters+" WHERE name = "+quote(key))
	}
	i.Claims = s.count(schema.ProcessedMessages)
	i.Held = s.count(schema.HeldMessages)
	i.Later = s.later
	p := s.placeholder
	i.Statements = &Statements{
		Add: func(key string, n int) yekbar.Statement {
			return yekbar.Statement{SQL: s.upsert(p(1), p(2)), Args: []any{key, n}}
		},
		Update: func(key string, n int) yekbar.Statement {
			return yekbar.Statement{SQL: "UPDATE " + counters + " SET n = n + " + p(1) + " WHERE name = " + p(2), Args: []any{n, key}}
		},
		Insert: func(key string) yekbar.Statement {
			return yekbar.Statement{SQL: "INSERT INTO " + counters + " (name, n) VALUES (" + p(1) + ", 1)", Args: []any{key}}
		},
	}
	if s.Dialect == "mariadb" {
		if i.Ends == nil {
			i.Ends = map[string]func(context.Context, Tx) error{}
		}
		i.Ends["CALL of a procedure that commits"] = func(ctx context.Context, tx Tx) error {
			return s.Exec(ctx, tx, "CALL "+s.Prefix+"storetest_commit()")
		}
	}
	i.Violations = map[string]func(context.Context, Tx) error{}
	for name, stmts := range s.violations() {
		i.Violations[name] = func(ctx context.Context, tx Tx) error {
			for _, stmt := range stmts {
				if err := s.Exec(ctx, tx, stmt); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

func (s SQL[Tx]) tables() []string {
	name := "name VARCHAR(200) NOT NULL"
	engine, deferrable := "", " DEFERRABLE INITIALLY DEFERRED"
	if s.Dialect == "mariadb" {
		engine, deferrable = " ENGINE=InnoDB", ""
	}
	key := "FOREIGN KEY (name) REFERENCES " + s.Prefix + "storetest_counters (name)"
	ts := []string{
		"CREATE TABLE " + s.Prefix + "storetest_counters (" + name + " PRIMARY KEY, n BIGINT NOT NULL, CHECK (n < 1000000))" + engine,
		"CREATE TABLE " + s.Prefix + "storetest_children (" + name + ", " + key + ")" + engine,
	}
	switch s.Dialect {
	case "postgresql":
		ts = append(ts, "CREATE TABLE "+s.Prefix+"storetest_slots (n BIGINT UNIQUE"+deferrable+")")
	case "mariadb":
		ts = append(ts, "CREATE PROCEDURE "+s.Prefix+"storetest_commit() COMMIT")
	}
	if deferrable != "" {
		ts = append(ts, "CREATE TABLE "+s.Prefix+"storetest_orphans ("+name+", "+key+deferrable+")")
	}
	return ts
}

func (s SQL[Tx]) violations() map[string][]string {
	insert := func(table, values string) string {
		return "INSERT INTO " + s.Prefix + table + " VALUES (" + values + ")"
	}
	imitation := quote("suite-v-1' for key 'PRIMARY")
	vs := map[string][]string{
		"foreign key": {insert("storetest_children", "'nobody'")},
		"not null":    {insert("storetest_counters", "'null', NULL")},
		"check":       {insert("storetest_counters", "'check', 1000000")},
		"unique, in words that imitate a claim's": {
			insert("storetest_counters", imitation+", 1"), insert("storetest_counters", imitation+", 1"),
		},
	}
	if s.Dialect != "mariadb" {
		vs["foreign key, at COMMIT"] = []string{insert("storetest_orphans", "'nobody'")}
	}
	if s.Dialect == "postgresql" {
		vs["unique, at COMMIT"] = []string{insert("storetest_slots", "1"), insert("storetest_slots", "1")}
	}
	return vs
}

func (s SQL[Tx]) upsert(key, n string) string {
	into := "INSERT INTO " + s.Prefix + "storetest_counters"
	if s.Dialect == "mariadb" {
		return into + " (name, n) VALUES (" + key + ", " + n + ") ON DUPLICATE KEY UPDATE n = n + VALUES(n)"
	}
	return into + " AS c (name, n) VALUES (" + key + ", " + n + ") ON CONFLICT (name) DO UPDATE SET n = c.n + excluded.n"
}

func (s SQL[Tx]) placeholder(n int) string {
	if s.Dialect == "postgresql" {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

func (s SQL[Tx]) count(table string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		return s.Number(ctx, "SELECT COUNT(*) FROM "+s.Table(table))
	}
}

// times are the columns that hold times of the database's clock.
var times = map[string][]string{
	schema.ProcessedMessages: {"processed_at"},
	schema.HeldMessages:      {"due_at", "held_at"},
	schema.Attempts:          {"started_at", "start_until", "changed_at"},
	schema.Consumers:         {"first_seen", "watermark", "watermark_called_at", "published_watermark", "published_at", "prunable_watermark", "paused_at"},
	schema.Positions:         {"saved_at"},
	schema.AuditLog:          {"acted_at"},
}

// later moves all that is stored into the past.
func (s SQL[Tx]) later(ctx context.Context, d time.Duration) error {
	for table, columns := range times {
		var sets []string
		for _, c := range columns {
			sets = append(sets, c+" = "+s.before(c, d))
		}
		if err := s.Outside(ctx, "UPDATE "+s.Table(table)+" SET "+strings.Join(sets, ", ")); err != nil {
			return fmt.Errorf("storetest: table %s: %w", table, err)
		}
	}
	return nil
}

func (s SQL[Tx]) before(column string, d time.Duration) string {
	switch s.Dialect {
	case "postgresql":
		return fmt.Sprintf("%s - interval '%d microseconds'", column, d.Microseconds())
	case "mariadb":
		return fmt.Sprintf("%s - INTERVAL %d MICROSECOND", column, d.Microseconds())
	}
	return fmt.Sprintf("strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', %s, '-%.3f seconds')", column, d.Seconds())
}

// quote makes a literal of s, which has no backslash.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
