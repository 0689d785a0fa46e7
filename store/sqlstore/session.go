package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// session is what the store found out about a guarded connection, once.
type session struct {
	ready  bool
	custom func(error) error // Config.Classify

	flavor    flavor
	id        int64  // CONNECTION_ID()
	host      string // where the server sees us, with the port
	isolation string // of the session, as "READ COMMITTED"

	busyTimeout int64 // SQLite, in milliseconds
}

func (s *session) classify(raw any, err error) error { return classify(s.custom, raw, err) }

// prepare asks a new connection for what the store has to know, and sets what
// it needs.
func (s *session) prepare(ctx context.Context, d Dialect, c *conn, wait time.Duration) error {
	if s.ready {
		return nil
	}
	var err error
	switch d {
	case MariaDB:
		err = s.askMariaDB(ctx, c)
	case SQLite:
		err = s.setSQLite(ctx, c, wait)
	}
	s.ready = err == nil
	return err
}

func (s *session) askMariaDB(ctx context.Context, c *conn) error {
	row, err := c.row(ctx, "SELECT CONNECTION_ID(), HOST, VERSION() FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(text(row[0]), &s.id); err != nil {
		return fmt.Errorf("CONNECTION_ID() is %q: %w", text(row[0]), err)
	}
	s.host = text(row[1])
	s.flavor = flavorOf(text(row[2]))
	// MariaDB has had the name without "tx" since 11.1 only.
	name := "@@transaction_isolation"
	if s.flavor.mariadb {
		name = "@@tx_isolation"
	}
	if row, err = c.row(ctx, "SELECT "+name); err != nil {
		return err
	}
	s.isolation = strings.ReplaceAll(text(row[0]), "-", " ")
	return nil
}

// row returns the only row of a query without arguments, past the guard.
func (c *conn) row(ctx context.Context, query string) (_ []driver.Value, err error) {
	rs, err := queryConn(ctx, c.raw, query, nil)
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares it by identity, too
		var s driver.Stmt
		if s, err = prepare(ctx, c.raw, query); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		rs, err = (&stmt{c, s, query}).QueryContext(private(ctx), nil)
	}
	if err != nil {
		return nil, err
	}
	dest := make([]driver.Value, len(rs.Columns()))
	err = rs.Next(dest)
	if err == io.EOF { //nolint:errorlint // database/sql compares it by identity, too
		err = fmt.Errorf("no row from %s", query)
	}
	for i, v := range dest {
		if b, ok := v.([]byte); ok {
			dest[i] = string(b) // b is the driver's, until Close
		}
	}
	return dest, errors.Join(err, rs.Close())
}

func text(v driver.Value) string { return fmt.Sprint(v) }
