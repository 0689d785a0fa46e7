package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
)

// A fake is a database that notes what it is sent. Texts with "fail" in them
// fail, those with "skip" are left to prepared statements.
type fake struct {
	mu  sync.Mutex
	log []string
	// fail decides about each text, before the rules above.
	fail func(text string) error
}

var errFake = errors.New("fake: failed")

func (f *fake) note(text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, text)
	if f.fail != nil {
		if err := f.fail(text); err != nil {
			return err
		}
	}
	if strings.Contains(text, "fail") && !strings.HasPrefix(text, "prepare") {
		return errFake
	}
	return nil
}

// sent takes what was sent since the last call.
func (f *fake) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

// Connect and Driver make a connector of it.
func (f *fake) Connect(context.Context) (driver.Conn, error) { return &fakeConn{f: f}, nil }
func (f *fake) Driver() driver.Driver                        { return fakeDriver{} }

type fakeDriver struct{}

func (fakeDriver) Open(string) (driver.Conn, error) { return nil, errFake }

// A fakeConn has every optional interface.
type fakeConn struct {
	f       *fake
	invalid bool
}

func (c *fakeConn) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

func (c *fakeConn) PrepareContext(_ context.Context, text string) (driver.Stmt, error) {
	if err := c.f.note("prepare " + text); err != nil {
		return nil, err
	}
	return &fakeStmt{c.f, text}, nil
}

func (c *fakeConn) Close() error { return c.f.note("close") }

func (c *fakeConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return fakeTx{c.f}, c.f.note("driver begin")
}

func (c *fakeConn) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(text, "skip") {
		return nil, driver.ErrSkip
	}
	return driver.RowsAffected(1), c.f.note(text)
}

func (c *fakeConn) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(text, "skip") {
		return nil, driver.ErrSkip
	}
	if err := c.f.note(text); err != nil {
		return nil, err
	}
	return c.f.result(text), nil
}

// result answers what the store asks its connections.
func (f *fake) result(text string) driver.Rows {
	switch {
	case strings.Contains(text, "PROCESSLIST"):
		return &fakeRows{f: f, values: []driver.Value{int64(7), "127.0.0.1:1", "11.4.2-MariaDB"}}
	case strings.Contains(text, "isolation"):
		return &fakeRows{f: f, values: []driver.Value{"READ-COMMITTED"}}
	case strings.Contains(text, "busy_timeout"):
		return &fakeRows{f: f, values: []driver.Value{int64(5000)}}
	case strings.Contains(text, "journal_mode"):
		return &fakeRows{f: f, values: []driver.Value{"wal"}}
	case strings.Contains(text, "synchronous"):
		return &fakeRows{f: f, values: []driver.Value{int64(2)}}
	}
	return &fakeRows{f: f, values: []driver.Value{"1"}, bad: strings.Contains(text, "torn")}
}

func (c *fakeConn) Ping(context.Context) error               { return c.f.note("ping") }
func (c *fakeConn) ResetSession(context.Context) error       { return c.f.note("reset") }
func (c *fakeConn) IsValid() bool                            { return !c.invalid }
func (c *fakeConn) CheckNamedValue(*driver.NamedValue) error { return driver.ErrSkip }

type fakeTx struct{ f *fake }

func (t fakeTx) Commit() error   { return t.f.note("driver commit") }
func (t fakeTx) Rollback() error { return t.f.note("driver rollback") }

type fakeStmt struct {
	f    *fake
	text string
}

func (s *fakeStmt) Close() error  { return s.f.note("close " + s.text) }
func (s *fakeStmt) NumInput() int { return -1 }

func (s *fakeStmt) Exec([]driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), s.f.note("execute " + s.text)
}

func (s *fakeStmt) Query([]driver.Value) (driver.Rows, error) {
	if err := s.f.note("execute " + s.text); err != nil {
		return nil, err
	}
	return s.f.result(s.text), nil
}

type fakeRows struct {
	f      *fake
	values []driver.Value
	bad    bool
}

func (r *fakeRows) Columns() []string { return make([]string, max(1, len(r.values))) }
func (r *fakeRows) Close() error      { return r.f.note("close rows") }

func (r *fakeRows) Next(dest []driver.Value) error {
	if r.bad {
		return errFake
	}
	if r.values == nil {
		return io.EOF
	}
	copy(dest, r.values)
	r.values = nil
	return nil
}

// bare hides the optional interfaces of a connection.
type bare struct{ driver.Conn }
