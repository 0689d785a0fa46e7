package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar"
)

// guardedFake is a store over a fake, whose transactions without claims need
// nothing from it.
func guardedFake(t *testing.T, d Dialect) (*Store, *fake, *sql.DB) {
	t.Helper()
	f := &fake{}
	db := sql.OpenDB(Guard(f))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(db, d, Config{}), f, db
}

func exec(t *testing.T, tx *sql.Tx, text string) error {
	t.Helper()
	_, err := tx.ExecContext(t.Context(), text)
	return err
}

var dialects = []Dialect{PostgreSQL, MariaDB, SQLite}

func eachDialect(t *testing.T, run func(t *testing.T, d Dialect)) {
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) { run(t, d) })
	}
}

// committed reports whether a COMMIT was sent.
func committed(log []string) bool {
	return slices.ContainsFunc(log, func(s string) bool {
		return s == "COMMIT" || s == sameTransaction("1")+"; COMMIT"
	})
}

func TestGuardRefusesEnds(t *testing.T) {
	eachDialect(t, func(t *testing.T, d Dialect) {
		for _, text := range []string{"COMMIT", "rollback", "BEGIN", "/* x */ commit ;", "SELECT 1; COMMIT", "END"} {
			if d == MariaDB && text == "END" {
				continue // no statement there
			}
			for _, how := range []string{"exec", "query", "prepare"} {
				s, f, _ := guardedFake(t, d)
				err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					var err error
					switch how {
					case "exec":
						_, err = tx.ExecContext(ctx, text)
					case "query":
						var rows *sql.Rows
						if rows, err = tx.QueryContext(ctx, text); err == nil {
							defer rows.Close()
							err = rows.Err()
						}
					case "prepare":
						var stmt *sql.Stmt
						if stmt, err = tx.PrepareContext(ctx, text); err == nil {
							defer stmt.Close()
						}
					}
					if !errors.Is(err, yekbar.ErrBoundary) {
						t.Errorf("%s of %q: error %v", how, text, err)
					}
					if err := exec(t, tx, "UPDATE t"); !errors.Is(err, yekbar.ErrBoundary) {
						t.Errorf("a statement after %q: error %v", text, err)
					}
					return nil // swallowed
				})
				var b *yekbar.BoundaryError
				if !errors.As(err, &b) || b.Escaped {
					t.Errorf("%s of %q: %v", how, text, err)
				}
				if log := f.sent(); committed(log) || slices.Contains(log, text) || slices.Contains(log, "UPDATE t") {
					t.Errorf("%s of %q: sent %q", how, text, log)
				}
			}
		}
	})
}

func TestGuardRefusesMethods(t *testing.T) {
	eachDialect(t, func(t *testing.T, d Dialect) {
		for name, end := range map[string]func(*sql.Tx) error{"Commit": (*sql.Tx).Commit, "Rollback": (*sql.Tx).Rollback} {
			s, f, _ := guardedFake(t, d)
			err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				if err := end(tx); !errors.Is(err, yekbar.ErrBoundary) {
					t.Errorf("%s: %v", name, err)
				}
				return nil
			})
			var b *yekbar.BoundaryError
			if !errors.As(err, &b) || b.Escaped || b.What != "Tx."+name {
				t.Errorf("%s: %v", name, err)
			}
			if log := f.sent(); committed(log) || !slices.Contains(log, "ROLLBACK") {
				t.Errorf("%s: sent %q", name, log)
			}
		}
	})
}

func TestGuardSwallowedFailure(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"exec": func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, "fail"); return err },
		"query": func(ctx context.Context, tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, "fail")
			if err != nil {
				return err
			}
			return errors.Join(rows.Err(), rows.Close()) //nolint:sqlclosecheck // its error counts
		},
		"prepared": func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, "fail skip"); return err },
		"rows": func(ctx context.Context, tx *sql.Tx) error {
			var s string
			return tx.QueryRowContext(ctx, "SELECT torn").Scan(&s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d Dialect) {
				s, f, _ := guardedFake(t, d)
				err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					if err := fail(ctx, tx); !errors.Is(err, errFake) {
						t.Errorf("the failing statement: %v", err)
					}
					if err := exec(t, tx, "UPDATE t"); !errors.Is(err, errFake) {
						t.Errorf("after the failure: %v, want a refusal that names it", err)
					}
					return nil
				})
				if !errors.Is(err, yekbar.ErrRolledBack) || !errors.Is(err, errFake) {
					t.Errorf("swallowed: %v", err)
				}
				if log := f.sent(); committed(log) || slices.Contains(log, "UPDATE t") || !slices.Contains(log, "ROLLBACK") {
					t.Errorf("sent %q", log)
				}
			})
		})
	}
}

