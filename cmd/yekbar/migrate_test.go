package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

func TestMigrate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	steps := []struct {
		args   string
		status int
		want   string
	}{
		{"", 0, "had version 0 and have version 1 now"},
		{"", 0, "have version 1 already"},
		{"--prefix inbox_", 0, "had version 0 and have version 1 now"},
		{"--to 0", 2, "say --force"},
		{"", 0, "have version 1 already"},
		{"--to 0 --force", 0, "had version 1 and have version 0 now"},
	}
	for _, s := range steps {
		r := call(t, nil, append([]string{"migrate", "--database", "sqlite:" + file}, strings.Fields(s.args)...)...)
		if r.status != s.status || !strings.Contains(r.stdout+r.stderr, s.want) {
			t.Fatalf("%s: exit status %d, want %d and %q", s.args, r.status, s.status, s.want)
		}
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var own, other int
	err = db.QueryRow(`SELECT COUNT(*) FILTER (WHERE name LIKE 'yekbar_%'), COUNT(*) FILTER (WHERE name LIKE 'inbox_%') FROM sqlite_schema WHERE type = 'table'`).Scan(&own, &other)
	if err != nil || own != 0 || other == 0 {
		t.Errorf("%d tables of the default prefix are left, %d of the other: %v", own, other, err)
	}
}

func TestMigratePrintsWithoutConnecting(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--database postgres://127.0.0.1:1/none", `CREATE TABLE "yekbar"."processed_messages"`},
		{"--database postgres:// --schema inbox", `CREATE TABLE "inbox"."processed_messages"`},
		{"--database mysql://ada@127.0.0.1:1/none --prefix inbox_", "CREATE TABLE `inbox_processed_messages`"},
		{"--database sqlite:/none/at/all.db", `"yekbar_processed_messages"`},
		{"--database sqlite:/none/at/all.db --from 1 --to 0", `DROP TABLE`},
	} {
		r := call(t, nil, append([]string{"migrate", "--print"}, strings.Fields(test.args)...)...)
		if r.status != 0 || !strings.Contains(r.stdout, test.want) || r.stderr != "" {
			t.Errorf("%s: exit status %d, no %q", test.args, r.status, test.want)
		}
	}
}
