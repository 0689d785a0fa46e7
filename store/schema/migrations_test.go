package schema_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlscan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What migrate --print shows is what is reviewed: a change must be seen.
func TestPrintedSQLIsInSync(t *testing.T) {
	names := schema.Names{Schema: `Msg-1 "it's"`, Prefix: "Shop1_"}
	for _, d := range schema.Dialects() {
		for _, c := range []struct {
			file     string
			from, to int
		}{{"up.sql", 0, schema.Version}, {"down.sql", schema.Version, 0}} {
			got, err := schema.SQL(d, names, c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", string(d)+"_"+c.file)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; if that is meant: go test ./store/schema -update", file)
			}
		}
	}
}

func TestStatementsAreSingle(t *testing.T) {
	for _, d := range schema.Dialects() {
		for _, way := range [][2]int{{0, schema.Version}, {schema.Version, 0}} {
			ss, err := schema.Statements(d, schema.Names{}, way[0], way[1])
			if err != nil {
				t.Fatal(err)
			}
			if len(ss) < 4 {
				t.Errorf("%s %v: %d statements", d, way, len(ss))
			}
			for _, s := range ss {
				if n := len(sqlscan.Statements(d, s)); n != 1 {
					t.Errorf("%s: %d statements in one: %s", d, n, s)
				}
			}
		}
	}
}

// Whatever goes up goes down.
func TestDownNamesAllOfUp(t *testing.T) {
	for _, d := range schema.Dialects() {
		up, err := schema.SQL(d, schema.Names{}, 0, schema.Version)
		if err != nil {
			t.Fatal(err)
		}
		down, err := schema.SQL(d, schema.Names{}, schema.Version, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range schema.Tables() {
			name := schema.Names{}.Table(d, table)
			if strings.Count(up, "CREATE TABLE "+name+" (") != 1 {
				t.Errorf("%s: up does not create %s once", d, name)
			}
			if strings.Count(down, "DROP TABLE "+name+";") != 1 {
				t.Errorf("%s: down does not drop %s once", d, name)
			}
		}
	}
}

func TestNothingToDoIsEmpty(t *testing.T) {
	got, err := schema.SQL(schema.SQLite, schema.Names{}, 1, 1)
	if got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestUnknownVersionsAreRefused(t *testing.T) {
	for _, way := range [][2]int{{0, schema.Version + 1}, {-1, 0}, {schema.Version + 1, 0}} {
		if _, err := schema.SQL(schema.PostgreSQL, schema.Names{}, way[0], way[1]); err == nil {
			t.Errorf("%v: no error", way)
		}
	}
	if _, err := schema.SQL("oracle", schema.Names{}, 0, 1); err == nil {
		t.Error("unknown dialect: no error")
	}
}

func TestQuoting(t *testing.T) {
	for _, c := range []struct {
		d    schema.Dialect
		n    schema.Names
		want string
	}{
		{schema.PostgreSQL, schema.Names{}, `"yekbar"."results"`},
		{schema.PostgreSQL, schema.Names{Schema: "Msg-1"}, `"Msg-1"."results"`},
		{schema.PostgreSQL, schema.Names{Schema: `a"b`}, `"a""b"."results"`},
		{schema.MariaDB, schema.Names{}, "`yekbar_results`"},
		{schema.MariaDB, schema.Names{Prefix: "x_"}, "`x_results`"},
		{schema.SQLite, schema.Names{}, `"main"."yekbar_results"`},
	} {
		if got := c.n.Table(c.d, schema.Results); got != c.want {
			t.Errorf("%s %+v: %s, want %s", c.d, c.n, got, c.want)
		}
	}
	if got := schema.Quote(schema.MariaDB, "a`b"); got != "`a``b`" {
		t.Errorf("got %s", got)
	}
}

func TestNamesAreValidated(t *testing.T) {
	for _, c := range []struct {
		d  schema.Dialect
		n  schema.Names
		ok bool
	}{
		{schema.PostgreSQL, schema.Names{}, true},
		{schema.PostgreSQL, schema.Names{Schema: "Msg-1"}, true},
		{schema.PostgreSQL, schema.Names{Schema: `o'clock "x"; DROP`}, true},
		{schema.PostgreSQL, schema.Names{Schema: strings.Repeat("x", 63)}, true},
		{schema.PostgreSQL, schema.Names{Schema: strings.Repeat("x", 64)}, false},
		{schema.PostgreSQL, schema.Names{Schema: "a\x00b"}, false},
		{schema.PostgreSQL, schema.Names{Schema: "a\xffb"}, false},
		{schema.PostgreSQL, schema.Names{Schema: `a\b`}, false},
		{schema.PostgreSQL, schema.Names{Schema: "a$yekbar$b"}, false},
		{schema.PostgreSQL, schema.Names{Schema: "pg_x"}, false},
		{schema.MariaDB, schema.Names{}, true},
		{schema.MariaDB, schema.Names{Prefix: "shop1_"}, true},
		{schema.MariaDB, schema.Names{Prefix: "1shop_"}, false},
		{schema.MariaDB, schema.Names{Prefix: "a`b"}, false},
		{schema.MariaDB, schema.Names{Prefix: "a-b"}, false},
		{schema.MariaDB, schema.Names{Prefix: strings.Repeat("x", 47)}, false},
		{schema.SQLite, schema.Names{Prefix: "é_"}, false},
	} {
		if err := c.n.Validate(c.d); (err == nil) != c.ok {
			t.Errorf("%s %+v: %v", c.d, c.n, err)
		}
		if _, err := schema.SQL(c.d, c.n, 0, 1); (err == nil) != c.ok {
			t.Errorf("SQL %s %+v: %v", c.d, c.n, err)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for _, c := range []struct {
		have, min int
		mend      string // "" is usable
	}{
		{0, 0, "run yekbar migrate"},
		{schema.Version, schema.Version, ""},
		{schema.Version + 3, schema.Version, ""},
		{schema.Version + 3, schema.Version + 1, "upgrade"},
	} {
		err := schema.CheckVersion(c.have, c.min)
		if c.mend == "" {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if !errors.Is(err, yekbar.ErrSchema) || !strings.Contains(err.Error(), c.mend) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