func TestGuardForgives(t *testing.T) {
	for _, c := range []struct {
		name      string
		texts     []string
		forgiven  bool
		onMariaDB bool // what it says there
	}{
		{"a savepoint set before", []string{"SAVEPOINT a", "fail", "ROLLBACK TO SAVEPOINT a"}, true, true},
		{"an outer one", []string{"SAVEPOINT a", "SAVEPOINT b", "fail", "ROLLBACK TO a"}, true, true},
		{"case", []string{"SAVEPOINT sp1", "fail", "rollback to SP1"}, true, true},
		{"released", []string{"SAVEPOINT a", "RELEASE SAVEPOINT a", "fail", "ROLLBACK TO a"}, false, false},
		{"released with the outer", []string{"SAVEPOINT a", "SAVEPOINT b", "RELEASE SAVEPOINT a", "fail", "ROLLBACK TO b"}, false, false},
		{"never set", []string{"fail", "ROLLBACK TO a"}, false, false},
		{"set in one text that failed", []string{"SAVEPOINT a; fail", "ROLLBACK TO a"}, false, false},
		{"dropped by an outer rollback", []string{"SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", "fail", "ROLLBACK TO b"}, false, false},
		{"same name twice, one released", []string{"SAVEPOINT a", "SAVEPOINT a", "RELEASE SAVEPOINT a", "fail", "ROLLBACK TO a"}, true, false},
		{"again after forgiveness", []string{"SAVEPOINT a", "fail", "ROLLBACK TO a", "fail", "ROLLBACK TO a"}, true, true},
		{"fails again", []string{"SAVEPOINT a", "fail", "ROLLBACK TO a", "fail"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d Dialect) {
				s, f, _ := guardedFake(t, d)
				err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					for _, text := range c.texts {
						if err := exec(t, tx, text); err != nil && !errors.Is(err, errFake) {
							t.Logf("%s: %v", text, err)
						}
					}
					return nil
				})
				want := c.forgiven
				if d == MariaDB {
					want = c.onMariaDB
				}
				if want != (err == nil) || want != committed(f.sent()) {
					t.Errorf("forgiven: %v, error %v", want, err)
				}
			})
		})
	}
	t.Run("not when ROLLBACK TO fails", func(t *testing.T) {
		s, f, _ := guardedFake(t, MariaDB)
		f.fail = func(text string) error {
			if text == "ROLLBACK TO a" {
				return errFake // the database had rolled all back
			}
			return nil
		}
		err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for _, text := range []string{"SAVEPOINT a", "fail", "ROLLBACK TO a", "UPDATE t"} {
				if err := exec(t, tx, text); err == nil && text != "SAVEPOINT a" {
					t.Errorf("%s: no error", text)
				}
			}
			return nil
		})
		if !errors.Is(err, yekbar.ErrRolledBack) || committed(f.sent()) {
			t.Errorf("error %v", err)
		}
	})
}

func TestSavepoint(t *testing.T) {
	eachDialect(t, func(t *testing.T, d Dialect) {
		s, f, _ := guardedFake(t, d)
		err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for range 2 {
				if err := Savepoint(ctx, tx, func(ctx context.Context) error { return exec(t, tx, "fail") }); !errors.Is(err, errFake) {
					t.Errorf("a failing savepoint: %v", err)
				}
				err := Savepoint(ctx, tx, func(ctx context.Context) error {
					return Savepoint(ctx, tx, func(ctx context.Context) error { return exec(t, tx, "UPDATE t") })
				})
				if err != nil {
					t.Errorf("nested: %v", err)
				}
			}
			func() {
				defer func() { _ = recover() }()
				_ = Savepoint(ctx, tx, func(context.Context) error { _ = exec(t, tx, "fail"); panic("x") })
			}()
			return exec(t, tx, "UPDATE t")
		})
		if err != nil || !committed(f.sent()) {
			t.Errorf("error %v", err)
		}
	})
}

