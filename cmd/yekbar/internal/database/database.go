package database

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/safeurl"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// Forms says what --database takes, for messages.
const Forms = "sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://USER:PASSWORD@HOST:PORT/DATABASE"

// A Database is where a URL leads. It has no connection yet.
type Database struct {
	Dialect sqlstore.Dialect
	// File is the path of an SQLite database.
	File string

	kind      string
	url       *safeurl.URL
	connector driver.Connector
}

// Parse reads a URL and connects to nothing. Its errors have no password.
func Parse(raw string) (*Database, error) {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok {
		return nil, fmt.Errorf("no database URL: it has no scheme (for a file: sqlite:PATH); use %s", Forms)
	}
	switch strings.ToLower(scheme) {
	case "sqlite":
		return parseSQLite(rest)
	case "postgres", "postgresql":
		return parsePostgreSQL(raw)
	case "mysql", "mariadb":
		return parseMariaDB(raw)
	}
	return nil, fmt.Errorf("unknown kind of database %q; use %s", scheme, Forms)
}

func parseSQLite(rest string) (*Database, error) {
	path := strings.TrimPrefix(rest, "//")
	switch {
	case path == "":
		return nil, errors.New("sqlite: needs the path of a file, such as sqlite:shop.db")
	case strings.HasPrefix(path, ":memory:"):
		return nil, errors.New("sqlite::memory: is one process's own; use a file, such as sqlite:shop.db")
	case strings.ContainsAny(path, "?#"):
		return nil, fmt.Errorf("sqlite:%s: the path can have no ? and no #; Yekbar sets what SQLite needs to be told", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite:%s: %w", path, err)
	}
	// WAL and FULL: readers don't wait, and what is committed survives a
	// power cut. BEGIN IMMEDIATE: a transaction that reads first can't become
	// a writer when another one wrote meanwhile (SQLITE_BUSY at once).
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		"_txlock": {"immediate"},
	}.Encode()}
	connector, err := sqlite.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("sqlite:%s: %w", path, err)
	}
	return &Database{Dialect: sqlstore.SQLite, File: path, kind: "SQLite", connector: connector}, nil
}

func parsePostgreSQL(raw string) (*Database, error) {
	u, err := safeurl.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	cfg, err := pgx.ParseConfig(raw)
	if err != nil {
		return nil, u.Clean(fmt.Errorf("PostgreSQL %s: %w", u, err))
	}
	u.Hide(cfg.Password)
	if !u.Query().Has("default_query_exec_mode") {
		// No statements that live in a session: behind PgBouncer the next
		// transaction may have another one.
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return &Database{Dialect: sqlstore.PostgreSQL, kind: "PostgreSQL", url: u, connector: stdlib.GetConnector(*cfg)}, nil
}

func parseMariaDB(raw string) (*Database, error) {
	u, err := safeurl.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("MariaDB: %w", err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	if u.Host == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("MariaDB %s: use mysql://USER:PASSWORD@HOST:PORT/DATABASE", u)
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	cfg, err := mysql.ParseDSN("tcp(" + net.JoinHostPort(u.Hostname(), port) + ")/?" + u.RawQuery)
	if err != nil {
		return nil, u.Clean(fmt.Errorf("MariaDB %s: %w", u, err))
	}
	cfg.DBName = name
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	// One round trip a statement in place of prepare, execute, close.
	cfg.InterpolateParams = true
	// What goes wrong is returned; the driver's own log would say it twice.
	cfg.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, u.Clean(fmt.Errorf("MariaDB %s: %w", u, err))
	}
	return &Database{Dialect: sqlstore.MariaDB, kind: "MariaDB", url: u, connector: connector}, nil
}

// String names the database, without its password.
func (d *Database) String() string {
	if d.url == nil {
		return d.kind + " " + d.File
	}
	return d.kind + " " + d.url.String()
}

// Kind is "SQLite", "PostgreSQL" or "MariaDB".
func (d *Database) Kind() string { return d.kind }

// Clean takes the password out of err's text.
func (d *Database) Clean(err error) error { return d.url.Clean(err) }

// Open returns a guarded pool; it connects at its first use. wrap, where it is
// not nil, gets between the guard and the driver.
func (d *Database) Open(wrap func(driver.Connector) driver.Connector) *sql.DB {
	c := d.connector
	if wrap != nil {
		c = wrap(c)
	}
	db := sql.OpenDB(sqlstore.Guard(c))
	if d.Dialect == sqlstore.SQLite {
		db.SetMaxOpenConns(1) // one writer a process: SQLite has one for all
	}
	return db
}
