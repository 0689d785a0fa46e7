package integration

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

// sqlDriver is one of the drivers that sqlstore is tested with.
type sqlDriver struct {
	name    string // of the test
	driver  string
	dialect sqlstore.Dialect
	// dsn makes a fresh database.
	dsn func(t testing.TB) string
}

var sqlDrivers = []sqlDriver{
	{"pgx", "pgx", sqlstore.PostgreSQL, func(t testing.TB) string { return servers.PostgreSQL(t) }},
	{"pq", "postgres", sqlstore.PostgreSQL, func(t testing.TB) string { return servers.PostgreSQL(t) }},
	{"mysql", "mysql", sqlstore.MariaDB, func(t testing.TB) string { return mariaDSN(t, servers.MariaDB(t)) }},
	{"modernc", "sqlite", sqlstore.SQLite, func(t testing.TB) string {
		return "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)"
	}},
	{"mattn", "sqlite3", sqlstore.SQLite, func(t testing.TB) string {
		return "file:" + filepath.Join(t.TempDir(), "test.db") + "?_foreign_keys=on&_busy_timeout=5000"
	}},
}

func driverNamed(t testing.TB, name string) sqlDriver {
	t.Helper()
	for _, d := range sqlDrivers {
		if d.name == name {
			return d
		}
	}
	t.Fatalf("no driver %q", name)
	return sqlDriver{}
}

// eachDriver runs a test over every driver.
func eachDriver(t *testing.T, run func(t *testing.T, d sqlDriver)) {
	for _, d := range sqlDrivers {
		t.Run(d.name, func(t *testing.T) { t.Parallel(); run(t, d) })
	}
}

// mariaDSN turns a mysql:// URL into the driver's own form.
func mariaDSN(t testing.TB, url string) string {
	t.Helper()
	cfg, err := servers.MariaDBConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.FormatDSN()
}

// open opens a *sql.DB with the guard, or without.
func (d sqlDriver) open(t testing.TB, dsn string, guarded bool) *sql.DB {
	t.Helper()
	open := sqlstore.Open
	if !guarded {
		open = sql.Open
	}
	db, err := open(d.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Logf("close: %v", err) // of a connection that the test has killed
		}
	})
	return db
}

// store is a migrated store over a fresh database.
func (d sqlDriver) store(t testing.TB, c sqlstore.Config) (*sqlstore.Store, *sql.DB) {
	t.Helper()
	db := d.open(t, d.dsn(t), true)
	s := sqlstore.New(db, d.dialect, c)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, db
}

// sqlFixture is storetest's over a driver.
type sqlFixture struct {
	sqlDriver
	config    sqlstore.Config
	unguarded bool
}

func (f sqlFixture) suite() storetest.Fixture[*sql.Tx] {
	open := func(conns int) func(testing.TB) *storetest.Instance[*sql.Tx] {
		return func(t testing.TB) *storetest.Instance[*sql.Tx] { return f.instance(t, conns) }
	}
	return storetest.Fixture[*sql.Tx]{New: open(8), NewSingle: open(1), Dialect: f.dialect.String(), Unguarded: f.unguarded}
}

func (f sqlFixture) instance(t testing.TB, conns int) *storetest.Instance[*sql.Tx] {
	t.Helper()
	dsn := f.dsn(t)
	db := f.open(t, dsn, !f.unguarded)
	db.SetMaxOpenConns(conns)
	store := sqlstore.New(db, f.dialect, f.config)
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	beside := f.open(t, dsn, false) // sees what was committed, whatever the pool does
	names := schema.Names{Schema: f.config.Schema, Prefix: f.config.Prefix}
	d := schema.Dialect(f.dialect.String())
	i := &storetest.Instance[*sql.Tx]{
		Store: store,
		Begin: func(ctx context.Context) (*sql.Tx, func(context.Context, bool) error, error) {
			return beginPlain(ctx, db)
		},
		Savepoint: savepoint,
		Ends: map[string]func(context.Context, *sql.Tx) error{
			"Commit":   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
			"Rollback": func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		},
		Blocked: blockedIn(f.dialect, beside),
	}
	storetest.SQL[*sql.Tx]{
		Dialect: f.dialect.String(),
		Table:   func(table string) string { return names.Table(d, table) },
		Exec: func(ctx context.Context, tx *sql.Tx, text string) error {
			_, err := tx.ExecContext(ctx, text)
			return err
		},
		Outside: func(ctx context.Context, text string) error {
			_, err := beside.ExecContext(ctx, text)
			return err
		},
		Number: func(ctx context.Context, text string) (n int, err error) {
			err = beside.QueryRowContext(ctx, text).Scan(&n)
			return n, err
		},
	}.Fill(t, i)
	return i
}

func savepoint(ctx context.Context, tx *sql.Tx, fn func(context.Context, *sql.Tx) error) error {
	return sqlstore.Savepoint(ctx, tx, func(ctx context.Context) error { return fn(ctx, tx) })
}

func beginPlain(ctx context.Context, db *sql.DB) (*sql.Tx, func(context.Context, bool) error, error) {
	tx, err := db.BeginTx(ctx, nil)
	return tx, func(_ context.Context, commit bool) error {
		if commit {
			return tx.Commit()
		}
		return tx.Rollback()
	}, err
}

// blockedIn counts the transactions that wait for a lock, as the server sees
// them.
func blockedIn(d sqlstore.Dialect, db *sql.DB) func(context.Context, int) error {
	text := map[sqlstore.Dialect]string{
		sqlstore.PostgreSQL: "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
		// INNODB_TRX is not refreshed while anybody polls it; a statement that
		// takes so long here waits for a lock.
		sqlstore.MariaDB: "SELECT COUNT(*) FROM information_schema.PROCESSLIST" +
			" WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND COMMAND IN ('Query', 'Execute') AND TIME_MS > 100",
	}[d]
	if text == "" {
		return nil
	}
	return func(ctx context.Context, want int) error {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var n int
			if err := db.QueryRowContext(ctx, text).Scan(&n); err != nil {
				return err
			}
			if n >= want {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("%d of %d transactions wait for a lock: %w", n, want, ctx.Err())
			}
		}
	}
}
