package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
)

// An attempt is one transaction of the store's own.
type attempt struct {
	s       *Store
	conn    *pgxpool.Conn
	tx      *tx
	token   int64  // marks the transaction in the database
	xid     uint64 // 0 when nothing was written
	claimed []yekbar.Claimed
	fresh   []int
	ended   bool // committed or rolled back, or the connection is gone
}

// begin opens a transaction and claims, in one round trip.
func (s *Store) begin(ctx context.Context, level pgx.TxIsoLevel, claims []yekbar.Claim) (*attempt, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, connectError(ctx, err)
	}
	a := &attempt{s: s, conn: conn}
	oldErr := s.endOld(ctx, conn.Conn())
	if err := a.claim(ctx, level, claims); err != nil {
		rollbackErr := a.rollback(ctx)
		a.release()
		return nil, errors.Join(withOld(err, oldErr), rollbackErr)
	}
	return a, nil
}

func (a *attempt) claim(ctx context.Context, level pgx.TxIsoLevel, claims []yekbar.Claim) error {
	c := a.s.newClaimer(claims, idleBound(ctx))
	a.token = c.token
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: level, CommitQuery: closeInner})
	for _, p := range c.parts {
		b.Queue(p.sql, p.args...)
	}
	if len(claims) == 0 {
		b.Queue(xactID, c.token)
	}
	br := a.conn.Conn().SendBatch(ctx, b)
	inner := br.Tx()
	err := c.readAll(ctx, br)
	if closeErr := br.Close(); err == nil && closeErr != nil {
		err = statementError(ctx, "claim", closeErr)
	}
	if err != nil {
		return err
	}
	if old := c.old(); len(old) > 0 {
		if err := a.look(ctx, c, old); err != nil {
			return err
		}
	}
	a.xid, a.claimed = c.xid, c.claimed
	for i, got := range c.claimed {
		if got.Fresh {
			a.fresh = append(a.fresh, i)
		}
	}
	a.tx = &tx{inner: inner, conn: a.conn.Conn()}
	return nil
}

// readAll reads the answers to BEGIN and the claims.
func (c *claimer) readAll(ctx context.Context, br pgx.BatchResults) error {
	if _, err := br.Exec(); err != nil {
		return statementError(ctx, "BEGIN", err)
	}
	for _, p := range c.parts {
		rows, err := br.Query()
		if err == nil {
			err = c.read(p, rows)
		}
		if err != nil {
			return claimError(ctx, c.claims, err)
		}
	}
	if len(c.parts) == 0 {
		if err := br.QueryRow().Scan(&xidText{&c.xid}); err != nil {
			return statementError(ctx, "BEGIN", err)
		}
	}
	return nil
}

// look reads the claims that are not new. When none is, the transaction ends
// in the same round trip.
func (a *attempt) look(ctx context.Context, c *claimer, old []int) error {
	consumers, ids := c.keys(old)
	b := &pgx.Batch{}
	b.Queue(c.s.sql.fetch, consumers, ids)
	if len(old) == len(c.claims) {
		b.Queue("rollback")
	}
	br := a.conn.Conn().SendBatch(ctx, b)
	rows, err := br.Query()
	if err == nil {
		err = c.readOld(old, rows)
	}
	if closeErr := br.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return statementError(ctx, "look at old claims", err)
	}
	return c.vanished()
}

// idleBound is how long a session may idle in the transaction: until nobody can
// be there any more, since the handler and COMMIT had their time.
func idleBound(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(deadline), 0) + 2*commitTimeout
}

// run calls fn and ends the transaction as its error says.
func (a *attempt) run(ctx context.Context, fn func() error) error {
	returned := false
	defer func() {
		if !returned { // a panic or Goexit goes on; its owner reports it
			a.tx.end()
			_ = a.rollback(ctx)
		}
	}()
	fnErr := fn()
	returned = true
	return a.finish(ctx, fnErr)
}

