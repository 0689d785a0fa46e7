package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// Check implements yekbar.Checker: it verifies all that the claims depend on.
func (s *Store) Check(ctx context.Context) error {
	if err := s.Validate(); err != nil {
		return err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return s.connectError(ctx, err)
	}
	defer giveBack(conn)
	c := &checking{Store: s, ctx: ctx, conn: conn}
	return c.all()
}

// checking asks over one connection.
type checking struct {
	*Store
	ctx      context.Context
	conn     *sql.Conn
	problems []error
}

func (c *checking) all() error {
	if err := c.settings(c.ctx, c.conn); err != nil {
		return err
	}
	if err := c.database(); err != nil {
		return err
	}
	have, minCompatible, err := c.version(c.ctx, c.conn)
	if err != nil {
		return err
	}
	if err := schema.CheckVersion(have, minCompatible); err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	switch c.dialect {
	case PostgreSQL:
		err = c.tablesPostgreSQL()
	case MariaDB:
		err = c.tablesMariaDB()
	case SQLite:
		err = c.tablesSQLite()
	}
	return errors.Join(append(c.problems, err)...)
}

// settings makes a new connection's settings at the start, where what stands
// in the way is reported best.
func (s *Store) settings(ctx context.Context, c *sql.Conn) error {
	err := c.Raw(func(raw any) error {
		if c, ok := raw.(*conn); ok {
			return c.session.prepare(ctx, s.dialect, c, defaultWait)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sqlstore: settings of a connection: %w", s.unavailable(ctx, err))
	}
	return nil
}

// database checks the server's version and that it takes writes.
func (c *checking) database() error {
	switch c.dialect {
	case PostgreSQL:
		var (
			version           int
			recovery, readyRO bool
		)
		err := c.row("SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4, pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('default_transaction_read_only')::pg_catalog.bool").
			Scan(&version, &recovery, &readyRO)
		if err != nil {
			return c.failed("server version", err)
		}
		c.demand(version >= 130000, yekbar.ErrEnvironment, "PostgreSQL %d.%d is too old: 13 or newer is needed", version/10000, version%10000)
		c.demand(!recovery, yekbar.ErrEnvironment, "this server is a standby and takes no writes: connect to the primary (target_session_attrs=read-write)")
		c.demand(!readyRO, yekbar.ErrEnvironment, "default_transaction_read_only is on: connect to the primary, or switch it off for this role")
	case MariaDB:
		var (
			version, mode string
			readOnly      bool
			packet        int64
		)
		err := c.row("SELECT VERSION(), @@sql_mode, @@read_only, @@max_allowed_packet").Scan(&version, &mode, &readOnly, &packet)
		if err != nil {
			return c.failed("server version", err)
		}
		if err := c.versionMariaDB(version); err != nil {
			return err
		}
		c.demand(!readOnly, yekbar.ErrEnvironment, "read_only is on: connect to the primary")
		c.demand(strictMode(mode), yekbar.ErrEnvironment, "sql_mode is %q: without STRICT_TRANS_TABLES or STRICT_ALL_TABLES values that don't fit are cut silently", mode)
		c.demand(packet >= minPacket, yekbar.ErrEnvironment, "max_allowed_packet is %d bytes: at least %d are needed, and more than any message has", packet, minPacket)
	case SQLite:
		var version string
		if err := c.row("SELECT sqlite_version()").Scan(&version); err != nil {
			return c.failed("SQLite version", err)
		}
		var major, minor int
		if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
			return fmt.Errorf("sqlstore: SQLite's version %q: %w", version, err)
		}
		c.demand(major > 3 || major == 3 && minor >= 37, yekbar.ErrEnvironment, "SQLite %s is too old: 3.37 or newer is needed, for STRICT tables", version)
	}
	return nil
}

// versionMariaDB demands what knows SKIP LOCKED.
func (c *checking) versionMariaDB(version string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("sqlstore: the server's version %q: %w", version, err)
	}
	if flavorOf(version).mariadb {
		c.demand(major > 10 || major == 10 && minor >= 6, yekbar.ErrEnvironment, "MariaDB %s is too old: 10.6 or newer is needed", version)
	} else {
		c.demand(major >= 8, yekbar.ErrEnvironment, "MySQL %s is too old: 8.0 or newer is needed", version)
	}
	return nil
}

func (c *checking) row(text string, args ...any) *sql.Row {
	return c.conn.QueryRowContext(c.ctx, text, args...)
}

func (c *checking) failed(what string, err error) error {
	return fmt.Errorf("sqlstore: check of %s: %w", what, c.unavailable(c.ctx, err))
}

// demand notes a problem unless ok.
func (c *checking) demand(ok bool, class error, format string, args ...any) {
	if !ok {
		c.problems = append(c.problems, fmt.Errorf("sqlstore: %w: %s", class, fmt.Sprintf(format, args...)))
	}
}

// list returns the first column of a query.
func (c *checking) list(text string, args ...any) (list []string, err error) {
	rows, err := c.conn.QueryContext(c.ctx, text, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		var v string
		if err := rows.Scan(&v); err != nil {
			return err
		}
		list = append(list, v)
		return nil
	})
	return list, err
}

// equal compares what a query returns with what must be.
func (c *checking) equal(what string, want []string, text string, args ...any) error {
	got, err := c.list(text, args...)
	if err != nil {
		return c.failed(what, err)
	}
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		ok = got[i] == want[i]
	}
	c.demand(ok, yekbar.ErrSchema, "%s of %s: found %q, want %q: the table was not made by yekbar migrate, or was changed since; undo that, or migrate into another schema or prefix", what, c.sql.claims, got, want)
	return nil
}
