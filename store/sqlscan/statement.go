package sqlscan

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/yekbar-go/yekbar/store/schema"
)

// A Statement is one of a text's statements.
type Statement struct {
	// Text is the statement without what surrounds it: spaces, semicolons,
	// comments before it.
	Text string
	// Words are its first words, at most four, in capitals: keywords and
	// identifiers, without quotes. Other tokens in between are left out, so
	// that "SET @@autocommit = 0" is SET, AUTOCOMMIT.
	Words []string
	// Kind says what it does to the transaction.
	Kind Kind
	// Savepoint is the name in SAVEPOINT, ROLLBACK TO and RELEASE, folded as
	// the database compares it.
	Savepoint string
	// Returning: the word RETURNING stands in it, outside of parentheses.
	Returning bool
	// Executable: a part stands in a comment that MariaDB or MySQL executes,
	// depending on its version.
	Executable bool
	// Unterminated: a quote or comment in it has no end.
	Unterminated bool
}

// A Kind says what a statement does to the transaction.
type Kind uint8

const (
	Other      Kind = iota
	Begin           // BEGIN, START TRANSACTION
	Commit          // COMMIT, END, PREPARE TRANSACTION
	Rollback        // ROLLBACK, ABORT
	Savepoint       // SAVEPOINT
	RollbackTo      // ROLLBACK TO
	Release         // RELEASE
)

// Boundary reports whether the statement begins or ends a transaction.
func (k Kind) Boundary() bool { return k == Begin || k == Commit || k == Rollback }

// What returns the statement's first words, for an error.
func (s Statement) What() string { return strings.Join(s.Words, " ") }

// Statements returns the statements of a text in order. Where the text can be
// read in several ways, statements that only another reading has follow. Others
// may get the same slice: it must not be changed.
func Statements(d schema.Dialect, sql string) []Statement {
	key := text{d, sql}
	if known, ok := scanned.Load(key); ok {
		return known.([]Statement)
	}
	ss := scanAll(d, sql)
	if len(sql) <= longestKept && kept.Add(1) <= mostKept {
		scanned.Store(key, ss)
	}
	return ss
}

// What a program executes it mostly executes again: the first texts are
// remembered, as long as they are not too many.
var (
	scanned sync.Map // text → []Statement
	kept    atomic.Int64
)

const (
	longestKept = 4096
	mostKept    = 1000
)

type text struct {
	dialect schema.Dialect
	sql     string
}

func scanAll(d schema.Dialect, sql string) []Statement {
	first, rest := readings(d, sql)
	ss := scan(d, sql, first)
	for _, r := range rest {
		for _, s := range scan(d, sql, r) {
			if !slices.ContainsFunc(ss, func(o Statement) bool { return o.same(s) }) {
				ss = append(ss, s)
			}
		}
	}
	return ss
}

// Boundary returns the first statement of a text that begins or ends a
// transaction.
func Boundary(d schema.Dialect, sql string) (Statement, bool) {
	for _, s := range Statements(d, sql) {
		if s.Kind.Boundary() {
			return s, true
		}
	}
	return Statement{}, false
}

func (s Statement) same(o Statement) bool {
	return s.Kind == o.Kind && s.Savepoint == o.Savepoint && slices.Equal(s.Words, o.Words)
}

// A reading is one way to understand a text.
type reading struct {
	backslash       bool // escapes in '…'
	doubleBackslash bool // escapes in "…"
	executable      bool // /*! … */ is executed
}

// readings returns the database's default reading, and the others that a
// session's settings could make of this text.
func readings(d schema.Dialect, sql string) (first reading, rest []reading) {
	switch d {
	case schema.PostgreSQL:
		if strings.Contains(sql, `\`) {
			rest = []reading{{backslash: true}}
		}
	case schema.MariaDB:
		first = reading{true, true, true}
		one, both := []bool{true}, []bool{true, false}
		escapes, comments := one, one
		if strings.Contains(sql, `\`) {
			escapes = both
		}
		if strings.Contains(sql, "/*!") || strings.Contains(sql, "/*M!") {
			comments = both
		}
		for _, e := range escapes {
			for _, de := range escapes {
				for _, x := range comments {
					if r := (reading{e, de, x}); r != first {
						rest = append(rest, r)
					}
				}
			}
		}
	}
	return first, rest
}

// classify says what a statement with these first tokens does.
func classify(d schema.Dialect, ts []token) (k Kind, savepoint string) {
	word := func(i int) string {
		if i < len(ts) && ts[i].kind == wordToken {
			return strings.ToUpper(ts[i].text)
		}
		return ""
	}
	name := func(i int) string {
		if word(i) == "SAVEPOINT" && i+1 < len(ts) {
			i++
		}
		if i >= len(ts) {
			return ""
		}
		if d == schema.PostgreSQL && ts[i].kind != wordToken {
			return ts[i].text
		}
		return strings.ToLower(ts[i].text)
	}
	switch word(0) {
	case "BEGIN", "START":
		return Begin, ""
	case "COMMIT", "END":
		return Commit, ""
	case "PREPARE":
		if d == schema.PostgreSQL && word(1) == "TRANSACTION" {
			return Commit, ""
		}
	case "ABORT":
		return Rollback, ""
	case "ROLLBACK":
		i := 1
		if w := word(i); w == "WORK" || w == "TRANSACTION" {
			i++
		}
		if d == schema.SQLite && i < len(ts) && word(i) != "TO" && word(i+1) == "TO" {
			i++ // ROLLBACK TRANSACTION name TO …
		}
		if word(i) == "TO" {
			return RollbackTo, name(i + 1)
		}
		return Rollback, ""
	case "SAVEPOINT":
		if len(ts) > 1 {
			return Savepoint, name(1)
		}
	case "RELEASE":
		return Release, name(1)
	}
	return Other, ""
}
