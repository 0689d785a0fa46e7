package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
)

// Open is sql.Open with the guard in between. The driver must be registered,
// and dsn is in its own form.
func Open(driverName, dsn string) (*sql.DB, error) {
	// sql.Open connects to nothing; it is how a registered driver is found.
	plain, err := sql.Open(driverName, dsn) //nolint:forbidigo // the guard comes around what this finds
	if err != nil {
		return nil, err
	}
	d := plain.Driver()
	if err := plain.Close(); err != nil {
		return nil, err
	}
	if dc, ok := d.(driver.DriverContext); ok {
		c, err := dc.OpenConnector(dsn)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(Guard(c)), nil
	}
	return sql.OpenDB(Guard(dsnConnector{d, dsn})), nil
}

// Guard wraps a connector so that inside a handler's transaction nobody but
// Yekbar can end it, a swallowed error can't commit, and nothing runs after its
// end. Outside such transactions it changes nothing. For sql.OpenDB; ORMs need
// not know.
//
// What (*sql.Conn).Raw gives to its function is then the guard's connection;
// [Unwrap] returns the driver's own.
func Guard(c driver.Connector) driver.Connector {
	if g, ok := c.(*connector); ok {
		return g
	}
	return &connector{Connector: c, driver: &guardDriver{Driver: c.Driver(), writer: newWriter()}}
}

// Unwrap returns the driver's own connection of what (*sql.Conn).Raw passes to
// its function, which is driverConn itself where there is no guard.
func Unwrap(driverConn any) any {
	if c, ok := driverConn.(*conn); ok {
		return c.raw
	}
	return driverConn
}

// dsnConnector is for drivers without connectors of their own.
type dsnConnector struct {
	driver driver.Driver
	dsn    string
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

type connector struct {
	driver.Connector
	driver *guardDriver
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw}, nil
}

func (c *connector) Driver() driver.Driver { return c.driver }

// Close closes the wrapped connector when it wants that, as sql.DB.Close does.
func (c *connector) Close() error {
	if closer, ok := c.Connector.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// guardDriver is how a Store tells that a *sql.DB is guarded; it is one for
// each database.
type guardDriver struct {
	driver.Driver
	writer *writer
}