// throughConn is what a handler did that no method of tx saw.
const throughConn = "through Conn, or in a way no statement showed"

// finish commits or rolls back. The order of what it looks at matters: what may
// have been committed already comes first.
func (a *attempt) finish(ctx context.Context, fnErr error) error {
	inUse := a.tx.end()
	t := a.tx
	if inUse {
		a.abandon()
		inUseErr := errors.New("pgxstore: the handler returned while its transaction was in use: rows not closed, a batch not closed, or a goroutine still at work")
		return errors.Join(t.explain(ctx, fnErr), inUseErr)
	}
	if conn := a.conn.Conn(); t.left == "" && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I' {
		t.left = throughConn
	}
	if t.left != "" {
		a.abandon()
		return errors.Join(&yekbar.BoundaryError{What: t.left, Escaped: true}, fnErr)
	}
	if t.refused != nil {
		rollbackErr := a.rollback(ctx)
		if errors.Is(fnErr, t.refused) {
			return errors.Join(fnErr, rollbackErr)
		}
		return errors.Join(t.refused, fnErr, rollbackErr)
	}
	if fnErr == nil {
		fnErr = t.doomed
	}
	if fnErr == nil && ctx.Err() != nil {
		fnErr = fmt.Errorf("pgxstore: not committed: %w", ctx.Err())
	}
	if fnErr == nil && (t.failure != nil || a.conn.Conn().PgConn().TxStatus() != 'T') {
		fnErr = t.rolledBack()
	}
	if fnErr == nil && slices.ContainsFunc(t.queue, queued.byTag) {
		// What only a command tag can check must be known before COMMIT.
		fnErr = t.flush(ctx)
	}
	if fnErr != nil {
		return errors.Join(t.explain(ctx, fnErr), a.rollback(ctx))
	}
	return a.commit(ctx)
}

// rollback ends the transaction and makes sure that nothing of it was
// committed behind our back. Nil means that nothing is stored.
func (a *attempt) rollback(ctx context.Context) error {
	if a.ended {
		return nil
	}
	a.ended = true
	conn := a.conn.Conn()
	if conn.IsClosed() {
		a.s.remember(a.token)
		return nil
	}
	if conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	status, err := rollbackAndLook(ctx, conn.PgConn(), a.xid)
	if err != nil {
		// Whatever it was, the server rolls back what loses its connection.
		a.abandon()
		return nil
	}
	if status == "committed" {
		return &yekbar.BoundaryError{What: throughConn, Escaped: true}
	}
	return nil
}

// rollbackAndLook rolls back, and returns how the transaction xid ended. It is
// one simple query: in a failed transaction nothing can be prepared.
func rollbackAndLook(ctx context.Context, conn *pgconn.PgConn, xid uint64) (status string, err error) {
	results, err := conn.Exec(ctx, "ROLLBACK"+xactEnd(xid)).ReadAll()
	if err != nil {
		return "", err
	}
	for _, r := range results {
		for _, row := range r.Rows {
			status = string(row[0])
		}
	}
	return status, nil
}

// abandon closes the connection: the server rolls back what is open as soon as
// it notices, and nobody gets it again.
func (a *attempt) abandon() {
	a.ended = true
	a.s.remember(a.token)
	hangUp(a.conn.Conn())
	_ = a.conn.Conn().Close(context.Background()) // there is nothing left to say
}

// hangUp closes the network connection, also while another goroutine uses it,
// and without waiting for a network that has fallen silent.
func hangUp(conn *pgx.Conn) {
	// Nobody can do anything about an error of closing what is given up.
	_ = conn.PgConn().Conn().Close()
}

// release gives the connection back; the pool destroys one that is broken.
func (a *attempt) release() {
	if !a.ended {
		a.abandon()
	}
	if a.tx != nil {
		a.tx.closeInner()
	}
	a.conn.Release()
}
