package sqlstore

import (
	"context"
	"database/sql/driver"
)

// stmt is a prepared statement of a guarded connection.
type stmt struct {
	conn  *conn
	raw   driver.Stmt
	query string
}

var (
	_ driver.StmtExecContext   = (*stmt)(nil)
	_ driver.StmtQueryContext  = (*stmt)(nil)
	_ driver.NamedValueChecker = (*stmt)(nil)
)

// converting is a stmt whose driver converts arguments by column.
type converting struct {
	*stmt
	driver.ColumnConverter
}

func newStmt(c *conn, raw driver.Stmt, query string) driver.Stmt {
	s := &stmt{c, raw, query}
	if cc, ok := raw.(driver.ColumnConverter); ok { //nolint:staticcheck // SA1019: what old drivers have
		return converting{s, cc}
	}
	return s
}

func (s *stmt) Close() error  { return s.raw.Close() }
func (s *stmt) NumInput() int { return s.raw.NumInput() }

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func named(args []driver.Value) []driver.NamedValue {
	nvs := make([]driver.NamedValue, len(args))
	for i, v := range args {
		nvs[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return nvs
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	defer s.conn.hangUp(ctx)()
	g := s.conn.watching(ctx)
	if g == nil {
		return execStmt(ctx, s.raw, args)
	}
	var result driver.Result
	err := g.run(ctx, s.query, func() (err error) {
		result, err = execStmt(ctx, s.raw, args)
		return err
	})
	return result, err
}

func execStmt(ctx context.Context, raw driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := raw.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return raw.Exec(values) //nolint:staticcheck // SA1019: what old drivers have
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(ctx, s.query, func() (driver.Rows, error) {
		if q, ok := s.raw.(driver.StmtQueryContext); ok {
			return q.QueryContext(ctx, args)
		}
		values, err := positional(ctx, args)
		if err != nil {
			return nil, err
		}
		return s.raw.Query(values) //nolint:staticcheck // SA1019: what old drivers have
	})
}

// CheckNamedValue asks the statement, and else the connection, as database/sql
// does.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := s.raw.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}
