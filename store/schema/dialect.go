package schema

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Dialect is a database's SQL.
type Dialect string

const (
	PostgreSQL Dialect = "postgresql"
	MariaDB    Dialect = "mariadb" // and MySQL
	SQLite     Dialect = "sqlite"
)

// Dialects lists all of them.
func Dialects() []Dialect { return []Dialect{PostgreSQL, MariaDB, SQLite} }

// The tables of this version, before schema or prefix.
const (
	ProcessedMessages = "processed_messages"
	HeldMessages      = "held_messages"
	Results           = "results"
	Attempts          = "attempts"
	Consumers         = "consumers"
	Positions         = "positions"
	AuditLog          = "audit_log"
	SchemaVersion     = "schema_version"
)

// Tables lists all of them.
func Tables() []string {
	return []string{ProcessedMessages, HeldMessages, Results, Attempts, Consumers, Positions, AuditLog, SchemaVersion}
}

// Names places the tables; the zero value is ready for use.
type Names struct {
	Schema string // PostgreSQL; default "yekbar"
	Prefix string // elsewhere; default "yekbar_"
}

func (n Names) schema() string {
	if n.Schema == "" {
		return "yekbar"
	}
	return n.Schema
}

func (n Names) prefix() string {
	if n.Prefix == "" {
		return "yekbar_"
	}
	return n.Prefix
}

// Longest names. PostgreSQL cuts longer ones silently (NAMEDATALEN, 63 bytes);
// MariaDB and MySQL refuse a table name over 64 characters.
const (
	maxSchema = 63
	maxPrefix = 64 - len(ProcessedMessages)
)

// Validate reports all that is wrong with the names d uses.
func (n Names) Validate(d Dialect) error {
	switch d {
	case PostgreSQL:
		return validateSchema(n.schema())
	case MariaDB, SQLite:
		return validatePrefix(n.prefix())
	}
	return fmt.Errorf("yekbar: unknown dialect %q: use one of %q", d, Dialects())
}

func validateSchema(s string) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("yekbar: schema name %q "+format, append([]any{s}, args...)...))
	}
	if len(s) > maxSchema {
		bad("has %d bytes: PostgreSQL would cut it after %d", len(s), maxSchema)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || strings.Contains(s, `\`) {
		bad("has a backslash, a control character, or is not UTF-8")
	}
	if strings.Contains(s, bodyQuote) {
		bad("has %s in it", bodyQuote)
	}
	if strings.HasPrefix(strings.ToLower(s), "pg_") {
		bad("begins with pg_, which PostgreSQL keeps for itself")
	}
	return errors.Join(errs...)
}

func validatePrefix(s string) error {
	var errs []error
	if len(s) > maxPrefix {
		errs = append(errs, fmt.Errorf("yekbar: table prefix %q has %d bytes: at most %d leave room for the tables' names", s, len(s), maxPrefix))
	}
	for i, r := range s {
		if r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9' {
			continue
		}
		errs = append(errs, fmt.Errorf("yekbar: table prefix %q: use ASCII letters, digits and _, a digit not first", s))
		break
	}
	return errors.Join(errs...)
}

// Table returns the qualified and quoted name of a table: in its schema on
// PostgreSQL, with its prefix elsewhere, on SQLite also in "main", where no
// temporary table of the connection stands in front of it.
func (n Names) Table(d Dialect, table string) string {
	switch d {
	case PostgreSQL:
		return Quote(d, n.schema()) + "." + Quote(d, table)
	case SQLite:
		return Quote(d, "main") + "." + Quote(d, n.prefix()+table)
	}
	return Quote(d, n.prefix()+table)
}

// Bare returns the table's name as the database's catalogs have it, without
// schema and quotes.
func (n Names) Bare(d Dialect, table string) string {
	if d == PostgreSQL {
		return table
	}
	return n.prefix() + table
}

// SchemaName returns the PostgreSQL schema as its catalogs have it.
func (n Names) SchemaName() string { return n.schema() }

// Quote quotes an identifier: "a" on PostgreSQL and SQLite, `a` on MariaDB
// whatever its ANSI_QUOTES says.
func Quote(d Dialect, identifier string) string {
	q := `"`
	if d == MariaDB {
		q = "`"
	}
	return q + strings.ReplaceAll(identifier, q, q+q) + q
}

// literal quotes a string that has no backslash.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
