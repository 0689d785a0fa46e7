package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlscan"
)

// AttemptStatements implements yekbar.StatementStore. One message takes one
// round trip, and a repeat three; several messages take two.
//
// MinRows of a single INSERT, UPDATE or DELETE is checked by the server, which
// needs no RETURNING of its own but evaluates one (with row-level security, the
// policies for SELECT then apply, too). Other statements with MinRows cost a
// round trip more.
func (s *Store) AttemptStatements(ctx context.Context, claims []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
	if len(ss) != len(claims) {
		return nil, fmt.Errorf("pgxstore: %d claims with the statements of %d", len(claims), len(ss))
	}
	if len(claims) == 0 {
		return nil, nil
	}
	all := make([][]queued, len(ss))
	oneTrip := len(claims) == 1 && !claims[0].FromParked
	for i := range ss {
		for j, st := range ss[i] {
			if b, ok := sqlscan.Boundary(schema.PostgreSQL, st.SQL); ok {
				return nil, &yekbar.BoundaryError{What: b.What()}
			}
			q, err := newQueued(j, st)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], q)
			oneTrip = oneTrip && !q.byTag()
		}
	}
	if oneTrip {
		return s.oneTrip(ctx, claims[0], all[0])
	}
	return s.Attempt(ctx, claims, func(_ context.Context, to pgx.Tx, fresh []int) error {
		for _, i := range fresh {
			to.(*tx).queue = append(to.(*tx).queue, all[i]...)
		}
		return nil
	})
}

// byTag reports whether MinRows is checked by us, before COMMIT.
func (q queued) byTag() bool { return q.s.MinRows > 0 && !q.checked }

// oneTrip sends BEGIN, the claim, the statements and COMMIT together. The claim
// is a plain INSERT: with ON CONFLICT a repeat would go on to the statements.
// No guard is needed: the statements were all looked at, and inside BEGIN no
// procedure can end the transaction (2D000).
func (s *Store) oneTrip(ctx context.Context, claim yekbar.Claim, qs []queued) ([]yekbar.Claimed, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, connectError(ctx, err)
	}
	a := &attempt{s: s, conn: conn}
	defer a.release()
	oldErr := s.endOld(ctx, conn.Conn())
	got, err := a.sendAll(ctx, claim, qs)
	if err != nil {
		return nil, withOld(err, oldErr)
	}
	return []yekbar.Claimed{got}, nil
}

func (a *attempt) sendAll(ctx context.Context, claim yekbar.Claim, qs []queued) (yekbar.Claimed, error) {
	if ctx.Err() != nil {
		a.ended = true
		return yekbar.Claimed{}, fmt.Errorf("pgxstore: not begun: %w", ctx.Err())
	}
	claims := []yekbar.Claim{claim}
	c := a.s.newClaimer(claims, 0)
	a.token = c.token
	p := c.parts[0]
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: a.s.config.Isolation, CommitQuery: closeInner})
	b.Queue(a.s.sql.claimPlain, p.args...)
	for _, q := range qs {
		q.queue(b)
	}
	b.Queue("commit")

	// COMMIT is on its way with the rest: when ctx ends, the server is asked to
	// stop, and its answer says whether it did.
	conn := a.conn.Conn()
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	asked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(asked)
		time.AfterFunc(commitTimeout, cancel)
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = conn.PgConn().CancelRequest(ask) // unheard, the bound above ends it
	})
	got, err := a.readTrip(ctx, conn.SendBatch(sending, b), c, qs)
	if !stop() {
		<-asked
		a.abandon() // the request may still be on its way, and must not meet the next transaction
	}
	return got, err
}

// readTrip reads the answers to BEGIN, the claim, the statements and COMMIT.
func (a *attempt) readTrip(ctx context.Context, br pgx.BatchResults, c *claimer, qs []queued) (yekbar.Claimed, error) {
	none := yekbar.Claimed{}
	if _, err := br.Exec(); err != nil {
		return none, a.notCommitted(ctx, br, "BEGIN", err)
	}
	rows, err := br.Query()
	if err == nil {
		err = c.read(c.parts[0], rows)
	}
	a.xid = c.xid
	if err != nil {
		return a.notClaimed(ctx, br, c, err)
	}
	for i, q := range qs {
		if err := q.read(br); err != nil {
			return none, a.notCommitted(ctx, br, fmt.Sprintf("statement %d", i), err)
		}
	}
	return c.claimed[0], a.readCommit(ctx, br)
}

// notClaimed looks at the error of the claim: only our own key, violated by our
// own statement, makes a repeat.
func (a *attempt) notClaimed(ctx context.Context, br pgx.BatchResults, c *claimer, err error) (yekbar.Claimed, error) {
	pgErr := (*pgconn.PgError)(nil)
	if !errors.As(err, &pgErr) || isFatal(pgErr) {
		return yekbar.Claimed{}, a.notCommitted(ctx, br, "claim", err)
	}
	if closeErr := br.Close(); closeErr == nil {
		return yekbar.Claimed{}, errors.Join(a.rollback(ctx), fmt.Errorf("pgxstore: the claim failed, and then nothing did: %w", err))
	}
	if err := a.rollback(ctx); err != nil {
		return yekbar.Claimed{}, err
	}
	if pgErr.Code == "22012" {
		return yekbar.Claimed{}, unfit("the claim of message %q of consumer %q vanished: a trigger or a rule on %s swallows it (Check names it)",
			c.claims[0].MessageID, c.claims[0].Consumer, a.s.names.Table(schema.PostgreSQL, schema.ProcessedMessages))
	}
	if !a.s.isOwnKey(pgErr) {
		return yekbar.Claimed{}, claimError(ctx, c.claims, err)
	}
	if err := c.look(ctx, a.conn, []int{0}); err != nil {
		return yekbar.Claimed{}, err
	}
	return c.claimed[0], nil
}

// isOwnKey reports whether the error names the claim's own key.
func (s *Store) isOwnKey(err *pgconn.PgError) bool {
	return err.Code == "23505" && err.SchemaName == s.names.SchemaName() && err.TableName == schema.ProcessedMessages && err.ConstraintName == claimKey
}

// claimKey is the name of the claim's primary key; Check asks for it.
const claimKey = schema.ProcessedMessages + "_pkey"
