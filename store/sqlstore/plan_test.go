package sqlstore

import "testing"

func TestPlanMariaDB(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1":                                    "",
		"(SELECT 1) UNION (SELECT 2)":                 "",
		"INSERT INTO t VALUES ('COMMIT')":             "",
		"WITH a AS (SELECT 1) SELECT * FROM a":        "",
		"SET @x = 1":                                  "",
		"SET NAMES utf8mb4":                           "",
		"SET @x = 1, autocommit = 0":                  "refused",
		"SET SESSION autocommit=1":                    "refused",
		"SET @@autocommit = 1":                        "refused",
		"SET completion_type = 'CHAIN'":               "refused",
		"SET PASSWORD = ''":                           "refused",
		"SET STATEMENT max_statement_time=1 FOR DO 1": "looked at",
		"CREATE TABLE t (n INT)":                      "refused",
		"CREATE TEMPORARY TABLE t (n INT)":            "looked at",
		"DROP TEMPORARY TABLE t":                      "looked at",
		"TRUNCATE t":                                  "refused",
		"LOCK TABLES t WRITE":                         "refused",
		"UNLOCK TABLES":                               "refused",
		"ANALYZE TABLE t":                             "refused",
		"ANALYZE FORMAT=JSON SELECT 1":                "looked at",
		"LOAD INDEX INTO CACHE t":                     "refused",
		"XA START 'x'":                                "refused",
		"CALL p()":                                    "looked at",
		"EXECUTE p":                                   "looked at",
		"EXECUTE IMMEDIATE 'COMMIT'":                  "looked at",
		"IF 1 THEN COMMIT; END IF":                    "refused",
		"BEGIN NOT ATOMIC COMMIT; END":                "refused",
		"SELECT 1; SELECT 2":                          "looked at",
		"SELECT 1; COMMIT":                            "refused",
		"SELECT 1 /*! , 2 */":                         "looked at",
		"/*!50000 COMMIT */":                          "refused",
		"SAVEPOINT a":                                 "",
		"SAVEPOINT a; UPDATE t SET n = 1":             "refused", // looked at would release a
		"SAVEPOINT a; CALL p()":                       "refused",
		"FROBNICATE":                                  "looked at",
		"":                                            "",
	} {
		p := planOf(MariaDB, text)
		got := ""
		switch {
		case p.ends != "" || p.problem != "":
			got = "refused"
		case p.bracket:
			got = "looked at"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The name a is set twice, round b. On MariaDB the first a goes then.
func TestSavepoints(t *testing.T) {
	for _, d := range dialects {
		s := savepoints{dialect: d}
		for _, name := range []string{"a", "b", "a"} {
			s.set(name)
		}
		s.release("a")
		if s.find("b") < 0 {
			t.Errorf("%v: b is gone: %q", d, s.names)
		}
		if got, want := s.find("a") >= 0, d != MariaDB; got != want {
			t.Errorf("%v: a found: %v", d, got)
		}
		if got, want := s.find("B") >= 0, d != PostgreSQL; got != want {
			t.Errorf("%v: B found: %v", d, got)
		}
		s.rollbackTo("b")
		if s.find("b") < 0 {
			t.Errorf("%v: ROLLBACK TO b released b", d)
		}
	}
}
