package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/yekbar-go/yekbar/store/schema"
)

// A Dialect is a database's SQL.
type Dialect uint8

const (
	PostgreSQL Dialect = iota + 1
	MariaDB            // and MySQL
	SQLite
)

// String returns the name that the package schema has for it.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL, MariaDB, SQLite:
		return string(d.schema())
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

func (d Dialect) schema() schema.Dialect {
	switch d {
	case PostgreSQL:
		return schema.PostgreSQL
	case MariaDB:
		return schema.MariaDB
	case SQLite:
		return schema.SQLite
	}
	return ""
}

// Config configures a Store; the zero value is ready for use.
type Config struct {
	// Schema holds the tables on PostgreSQL; default "yekbar".
	Schema string
	// Prefix stands before the tables' names elsewhere; default "yekbar_".
	Prefix string
	// Isolation is sql.LevelReadCommitted (also by default),
	// sql.LevelRepeatableRead or sql.LevelSerializable. SQLite's transactions
	// are serializable whatever it says.
	Isolation sql.IsolationLevel
	// AllowUnguarded is the reason why a *sql.DB without Guard is acceptable
	// on MariaDB or SQLite: there a handler that swallows an error, or that
	// goes on after a deadlock, then leaves half of its changes behind.
	AllowUnguarded string
	// Classify is for drivers Yekbar doesn't know: it maps an error to
	// yekbar.ErrTransient, ErrUnavailable or ErrEnvironment, and to nil when
	// the error is the message's own or unknown. It is asked first.
	Classify func(error) error
}

// names places the tables.
func (c Config) names() schema.Names { return schema.Names{Schema: c.Schema, Prefix: c.Prefix} }

// isolation is the level to ask for.
func (c Config) isolation() sql.IsolationLevel {
	if c.Isolation == sql.LevelDefault {
		return sql.LevelReadCommitted
	}
	return c.Isolation
}

// Validate reports all that is wrong with the store's configuration, without
// connecting.
func (s *Store) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("sqlstore: "+format, args...)) }
	if s.dialect.schema() == "" {
		bad("the dialect is %v: use PostgreSQL, MariaDB or SQLite", s.dialect)
	} else if err := s.names.Validate(s.dialect.schema()); err != nil {
		errs = append(errs, err)
	}
	switch s.cfg.isolation() {
	case sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
	default:
		bad("Config.Isolation is %v: use sql.LevelReadCommitted, LevelRepeatableRead or LevelSerializable", s.cfg.Isolation)
	}
	if s.db == nil {
		bad("the *sql.DB is nil")
	} else if !s.guarded() && s.dialect != PostgreSQL && strings.TrimSpace(s.cfg.AllowUnguarded) == "" {
		bad("the *sql.DB has no guard: open it with sqlstore.Open(driver, dsn) or sql.OpenDB(sqlstore.Guard(connector)), or write the reason why it needs none into Config.AllowUnguarded (%v does not abort a transaction when a statement fails)", s.dialect)
	}
	return errors.Join(errs...)
}
