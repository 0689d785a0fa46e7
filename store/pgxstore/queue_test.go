package pgxstore

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
)

// Which statements the server can check by itself, and how.
func TestMinRowsInSQL(t *testing.T) {
	const head, tail = "WITH yekbar_changed AS (\n", "\n) SELECT CASE WHEN count(*) >= 2 THEN 1 ELSE ('yekbar changed rows: ' || count(*))::int END FROM yekbar_changed"
	for sql, want := range map[string]string{
		"UPDATE a SET b = 1":                    head + "UPDATE a SET b = 1\nRETURNING 1" + tail,
		" update a SET b = 1 ; -- why":          head + "update a SET b = 1\nRETURNING 1" + tail,
		"DELETE FROM a RETURNING b":             head + "DELETE FROM a RETURNING b" + tail,
		"INSERT INTO a VALUES ('RETURNING')":    head + "INSERT INTO a VALUES ('RETURNING')\nRETURNING 1" + tail,
		"WITH x AS (SELECT 1) DELETE FROM a":    "", // data-modifying WITH must be at the top level
		"SELECT change_something()":             "",
		"MERGE INTO a USING b ON true":          "",
		"CALL change_something()":               "",
		"UPDATE a SET b = 'unterminated":        "",
		"/* UPDATE */ TABLE a":                  "",
		"INSERT INTO a SELECT '/*' /* ' -- */ ": head + "INSERT INTO a SELECT '/*'\nRETURNING 1" + tail,
	} {
		q, err := newQueued(0, yekbar.Statement{SQL: sql, MinRows: 2})
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
		if q.checked != (want != "") || q.byTag() == q.checked || q.checked && q.sql != want || !q.checked && q.sql != sql {
			t.Errorf("%s:\n got %q (checked %v)\nwant %q", sql, q.sql, q.checked, want)
		}
	}
	if q, err := newQueued(0, yekbar.Statement{SQL: "UPDATE a SET b = 1"}); err != nil || q.sql != "UPDATE a SET b = 1" || q.byTag() {
		t.Errorf("without MinRows: %+v, %v", q, err)
	}
	for _, sql := range []string{"", "-- nothing", "SELECT 1; SELECT 2"} {
		if _, err := newQueued(0, yekbar.Statement{SQL: sql}); err == nil {
			t.Errorf("%q: no error", sql)
		}
	}
}

func TestRowsErrorFromTheServer(t *testing.T) {
	q, err := newQueued(3, yekbar.Statement{SQL: "DELETE FROM a", MinRows: 5})
	if err != nil {
		t.Fatal(err)
	}
	re := (*yekbar.RowsError)(nil)
	got := q.explain(&pgconn.PgError{Code: "22P02", Message: `ungültige Eingabesyntax für Typ integer: »yekbar changed rows: 4«`})
	if !errors.As(got, &re) || *re != (yekbar.RowsError{Index: 3, MinRows: 5, Rows: 4}) {
		t.Errorf("got %v", got)
	}
	for _, other := range []*pgconn.PgError{
		{Code: "22P02", Message: `invalid input syntax for type integer: "x"`},
		{Code: "23514", Message: `yekbar changed rows: 4`},
	} {
		if got := q.explain(other); got != error(other) {
			t.Errorf("%v became %v", other, got)
		}
	}
}