// Outside of the store's transactions the guard sends what it gets and nothing
// else.
func TestGuardChangesNothingOutside(t *testing.T) {
	use := func(t *testing.T, db *sql.DB) {
		ctx := t.Context()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"CREATE TABLE t", "fail", "UPDATE t", "COMMIT", "BEGIN", "UPDATE skip"} {
			_, _ = tx.ExecContext(ctx, text)
		}
		var s string
		if err := tx.QueryRowContext(ctx, "SELECT 1").Scan(&s); err != nil {
			t.Error(err)
		}
		if err := tx.QueryRowContext(ctx, "SELECT skip").Scan(&s); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if err := db.PingContext(ctx); err != nil {
			t.Error(err)
		}
	}
	for name, wrap := range map[string]func(*fake) driver.Connector{
		"every interface": func(f *fake) driver.Connector { return f },
		"none":            func(f *fake) driver.Connector { return bareConnector{f} },
	} {
		t.Run(name, func(t *testing.T) {
			logs := make([][]string, 2)
			for i, guard := range []bool{false, true} {
				f := &fake{}
				c := wrap(f)
				if guard {
					c = Guard(c)
				}
				db := sql.OpenDB(c)
				use(t, db)
				if err := db.Close(); err != nil {
					t.Error(err)
				}
				logs[i] = f.sent()
			}
			if !slices.Equal(logs[0], logs[1]) {
				t.Errorf("without the guard %q\nwith the guard %q", logs[0], logs[1])
			}
		})
	}
}

type bareConnector struct{ *fake }

func (c bareConnector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.fake.Connect(ctx)
	return bare{raw}, err
}

// What a driver says of a connection that it lost need not have a type that
// anybody knows (pgx: "conn closed"); at BEGIN it is never the message's fault.
func TestNothingAtBeginIsTheMessagesOwn(t *testing.T) {
	eachDialect(t, func(t *testing.T, d Dialect) {
		s, f, _ := guardedFake(t, d)
		f.fail = func(text string) error {
			if strings.HasPrefix(text, "BEGIN") || strings.Contains(text, "START TRANSACTION") {
				return errors.New("conn closed")
			}
			return nil
		}
		err := s.InTx(t.Context(), func(context.Context, *sql.Tx) error { return nil })
		if !errors.Is(err, yekbar.ErrUnavailable) || yekbar.CountsAsAttempt(err) {
			t.Errorf("got %v", err)
		}
	})
}

// The twin without a guard commits what TestGuardSwallowedFailure and
// TestGuardRefusesEnds forbid: else those would prove nothing.
func TestWithoutGuard(t *testing.T) {
	f := &fake{}
	db := sql.OpenDB(f)
	defer db.Close()
	s := New(db, SQLite, Config{AllowUnguarded: "to show what it does"})
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_ = exec(t, tx, "fail")
		return errors.Join(exec(t, tx, "COMMIT"), exec(t, tx, "UPDATE t"))
	})
	if log := f.sent(); err != nil || !slices.Contains(log, "driver commit") || !slices.Contains(log, "UPDATE t") || !slices.Contains(log, "COMMIT") {
		t.Errorf("error %v, sent %q", err, log)
	}
}

func TestUnwrap(t *testing.T) {
	f := &fake{}
	for _, c := range []driver.Connector{f, Guard(f), Guard(Guard(f))} {
		db := sql.OpenDB(c)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = conn.Raw(func(raw any) error {
			if _, ok := Unwrap(raw).(*fakeConn); !ok {
				t.Errorf("Unwrap gave a %T", Unwrap(raw))
			}
			return nil
		})
		if err := errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestValidate(t *testing.T) {
	plain, guarded := sql.OpenDB(&fake{}), sql.OpenDB(Guard(&fake{}))
	defer plain.Close()
	defer guarded.Close()
	for name, c := range map[string]struct {
		store *Store
		ok    bool
	}{
		"guarded":                 {New(guarded, SQLite, Config{}), true},
		"plain PostgreSQL":        {New(plain, PostgreSQL, Config{}), true},
		"plain MariaDB":           {New(plain, MariaDB, Config{}), false},
		"plain SQLite":            {New(plain, SQLite, Config{}), false},
		"plain, with a reason":    {New(plain, SQLite, Config{AllowUnguarded: "handlers are generated"}), true},
		"plain, a blank reason":   {New(plain, SQLite, Config{AllowUnguarded: " "}), false},
		"no database":             {New(nil, SQLite, Config{}), false},
		"no dialect":              {New(guarded, 0, Config{}), false},
		"another isolation":       {New(guarded, MariaDB, Config{Isolation: sql.LevelReadUncommitted}), false},
		"a prefix with a quote":   {New(guarded, MariaDB, Config{Prefix: "a`b"}), false},
		"repeatable read, prefix": {New(guarded, MariaDB, Config{Isolation: sql.LevelRepeatableRead, Prefix: "a_"}), true},
	} {
		if err := c.store.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
