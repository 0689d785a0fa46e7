package sqlscan

import (
	"strings"

	"github.com/yekbar-go/yekbar/store/schema"
)

type tokenKind uint8

const (
	wordToken   tokenKind = iota // keyword or unquoted identifier
	quotedToken                  // quoted identifier, or a string that may be one
	stringToken
	otherToken
)

type token struct {
	kind tokenKind
	text string // without quotes
}

// keptTokens of a statement are enough to classify it and for four words.
const keptTokens = 16

type scanner struct {
	d   schema.Dialect
	sql string
	r   reading
	pos int

	out     []Statement
	tokens  []token
	words   []string
	start   int // of the statement's first token; -1: none yet
	end     int // behind its last token
	exec    bool
	inExec  bool // between /*! and */
	open    bool // an unterminated quote or comment
	trigger trigger

	depth     int  // of parentheses
	returning bool // RETURNING was seen outside of them
}

// scan splits a text in one reading.
func scan(d schema.Dialect, sql string, r reading) []Statement {
	s := &scanner{d: d, sql: sql, r: r, start: -1}
	for s.pos < len(sql) {
		s.next()
	}
	s.finish()
	return s.out
}

// next consumes one token, comment or space.
func (s *scanner) next() {
	c := s.sql[s.pos]
	rest := s.sql[s.pos:]
	switch {
	case c <= ' ':
		s.pos++
	case strings.HasPrefix(rest, "/*"):
		s.comment()
	case s.inExec && strings.HasPrefix(rest, "*/"):
		s.inExec = false
		s.pos += 2
	case s.lineComment(rest):
		s.skipLine()
	case c == ';':
		s.pos++
		if s.trigger.open() {
			s.trigger.semicolon()
			s.end = s.pos
			return
		}
		s.finish()
	case c == '\'':
		s.quoted(s.pos, 1, '\'', s.r.backslash, stringToken)
	case c == '"':
		s.quoted(s.pos, 1, '"', s.d == schema.MariaDB && s.r.doubleBackslash, quotedToken)
	case c == '`' && s.d != schema.PostgreSQL:
		s.quoted(s.pos, 1, '`', false, quotedToken)
	case c == '[' && s.d == schema.SQLite:
		s.bracketed()
	case c == '$' && s.d == schema.PostgreSQL:
		s.dollar()
	case isDigit(c):
		s.take(otherToken, s.run())
	case isWordStart(c) || c == '$' && s.d == schema.MariaDB:
		s.word()
	default:
		s.take(otherToken, s.pos+1)
	}
}

// take adds the token that ends before end.
func (s *scanner) take(kind tokenKind, end int) {
	s.add(token{kind, s.sql[s.pos:end]}, s.pos, end)
}

func (s *scanner) add(t token, start, end int) {
	if s.start < 0 {
		s.start = start
	}
	s.pos, s.end = end, end
	s.exec = s.exec || s.inExec
	s.nesting(t)
	if len(s.tokens) < keptTokens {
		s.tokens = append(s.tokens, t)
	}
	if t.kind <= quotedToken && len(s.words) < 4 {
		s.words = append(s.words, strings.ToUpper(t.text))
	}
	if s.d == schema.SQLite {
		s.trigger.token(t)
	}
}

// finish ends the current statement, if there is one.
func (s *scanner) finish() {
	if s.start >= 0 {
		k, savepoint := classify(s.d, s.tokens)
		s.out = append(s.out, Statement{
			Text: s.sql[s.start:s.end], Words: s.words, Kind: k, Savepoint: savepoint,
			Returning: s.returning, Executable: s.exec, Unterminated: s.open,
		})
	}
	s.depth, s.returning = 0, false
	s.tokens, s.words, s.start, s.exec, s.open, s.trigger = nil, nil, -1, false, false, trigger{}
}

// nesting follows parentheses and notes where RETURNING stands.
func (s *scanner) nesting(t token) {
	switch {
	case t.kind == otherToken && t.text == "(":
		s.depth++
	case t.kind == otherToken && t.text == ")":
		s.depth--
	case t.kind == wordToken && s.depth == 0 && strings.EqualFold(t.text, "RETURNING"):
		s.returning = true
	}
}

