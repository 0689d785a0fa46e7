package sqlstore

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/yekbar-go/yekbar"
)

// guarded is one of the store's transactions, as its connection sees it.
type guarded struct {
	conn    *conn
	dialect Dialect
	start   func(ctx context.Context) error // sends BEGIN

	open       bool // BEGIN was sent
	over       bool // the handler has returned
	failure    *failure
	boundary   *yekbar.BoundaryError
	doubtful   *yekbar.BoundaryError // to be decided after ROLLBACK
	savepoints savepoints
}

// failure is the first failed statement that no ROLLBACK TO has forgiven.
type failure struct {
	what  string
	err   error
	class error // what the database says it is; nil: the message's own
}

func (f *failure) Error() string {
	return fmt.Sprintf("statement %s failed: %v", f.what, f.err)
}

func (f *failure) Unwrap() []error {
	if f.class == nil {
		return []error{f.err}
	}
	return []error{f.class, f.err}
}

// begin is BEGIN, for database/sql.
func (g *guarded) begin(ctx context.Context) (driver.Tx, error) {
	if g.open {
		return nil, g.refuse("Conn.BeginTx")
	}
	if err := g.start(ctx); err != nil {
		// Whether the server began is not known.
		g.conn.broken = true
		return nil, err
	}
	g.open = true
	return handle{g, ctx}, nil
}

// handle is what *sql.Tx has of the transaction. It ends nothing: the store
// sends COMMIT and ROLLBACK itself, and lets *sql.Tx only clean up.
type handle struct {
	g   *guarded
	ctx context.Context
}

func (h handle) Commit() error {
	if h.g.over {
		return nil
	}
	return h.g.refuse("Tx.Commit")
}

// Rollback is also what database/sql calls when the context ends.
func (h handle) Rollback() error {
	if h.g.over || h.ctx.Err() != nil {
		return nil //nolint:nilerr // the store rolls back, and says why
	}
	return h.g.refuse("Tx.Rollback")
}

// refuse notes what the handler tried; the first counts.
func (g *guarded) refuse(what string) error {
	if g.boundary == nil {
		g.boundary = &yekbar.BoundaryError{What: what}
	}
	return g.boundary
}

// run runs one of the handler's texts.
func (g *guarded) run(ctx context.Context, query string, send func() error) error {
	p, err := g.before(query)
	if err != nil {
		return err
	}
	if err := g.bracket(ctx, p); err != nil {
		return err
	}
	err = send()
	g.after(p, query, err)
	g.unbracket(p, err)
	return err
}

// query is run for a text that returns rows.
func (g *guarded) query(ctx context.Context, query string, send func() (driver.Rows, error)) (*rows, error) {
	p, err := g.before(query)
	if err != nil {
		return nil, err
	}
	if err := g.bracket(ctx, p); err != nil {
		return nil, err
	}
	rs, err := send()
	g.after(p, query, err)
	if err != nil {
		g.unbracket(p, err)
		return nil, err
	}
	r := &rows{Rows: rs, guard: g, query: query}
	if p.bracket {
		r.closed = append(r.closed, func() { g.unbracket(p, nil) })
	}
	return r, nil
}

// before refuses what must not be sent.
func (g *guarded) before(query string) (plan, error) {
	if g.over {
		return plan{}, fmt.Errorf("%w: %s", yekbar.ErrTxDone, firstWords(g.dialect, query))
	}
	if g.boundary != nil {
		return plan{}, g.boundary
	}
	p := planOf(g.dialect, query)
	if p.ends != "" {
		return plan{}, g.refuse(p.ends)
	}
	if p.problem != "" {
		err := fmt.Errorf("sqlstore: %s: %s", p.what, p.problem)
		g.failed(query, err)
		return plan{}, err
	}
	if g.failure != nil && !(p.forgives != "" && g.savepoints.find(p.forgives) >= 0) {
		return plan{}, fmt.Errorf("sqlstore: %s refused: an earlier %w, and nothing but ROLLBACK TO a savepoint set before it makes up for that", p.what, g.failure)
	}
	return p, nil
}

// after notes what became of a text.
func (g *guarded) after(p plan, query string, err error) {
	switch {
	case err == driver.ErrSkip: //nolint:errorlint // database/sql prepares it now; it compares by identity, too
	case err != nil:
		g.failed(query, err)
	default:
		if p.forgives != "" {
			g.failure = nil
		}
		for _, op := range p.savepoints {
			op(&g.savepoints)
		}
	}
}

// failed notes a failed statement; the first one counts.
func (g *guarded) failed(query string, err error) {
	if g.failure != nil {
		return
	}
	class := g.conn.session.classify(g.conn.raw, err)
	if class == nil && g.missing(query, err) {
		class = yekbar.ErrEnvironment
	}
	g.failure = &failure{what: firstWords(g.dialect, query), err: err, class: class}
}

// missing reports whether SQLite can't compile the text: it names a table or a
// column that isn't there, for every message alike. SQLite has one code,
// SQLITE_ERROR, for that and for what a value brings about.
func (g *guarded) missing(query string, err error) bool {
	if g.dialect != SQLite || !isSQLiteError(err) {
		return false
	}
	s, err := g.conn.raw.Prepare(query)
	if err == nil {
		err = s.Close()
	}
	return isSQLiteError(err)
}

// fence is the private savepoint round statements that may commit unseen.
const fence = "yekbar_fence"

// bracket sets the fence.
func (g *guarded) bracket(ctx context.Context, p plan) error {
	if !p.bracket {
		return nil
	}
	err := g.conn.exec(ctx, "SAVEPOINT "+fence)
	if err != nil {
		g.failed(p.what, err)
	}
	return err
}

// unbracket finds the fence gone when the transaction was ended in between.
// After a failure that may be because the database rolled the transaction
// back, so that only the claim can tell, once all is over.
func (g *guarded) unbracket(p plan, failed error) {
	if !p.bracket {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	err := g.conn.exec(ctx, "RELEASE SAVEPOINT "+fence)
	if err == nil {
		return
	}
	escaped := &yekbar.BoundaryError{What: p.what, Escaped: true}
	switch code, known := mysqlNumber(err); {
	case known && code == savepointMissing && g.failure == nil && (failed == nil || failed == driver.ErrSkip): //nolint:errorlint // database/sql compares it by identity, too
		if g.boundary == nil {
			g.boundary = escaped
		}
	default:
		if g.doubtful == nil {
			g.doubtful = escaped
		}
		g.failed("RELEASE SAVEPOINT", err)
	}
}

// savepointMissing is ER_SP_DOES_NOT_EXIST.
const savepointMissing = 1305
