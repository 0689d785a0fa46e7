package failpoint

import (
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modernc.org/sqlite"
)

func TestPointsAreAroundTheCommitThatCounts(t *testing.T) {
	dsn := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
	plain, err := sqlite.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	outside := sql.OpenDB(plain)
	defer outside.Close()
	exec := func(db interface {
		Exec(string, ...any) (sql.Result, error)
	}, query string) {
		t.Helper()
		if _, err := db.Exec(query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	exec(outside, "CREATE TABLE stock (n INTEGER)")
	exec(outside, "CREATE TABLE other (n INTEGER)")

	// What somebody else sees at each point says where it is.
	type visit struct {
		point Point
		rows  int
	}
	var visits []visit
	counts := func(query string) bool { return strings.Contains(query, "stock") }
	reached := func(p Point) {
		v := visit{point: p}
		if err := outside.QueryRow("SELECT COUNT(*) FROM stock").Scan(&v.rows); err != nil {
			t.Error(err)
		}
		visits = append(visits, v)
	}
	db := sql.OpenDB(Wrap(plain, counts, reached))
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec(outside, "PRAGMA journal_mode=WAL")

	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	exec(tx, "INSERT INTO stock VALUES (1)")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	// As a store does it, with SQL.
	exec(db, "BEGIN")
	exec(db, "INSERT INTO stock VALUES (2)")
	exec(db, "SELECT 1; COMMIT")
	// What doesn't count, and what is rolled back.
	exec(db, "BEGIN")
	exec(db, "INSERT INTO other VALUES (1)")
	exec(db, "COMMIT")
	exec(db, "BEGIN")
	exec(db, "INSERT INTO stock VALUES (3)")
	exec(db, "ROLLBACK")
	exec(db, "BEGIN")
	exec(db, "COMMIT")

	want := []visit{{BeforeCommit, 0}, {AfterCommit, 1}, {BeforeCommit, 1}, {AfterCommit, 2}}
	if !slices.Equal(visits, want) {
		t.Errorf("visited %v, want %v", visits, want)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		if _, ok := c.(interface{ Unwrap() driver.Conn }); !ok {
			t.Errorf("%T has no Unwrap", c)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