// comment skips /* … */: nested on PostgreSQL only, and on MariaDB executed
// when it begins with /*! or /*M!.
func (s *scanner) comment() {
	rest := s.sql[s.pos:]
	if s.d == schema.MariaDB && s.r.executable {
		for _, mark := range []string{"/*!", "/*M!"} {
			if strings.HasPrefix(rest, mark) {
				s.pos += len(mark)
				for s.pos < len(s.sql) && isDigit(s.sql[s.pos]) {
					s.pos++
				}
				s.inExec = true
				return
			}
		}
	}
	depth := 0
	for s.pos < len(s.sql) {
		switch rest := s.sql[s.pos:]; {
		case strings.HasPrefix(rest, "/*") && (depth == 0 || s.d == schema.PostgreSQL):
			depth++
			s.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.pos += 2
			if depth == 0 {
				return
			}
		default:
			s.pos++
		}
	}
	s.open = true
}

// lineComment reports whether rest begins with one: "--" (on MariaDB only
// before a space or control character), and "#" on MariaDB.
func (s *scanner) lineComment(rest string) bool {
	if s.d == schema.MariaDB {
		return rest[0] == '#' || strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' ')
	}
	return strings.HasPrefix(rest, "--")
}

func (s *scanner) skipLine() {
	ends := "\n"
	if s.d == schema.PostgreSQL {
		ends = "\r\n"
	}
	if i := strings.IndexAny(s.sql[s.pos:], ends); i >= 0 {
		s.pos += i + 1
	} else {
		s.pos = len(s.sql)
	}
}

// quoted takes what stands between quotes, doubled ones included; start is
// where the token begins (a prefix may stand before the quote), open the
// length of what opens it.
func (s *scanner) quoted(start, open int, q byte, backslash bool, kind tokenKind) {
	i := start + open
	for i < len(s.sql) {
		switch c := s.sql[i]; {
		case c == '\\' && backslash:
			i += 2
		case c == q && i+1 < len(s.sql) && s.sql[i+1] == q:
			i += 2
		case c == q:
			text := strings.ReplaceAll(s.sql[start+open:i], string([]byte{q, q}), string([]byte{q}))
			s.add(token{kind, text}, start, i+1)
			return
		default:
			i++
		}
	}
	s.unterminated(start, kind)
}

// bracketed takes SQLite's [identifier].
func (s *scanner) bracketed() {
	if i := strings.IndexByte(s.sql[s.pos:], ']'); i >= 0 {
		s.add(token{quotedToken, s.sql[s.pos+1 : s.pos+i]}, s.pos, s.pos+i+1)
		return
	}
	s.unterminated(s.pos, quotedToken)
}

// dollar takes PostgreSQL's $tag$ … $tag$, or a parameter, $1.
func (s *scanner) dollar() {
	i := s.pos + 1
	for i < len(s.sql) && isWordPart(s.sql[i]) && s.sql[i] != '$' && (i > s.pos+1 || !isDigit(s.sql[i])) {
		i++
	}
	if i >= len(s.sql) || s.sql[i] != '$' {
		s.take(otherToken, s.pos+1)
		return
	}
	tag := s.sql[s.pos : i+1]
	body := s.sql[i+1:]
	if end := strings.Index(body, tag); end >= 0 {
		s.add(token{stringToken, body[:end]}, s.pos, i+1+end+len(tag))
		return
	}
	s.unterminated(s.pos, stringToken)
}

// unterminated takes the rest of the text.
func (s *scanner) unterminated(start int, kind tokenKind) {
	s.open = true
	s.add(token{kind, s.sql[start:]}, start, len(s.sql))
}

// word takes a word, or PostgreSQL's E'…', whose backslashes escape.
func (s *scanner) word() {
	end := s.run()
	if s.d == schema.PostgreSQL && end == s.pos+1 && (s.sql[s.pos] == 'e' || s.sql[s.pos] == 'E') &&
		end < len(s.sql) && s.sql[end] == '\'' {
		s.quoted(s.pos, 2, '\'', true, stringToken)
		return
	}
	s.take(wordToken, end)
}

// run returns where the letters and digits from here on end.
func (s *scanner) run() int {
	i := s.pos + 1
	for i < len(s.sql) && isWordPart(s.sql[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordStart(c byte) bool {
	return c == '_' || c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isWordPart(c byte) bool { return isWordStart(c) || isDigit(c) || c == '$' }
