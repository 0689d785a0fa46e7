package database

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar/store/sqlstore"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]string{
		"postgres://ada:s3cr3t@db.example:5433/shop?sslmode=disable": "PostgreSQL postgres://ada@db.example:5433/shop",
		"postgresql://ada@db.example/shop?password=s3cr3t":           "PostgreSQL postgresql://ada@db.example/shop",
		"mysql://ada:s3cr3t@db.example/shop":                         "MariaDB mysql://ada@db.example/shop",
		"mariadb://ada:s3cr3t@[::1]:3307/shop?tls=skip-verify":       "MariaDB mariadb://ada@[::1]:3307/shop",
		"sqlite:/var/lib/shop.db":                                    "SQLite /var/lib/shop.db",
		"sqlite:///var/lib/shop.db":                                  "SQLite /var/lib/shop.db",
	} {
		d, err := Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if d.String() != want {
			t.Errorf("%s is %q, want %q", raw, d, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                       "no scheme",
		"shop.db":                                "sqlite:PATH",
		"sqlite:":                                "path of a file",
		"sqlite:shop.db?mode=ro":                 "no ?",
		"oracle://h/x":                           `"oracle"`,
		"mysql://ada:s3cr3t@h":                   "/DATABASE",
		"mysql://ada:s3cr3t@h/a/b":               "/DATABASE",
		"mysql://ada:s3cr3t@h/a?tls=s3cr3t":      "MariaDB",
		"postgres://ada:s3cr3t@h/a?sslmode=what": "sslmode",
		"postgres://ada:s3cr3t%zz@h/a":           "%XX",
	} {
		if d, err := Parse(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want an error with %q", raw, d, err, want)
		} else if strings.Contains(err.Error(), ":s3cr3t") {
			t.Errorf("%s: the password came out: %v", raw, err)
		}
	}
}

func TestSQLiteFilesWithOddNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a b%20é;x=1.db")
	d, err := Parse("sqlite:" + file)
	if err != nil {
		t.Fatal(err)
	}
	if d.Dialect != sqlstore.SQLite || d.File != file {
		t.Errorf("%+v", d)
	}
	db := d.Open(nil)
	defer db.Close()
	var mode, path string
	var synchronous int
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("PRAGMA synchronous").Scan(&synchronous); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
		t.Fatal(err)
	}
	if mode != "wal" || synchronous != 2 || filepath.Base(path) != filepath.Base(file) {
		t.Errorf("journal_mode %s, synchronous %d, file %s", mode, synchronous, path)
	}
}
