package failpoint

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

// A Point is a place in a transaction's life.
type Point string

const (
	BeforeCommit Point = "before COMMIT" // everything was done, nothing is committed
	AfterCommit  Point = "after COMMIT"  // confirmed, and nobody above the driver knows
)

// Wrap calls reached at each point of a transaction in which a statement was
// executed that counts accepts. reached may not return.
func Wrap(c driver.Connector, counts func(query string) bool, reached func(Point)) driver.Connector {
	return &connector{c, counts, reached}
}

type connector struct {
	driver.Connector
	counts  func(string) bool
	reached func(Point)
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	in, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: in, counts: c.counts, reached: c.reached}, nil
}

// conn forwards the optional interfaces that database/sql looks for. All
// drivers of today have those with a context.
type conn struct {
	driver.Conn
	counts  func(string) bool
	reached func(Point)
	counted bool // in the open transaction
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	b, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errors.New("failpoint: the driver has no BeginTx")
	}
	in, err := b.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.counted = false
	return &tx{in, c}, nil
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.see(query)
	p, ok := c.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("failpoint: the driver has no PrepareContext")
	}
	return p.PrepareContext(ctx, query)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.New("failpoint: the driver has no ExecContext")
	}
	switch text := strings.ToUpper(strings.Trim(query, "; \n\t")); {
	case strings.HasPrefix(text, "BEGIN"), strings.HasPrefix(text, "START TRANSACTION"):
		c.counted = false
	case text == "COMMIT", strings.HasSuffix(text, "; COMMIT"):
		// How Yekbar's stores commit: with SQL, on PostgreSQL behind a check.
		err = c.commit(func() error {
			result, err = e.ExecContext(ctx, query, args)
			return err
		})
		return result, err
	}
	c.see(query)
	return e.ExecContext(ctx, query, args)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.see(query)
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, errors.New("failpoint: the driver has no QueryContext")
	}
	return q.QueryContext(ctx, query, args)
}

func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	if v, ok := c.Conn.(driver.Validator); ok {
		return v.IsValid()
	}
	return true
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// Unwrap returns the driver's own connection.
func (c *conn) Unwrap() driver.Conn { return c.Conn }

func (c *conn) see(query string) { c.counted = c.counted || c.counts(query) }

type tx struct {
	driver.Tx
	conn *conn
}

func (t *tx) Commit() error { return t.conn.commit(t.Tx.Commit) }

func (c *conn) commit(send func() error) error {
	if !c.counted {
		return send()
	}
	c.reached(BeforeCommit)
	if err := send(); err != nil {
		return err
	}
	c.reached(AfterCommit)
	return nil
}
