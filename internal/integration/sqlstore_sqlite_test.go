package integration

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

func onSQLite(t *testing.T, run func(t *testing.T, d sqlDriver)) {
	for _, name := range []string{"modernc", "mattn"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, driverNamed(t, name)) })
	}
}

// slowUpdate runs for seconds, and changes rows.
const slowUpdate = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50000000)
INSERT INTO storetest_counters SELECT 'slow', COUNT(*) % 10 FROM c`

// Statements that end SQLite's transaction by failing: what follows would
// autocommit, and is refused.
func TestSQLiteNothingAfterRollback(t *testing.T) {
	t.Parallel()
	ends := map[string]func(s *sqlTest, ctx context.Context, tx *sql.Tx) error{
		"a cancelled statement": func(s *sqlTest, ctx context.Context, tx *sql.Tx) error {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := tx.ExecContext(ctx, slowUpdate)
			return err
		},
		"OR ROLLBACK": func(s *sqlTest, ctx context.Context, tx *sql.Tx) error {
			return s.exec(tx, "INSERT OR ROLLBACK INTO storetest_counters VALUES ('m-1', 1)")
		},
		"RAISE(ROLLBACK)": func(s *sqlTest, ctx context.Context, tx *sql.Tx) error {
			return s.exec(tx, "UPDATE raises SET n = n + 1")
		},
	}
	onSQLite(t, func(t *testing.T, d sqlDriver) {
		for name, end := range ends {
			for _, f := range []sqlFixture{{}, unguarded} {
				s := newSQLTest(t, d, f)
				s.outside("CREATE TABLE raises (n INT)")
				s.outside("INSERT INTO raises VALUES (1)")
				s.outside("CREATE TRIGGER raise BEFORE UPDATE ON raises BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
				s.outside("INSERT INTO storetest_counters VALUES ('after', 0)")
				_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
					if err := end(s, ctx, tx); err == nil {
						t.Errorf("%s did not fail", name)
					}
					err := sqlstore.Savepoint(ctx, tx, func(context.Context) error { return nil })
					if err == nil && !f.unguarded {
						t.Errorf("%s: a savepoint could be set after it", name)
					}
					_ = s.exec(tx, "UPDATE storetest_counters SET n = n + 1 WHERE name = 'after'")
					return nil
				})
				if f.unguarded {
					if _, n := s.stored("after"); n == 0 && err == nil {
						t.Errorf("%s: the twin did nothing wrong", name)
					}
					continue
				}
				s.wantError(err, yekbar.ErrRolledBack)
				s.want("after", 0, 0)
				if !s.settle("m-1") {
					t.Errorf("%s: not fresh afterwards", name)
				}
				s.want("m-1", 1, 1)
			}
		}
	})
}

// ROLLBACK TO can't forgive what ended the transaction.
func TestSQLiteNotForgiven(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, d sqlDriver) {
		s := newSQLTest(t, d, sqlFixture{})
		_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
			err := sqlstore.Savepoint(ctx, tx, func(ctx context.Context) error {
				return s.exec(tx, "INSERT OR ROLLBACK INTO storetest_counters VALUES ('m-1', 1)")
			})
			if err == nil {
				t.Error("no error")
			}
			if err := s.exec(tx, "INSERT INTO storetest_counters VALUES ('after', 1)"); err == nil {
				t.Error("a statement was executed")
			}
			return nil
		})
		s.wantError(err, yekbar.ErrRolledBack)
		s.want("after", 0, 0)
	})
}

// Another process that writes is an outage, and short; the store polls.
func TestSQLiteBusy(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, d sqlDriver) {
		s := newSQLTest(t, d, sqlFixture{})
		other, err := s.beside.Conn(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := other.ExecContext(s.ctx, "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		_, err = s.attempt(s.ctx, "m-1", nil)
		s.wantError(err, yekbar.ErrUnavailable)
		if errors.Is(err, yekbar.ErrInFlight) || yekbar.CountsAsAttempt(err) {
			t.Errorf("BUSY is %v", err)
		}
		ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		defer cancel()
		_, err = s.attempt(ctx, "m-1", nil)
		s.wantError(err, context.DeadlineExceeded)
		if _, err := other.ExecContext(s.ctx, "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if !s.settle("m-1") {
			t.Error("not fresh")
		}
	})
}

// The settings that decide about durability are the store's, whatever the
// driver's defaults are; busy_timeout stays the user's.
func TestSQLiteSettings(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, d sqlDriver) {
		s := newSQLTest(t, d, sqlFixture{})
		for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "5000", "foreign_keys": "1"} {
			var got string
			_, err := s.attempt(s.ctx, "m-"+name, func(ctx context.Context, tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "PRAGMA "+name).Scan(&got)
			})
			if err != nil || got != want {
				t.Errorf("%s is %q, want %q; %v", name, got, want, err)
			}
		}
	})
}

func TestSQLiteInMemoryIsRefused(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, d sqlDriver) {
		s := sqlstore.New(d.open(t, ":memory:", true), sqlstore.SQLite, sqlstore.Config{})
		if err := s.Check(t.Context()); !errors.Is(err, yekbar.ErrEnvironment) {
			t.Errorf("Check: %v", err)
		}
	})
}

// SQLite has the same code for a table that is missing, for every message
// alike, and for a function that one message's value made fail.
func TestSQLiteTellsWhatIsMissingFromWhatFails(t *testing.T) {
	onSQLite(t, func(t *testing.T, d sqlDriver) {
		s := newSQLTest(t, d, sqlFixture{})
		for _, c := range []struct {
			sql     string
			missing bool
		}{
			{"UPDATE no_such_table SET n = ? WHERE k = 1", true},
			{"SELECT no_such_column FROM sqlite_schema WHERE name = ?", true},
			{"SELECT json(?)", false},
		} {
			_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
				rows, err := tx.QueryContext(ctx, c.sql, "{bad")
				if err != nil {
					return errors.New("hidden")
				}
				for rows.Next() {
				}
				return errors.Join(rows.Err(), rows.Close()) //nolint:sqlclosecheck // its error counts
			})
			if errors.Is(err, yekbar.ErrEnvironment) != c.missing || yekbar.CountsAsAttempt(err) == c.missing {
				t.Errorf("%s: %v", c.sql, err)
			}
		}
	})
}
