package sqlstore

import (
	"slices"
	"strings"

	"github.com/yekbar-go/yekbar/store/sqlscan"
)

// plan says what the guard does with a text of SQL.
type plan struct {
	what       string              // its first words, for errors
	ends       string              // first words of what ends the transaction: refused
	problem    string              // why it is refused otherwise
	bracket    bool                // may commit unseen: look afterwards
	forgives   string              // the savepoint it rolls back to, if it does only that
	savepoints []func(*savepoints) // what it does to the stack
}

func planOf(d Dialect, query string) plan {
	ss := sqlscan.Statements(d.schema(), query)
	if len(ss) == 0 {
		return plan{what: "(empty)"}
	}
	p := plan{what: ss[0].What(), bracket: d == MariaDB && len(ss) > 1}
	for _, s := range ss {
		name := s.Savepoint
		switch {
		case s.Kind.Boundary(), d == MariaDB && commitsImplicitly(s):
			if p.ends == "" {
				p.ends = s.What()
			}
		case s.Kind == sqlscan.Savepoint:
			p.savepoints = append(p.savepoints, func(s *savepoints) { s.set(name) })
		case s.Kind == sqlscan.RollbackTo:
			p.savepoints = append(p.savepoints, func(s *savepoints) { s.rollbackTo(name) })
		case s.Kind == sqlscan.Release:
			p.savepoints = append(p.savepoints, func(s *savepoints) { s.release(name) })
		case d == MariaDB && (s.Executable || s.Unterminated || !harmless(s)):
			p.bracket = true
			if p.what = s.What(); p.what == "" {
				p.what = "a statement"
			}
		}
	}
	if len(ss) == 1 && ss[0].Kind == sqlscan.RollbackTo {
		p.forgives = ss[0].Savepoint
	}
	switch {
	case len(p.savepoints) == 0:
	case len(p.savepoints) == len(ss) || !p.bracket:
		p.bracket = false
	case p.bracket:
		// Releasing the fence would release the handler's savepoints too.
		p.problem = "savepoints and other statements in one text: send them one by one"
	}
	return p
}

// firstWords names a text in errors, without its values.
func firstWords(d Dialect, query string) string {
	if ss := sqlscan.Statements(d.schema(), query); len(ss) > 0 && len(ss[0].Words) > 0 {
		return strings.Join(ss[0].Words[:min(2, len(ss[0].Words))], " ")
	}
	return "(empty)"
}

// commitsImplicitly reports whether MariaDB or MySQL commits before the
// statement, or lets it switch to committing each: MariaDB's "SQL statements
// That Cause an Implicit Commit", MySQL's section 15.3.3. They are known by
// their first word, and where that says too much, by the second.
func commitsImplicitly(s sqlscan.Statement) bool {
	word := func(i int) string {
		if i < len(s.Words) {
			return s.Words[i]
		}
		return ""
	}
	switch word(0) {
	case "ALTER", "BACKUP", "CACHE", "CHANGE", "CHECK", "CLONE", "FLUSH", "GRANT", "IMPORT", "INSTALL", "LOCK",
		"OPTIMIZE", "RENAME", "REPAIR", "RESET", "RESTART", "REVOKE", "SHUTDOWN", "START", "STOP", "TRUNCATE",
		"UNINSTALL", "UNLOCK", "XA":
		return true
	case "CREATE", "DROP":
		// A temporary table's is none, but CREATE OR REPLACE TEMPORARY is as well.
		return !slices.Contains(s.Words, "TEMPORARY")
	case "ANALYZE":
		// ANALYZE TABLE, in contrast to MariaDB's ANALYZE SELECT.
		return slices.Contains([]string{"TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"}, word(1))
	case "LOAD":
		return word(1) == "INDEX"
	case "SET":
		// SET a = 1, autocommit = 1: the name may stand anywhere.
		text := strings.ToUpper(s.Text)
		return word(1) == "PASSWORD" || word(1) == "DEFAULT" ||
			strings.Contains(text, "AUTOCOMMIT") || strings.Contains(text, "COMPLETION_TYPE")
	}
	return false
}

// harmless reports whether the statement can't commit, whatever it calls:
// stored functions and triggers are not let to (ER_COMMIT_NOT_ALLOWED_IN_SF_OR_TRG).
func harmless(s sqlscan.Statement) bool {
	if len(s.Words) == 0 {
		return false
	}
	switch s.Words[0] {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "VALUES", "TABLE", "DO", "SHOW", "DESCRIBE", "DESC",
		"EXPLAIN", "HANDLER", "PREPARE", "DEALLOCATE", "USE", "LOAD", "SIGNAL":
		return true
	case "SET":
		return len(s.Words) < 2 || s.Words[1] != "STATEMENT"
	}
	return false
}
