package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// conn is a connection with the guard's eye on it. It has every optional
// interface of package driver; those that the wrapped connection lacks answer
// what makes database/sql do what it does without them.
//
// database/sql calls a connection from one goroutine at a time, also through
// (*sql.Conn).Raw, so there is nothing to lock.
type conn struct {
	raw driver.Conn
	// guard is the store's transaction, from before its BEGIN until after its
	// COMMIT.
	guard *guarded
	// session is what the store knows about the connection.
	session session
	// broken connections never go back to the pool.
	broken bool
}

var (
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
)

type privateKey struct{}

// private marks the store's own statements, which the guard lets through.
func private(ctx context.Context) context.Context { return context.WithValue(ctx, privateKey{}, true) }

func isPrivate(ctx context.Context) bool { return ctx.Value(privateKey{}) != nil }

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	defer c.hangUp(ctx)()
	g := c.watching(ctx)
	if g != nil {
		if _, err := g.before(query); err != nil {
			return nil, err
		}
	}
	raw, err := prepare(ctx, c.raw, query)
	if err != nil {
		if g != nil {
			g.failed(query, err)
		}
		return nil, err
	}
	return newStmt(c, raw, query), nil
}

// prepare is what database/sql does for connections of both kinds.
func prepare(ctx context.Context, raw driver.Conn, query string) (driver.Stmt, error) {
	if p, ok := raw.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	s, err := raw.Prepare(query)
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), s.Close())
	}
	return s, err
}

func (c *conn) Close() error { return c.raw.Close() }

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if c.guard != nil {
		return c.guard.begin(ctx)
	}
	return begin(ctx, c.raw, o)
}

// begin is what database/sql does for connections of both kinds.
func begin(ctx context.Context, raw driver.Conn, o driver.TxOptions) (driver.Tx, error) {
	if b, ok := raw.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, o)
	}
	if sql.IsolationLevel(o.Isolation) != sql.LevelDefault {
		return nil, errors.New("sql: driver does not support non-default isolation level")
	}
	if o.ReadOnly {
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	tx, err := raw.Begin() //nolint:staticcheck // SA1019: all that a driver without BeginTx has
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), tx.Rollback())
	}
	return tx, err
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.hangUp(ctx)()
	g := c.watching(ctx)
	if g == nil {
		return execConn(ctx, c.raw, query, args)
	}
	var result driver.Result
	err := g.run(ctx, query, func() (err error) {
		result, err = execConn(ctx, c.raw, query, args)
		return err
	})
	return result, err
}

func execConn(ctx context.Context, raw driver.Conn, query string, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := raw.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, query, args)
	}
	e, ok := raw.(driver.Execer) //nolint:staticcheck // SA1019: what old drivers have
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.Exec(query, values)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, query, func() (driver.Rows, error) { return queryConn(ctx, c.raw, query, args) })
}

// query sends what returns rows.
func (c *conn) query(ctx context.Context, query string, send func() (driver.Rows, error)) (driver.Rows, error) {
	if c.guard == nil {
		return send()
	}
	stop := c.hangUp(ctx)
	var (
		rs  *rows
		err error
	)
	if g := c.watching(ctx); g != nil {
		rs, err = g.query(ctx, query, send)
	} else {
		rs, err = privateRows(send)
	}
	if err != nil {
		stop()
		return nil, err
	}
	rs.closed = append(rs.closed, stop)
	return rs, nil
}

func privateRows(send func() (driver.Rows, error)) (*rows, error) {
	rs, err := send()
	return &rows{Rows: rs}, err
}

func queryConn(ctx context.Context, raw driver.Conn, query string, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := raw.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, query, args)
	}
	q, ok := raw.(driver.Queryer) //nolint:staticcheck // SA1019: what old drivers have
	if !ok {
		return nil, driver.ErrSkip
	}
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return q.Query(query, values)
}

// positional is for interfaces that know neither contexts nor names.
func positional(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = a.Value
	}
	return values, ctx.Err()
}

func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.raw.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// ResetSession keeps what a transaction left unclean from being used again.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken || c.guard != nil {
		return driver.ErrBadConn
	}
	if r, ok := c.raw.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool { return !c.broken && c.guard == nil && alive(c.raw) }

// alive is the driver's own word, where it has one.
func alive(raw any) bool {
	v, ok := raw.(driver.Validator)
	return !ok || v.IsValid()
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.raw.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// watching returns the guard when it has to look at a statement.
func (c *conn) watching(ctx context.Context) *guarded {
	if c.guard == nil || isPrivate(ctx) {
		return nil
	}
	return c.guard
}

// exec executes a statement without arguments, past the guard.
func (c *conn) exec(ctx context.Context, query string) error {
	defer c.hangUp(ctx)()
	_, err := execConn(ctx, c.raw, query, nil)
	if err != driver.ErrSkip { //nolint:errorlint // database/sql compares it by identity, too
		return err
	}
	s, err := prepare(ctx, c.raw, query)
	if err != nil {
		return err
	}
	_, err = execStmt(ctx, s, nil)
	return errors.Join(err, s.Close())
}
