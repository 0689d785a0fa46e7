package sqlscan

import (
	"slices"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar/store/schema"
)

const (
	pg     = schema.PostgreSQL
	maria  = schema.MariaDB
	sqlite = schema.SQLite
)

func TestStatements(t *testing.T) {
	for _, c := range []struct {
		d    schema.Dialect
		sql  string
		want []string // What of each
	}{
		{pg, "", nil},
		{pg, " ; ;-- nothing\n/* at all */;", nil},
		{pg, "select 1", []string{"SELECT"}},
		{pg, "UPDATE stock SET units = units - 1", []string{"UPDATE STOCK SET UNITS"}},
		{pg, "/* a /* nested */ comment */ commit", []string{"COMMIT"}},
		{pg, "-- SELECT\rCOMMIT", []string{"COMMIT"}},
		{pg, "SELECT 'a;COMMIT'; COMMIT", []string{"SELECT", "COMMIT"}},
		{pg, "SELECT 'it''s;'; COMMIT", []string{"SELECT", "COMMIT"}},
		{pg, `SELECT "a;""COMMIT"; rollback`, []string{`SELECT A;"COMMIT`, "ROLLBACK"}},
		{pg, `SELECT E'\';COMMIT' ; ABORT`, []string{"SELECT", "ABORT"}},
		{pg, "SELECT $$;COMMIT$$; END", []string{"SELECT", "END"}},
		{pg, "SELECT $a$;$$ COMMIT $a$; END", []string{"SELECT", "END"}},
		{pg, "DO $yekbar$ BEGIN COMMIT; END $yekbar$", []string{"DO"}},
		{pg, "SELECT a$b$ ; COMMIT", []string{"SELECT A$B$", "COMMIT"}},
		{pg, "SELECT $1;COMMIT", []string{"SELECT", "COMMIT"}},
		{pg, "SELECT $1$2;COMMIT", []string{"SELECT", "COMMIT"}},
		{pg, "SELECT 1--1\n;COMMIT", []string{"SELECT", "COMMIT"}},
		{pg, "SELECT 1 # 2 ;COMMIT", []string{"SELECT", "COMMIT"}},
		{pg, "(SELECT 1)", []string{"SELECT"}},
		// With standard_conforming_strings off the second statement is one.
		{pg, `SELECT '\''; COMMIT --'`, []string{"SELECT", "COMMIT"}},
		{pg, `SELECT '\'; COMMIT; --'`, []string{"SELECT", "COMMIT"}},

		{maria, "SET @@autocommit = 0", []string{"SET AUTOCOMMIT"}},
		{maria, "SET SESSION `autocommit`=0", []string{"SET SESSION AUTOCOMMIT"}},
		{maria, `SELECT '\';COMMIT'`, []string{"SELECT", "COMMIT"}}, // NO_BACKSLASH_ESCAPES
		{maria, `SELECT "a\";COMMIT"`, []string{`SELECT A\";COMMIT`, `SELECT A\`, `COMMIT "`}},
		{maria, "SELECT 1 # ;\n; COMMIT", []string{"SELECT", "COMMIT"}},
		{maria, "SELECT 1 --1;COMMIT", []string{"SELECT", "COMMIT"}},
		{maria, "SELECT 1 -- 1;COMMIT", []string{"SELECT"}},
		{maria, "/* a /* b */ COMMIT", []string{"COMMIT"}},
		{maria, "/*!40101 COMMIT */", []string{"COMMIT"}},
		{maria, "/*M!100401 COMMIT */", []string{"COMMIT"}},
		{maria, "/*!99999 SELECT */ COMMIT", []string{"SELECT COMMIT", "COMMIT"}},
		{maria, "SELECT /*!99999 ' */ ; COMMIT ; /* ' */", []string{"SELECT", "COMMIT"}},
		{maria, "SELECT `a;COMMIT`", []string{"SELECT A;COMMIT"}},
		{maria, "SELECT $$ ; COMMIT", []string{"SELECT $$", "COMMIT"}},

		{sqlite, "SELECT [a;COMMIT]; END", []string{"SELECT A;COMMIT", "END"}},
		{sqlite, "SELECT `a;`; END TRANSACTION", []string{"SELECT A;", "END TRANSACTION"}},
		{sqlite, `SELECT '\'; COMMIT`, []string{"SELECT", "COMMIT"}},
		{sqlite, "/* a /* b */ COMMIT", []string{"COMMIT"}},
		{sqlite, "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET c=1; DELETE FROM d; END; COMMIT",
			[]string{"CREATE TRIGGER T AFTER", "COMMIT"}},
		{sqlite, "CREATE TEMP TRIGGER t BEGIN SELECT CASE WHEN 1 THEN 2 END; END", []string{"CREATE TEMP TRIGGER T"}},
		{sqlite, "CREATE TABLE trigger_x (a); END", []string{"CREATE TABLE TRIGGER_X A", "END"}},
	} {
		var got []string
		for _, s := range Statements(c.d, c.sql) {
			got = append(got, s.What())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s\n got %q\nwant %q", c.d, c.sql, got, c.want)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		d         schema.Dialect
		sql       string
		kind      Kind
		savepoint string
	}{
		{pg, "BEGIN", Begin, ""},
		{pg, "begin isolation level serializable", Begin, ""},
		{pg, "START TRANSACTION", Begin, ""},
		{pg, "COMMIT AND CHAIN", Commit, ""},
		{pg, "COMMIT PREPARED 'x'", Commit, ""},
		{pg, "END", Commit, ""},
		{pg, "PREPARE TRANSACTION 'x'", Commit, ""},
		{pg, "PREPARE x AS SELECT 1", Other, ""},
		{pg, "ABORT", Rollback, ""},
		{pg, "ROLLBACK", Rollback, ""},
		{pg, "ROLLBACK WORK", Rollback, ""},
		{pg, "ROLLBACK AND CHAIN", Rollback, ""},
		{pg, "ROLLBACK TO a", RollbackTo, "a"},
		{pg, "ROLLBACK WORK TO SAVEPOINT A", RollbackTo, "a"},
		{pg, `ROLLBACK TRANSACTION TO "A"`, RollbackTo, "A"},
		{pg, "SAVEPOINT Sp1", Savepoint, "sp1"},
		{pg, "SAVEPOINT savepoint", Savepoint, "savepoint"},
		{pg, "RELEASE SAVEPOINT sp1", Release, "sp1"},
		{pg, "RELEASE sp1", Release, "sp1"},
		{pg, "SET LOCAL lock_timeout = 1", Other, ""},
		{pg, "committed", Other, ""},
		{maria, "SAVEPOINT `Sp1`", Savepoint, "sp1"},
		{maria, "ROLLBACK /*!WORK*/ TO Sp1", RollbackTo, "sp1"},
		{maria, "BEGIN NOT ATOMIC SELECT 1", Begin, ""},
		{sqlite, "ROLLBACK TRANSACTION TO 'A'", RollbackTo, "a"},
		{sqlite, "BEGIN IMMEDIATE", Begin, ""},
		{sqlite, "END", Commit, ""},
	} {
		s := Statements(c.d, c.sql)[0]
		if s.Kind != c.kind || s.Savepoint != c.savepoint {
			t.Errorf("%s: %s: kind %d savepoint %q, want %d %q", c.d, c.sql, s.Kind, s.Savepoint, c.kind, c.savepoint)
		}
	}
}

func TestFlagsAndText(t *testing.T) {
	for _, c := range []struct {
		d                        schema.Dialect
		sql, text                string
		executable, unterminated bool
	}{
		{pg, " /* c */ SELECT 1 ; ", "SELECT 1", false, false},
		{pg, "SELECT 'a", "SELECT 'a", false, true},
		{pg, "SELECT /* a /* */", "SELECT", false, true},
		{pg, "SELECT $a$ $b$", "SELECT $a$ $b$", false, true},
		{maria, "SELECT /*!50000 1 */", "SELECT /*!50000 1", true, false},
		{sqlite, "SELECT [a", "SELECT [a", false, true},
	} {
		s := Statements(c.d, c.sql)[0]
		if s.Text != c.text || s.Executable != c.executable || s.Unterminated != c.unterminated {
			t.Errorf("%s: %s: %+v", c.d, c.sql, s)
		}
	}
}

func TestReturning(t *testing.T) {
	for _, c := range []struct {
		sql  string
		want bool
	}{
		{"UPDATE a SET b = 1", false},
		{"UPDATE a SET b = 1 returning b", true},
		{"INSERT INTO a WITH x AS (DELETE FROM y RETURNING *) SELECT * FROM x", false},
		{"UPDATE a SET b = 'RETURNING' -- RETURNING", false},
		{`UPDATE a SET "returning" = (1) RETURNING (SELECT 1)`, true},
	} {
		s := Statements(pg, c.sql)[0]
		if s.Returning != c.want {
			t.Errorf("%s: %+v", c.sql, s)
		}
	}
}

func TestBoundary(t *testing.T) {
	if s, ok := Boundary(pg, "SELECT 1; /* x */ Commit"); !ok || s.What() != "COMMIT" {
		t.Errorf("got %+v, %v", s, ok)
	}
	if s, ok := Boundary(pg, "SAVEPOINT a; ROLLBACK TO a; RELEASE a"); ok {
		t.Errorf("got %+v", s)
	}
}

// A COMMIT behind anything that is closed is seen, and the scan ends.
func FuzzCommitIsSeen(f *testing.F) {
	for _, s := range []string{
		"SELECT 1", `SELECT '\'`, "SELECT $a$ x $a$", "/*! x */", "/* /* */ */", `E'\''`, "#\n", "-- x\r\n", "CREATE TRIGGER t; END",
		"[x]", "`x`", `"a\"`, `'\\'`, "a$$", "$1$", "/*M!1 '*/ '", "e'\\''",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range schema.Dialects() {
			ss := Statements(d, s)
			for _, st := range ss {
				if !strings.Contains(s, st.Text) || len(st.Words) > 4 {
					t.Fatalf("%s %q: %+v", d, s, st)
				}
			}
			first, rest := readings(d, s)
			closed := false
			for _, r := range append(rest, first) {
				closed = closed || isClosed(d, s, r)
			}
			if _, ok := Boundary(d, s+"\n;\nCOMMIT"); closed && !ok {
				t.Fatalf("%s: COMMIT behind %q is not seen", d, s)
			}
		}
	})
}

// isClosed reports whether what follows s is outside of quotes, comments and
// trigger bodies.
func isClosed(d schema.Dialect, s string, r reading) bool {
	const probe = "\n;\nprobe"
	ss := scan(d, s+probe, r)
	return len(ss) > 0 && ss[len(ss)-1].Text == "probe"
}
