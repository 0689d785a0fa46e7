package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
)

// A claimer is the statements of an attempt's claims: one for all new ones, and
// one for each that is taken over from the parked.
type claimer struct {
	s       *Store
	claims  []yekbar.Claim
	claimed []yekbar.Claimed
	parts   []claimPart
	token   int64
	xid     uint64
}

type claimPart struct {
	sql     string
	args    []any
	indices []int // of its claims; row n is indices[n-1]
	parked  bool
}

// newClaimer builds the statements. Idle bounds how long the session may idle
// in the transaction; 0 leaves that to the session.
func (s *Store) newClaimer(claims []yekbar.Claim, idle time.Duration) *claimer {
	c := &claimer{s: s, claims: claims, claimed: make([]yekbar.Claimed, len(claims)), token: rand.Int64()}
	var fresh []int
	for i, cl := range claims {
		if !cl.FromParked {
			fresh = append(fresh, i)
		}
	}
	wait, idleText := milliseconds(longestWait(claims)), milliseconds(idle)
	switch {
	case len(fresh) == 0:
	case len(claims) == 1:
		cl := claims[0]
		c.parts = append(c.parts, claimPart{sql: s.sql.claim, args: []any{cl.Consumer, cl.MessageID, cl.Fingerprint, wait, idleText, c.token}, indices: fresh})
	default:
		consumers, ids := c.keys(fresh)
		fingerprints := make([][]byte, len(fresh))
		for i, at := range fresh {
			fingerprints[i] = claims[at].Fingerprint
		}
		c.parts = append(c.parts, claimPart{sql: s.sql.claimAll, args: []any{consumers, ids, fingerprints, wait, idleText, c.token}, indices: fresh})
	}
	for i, cl := range claims {
		if cl.FromParked {
			c.parts = append(c.parts, claimPart{sql: s.sql.claimParked, args: []any{cl.Consumer, cl.MessageID, wait, idleText, c.token}, indices: []int{i}, parked: true})
		}
	}
	return c
}

func longestWait(claims []yekbar.Claim) time.Duration {
	// lock_timeout 0 would be no bound at all.
	wait := time.Millisecond
	for _, c := range claims {
		wait = max(wait, c.Wait)
	}
	return wait
}

// milliseconds is d as a setting of PostgreSQL takes it.
func milliseconds(d time.Duration) string {
	const longest = 1<<31 - 1
	return strconv.FormatInt(min(d.Milliseconds(), longest), 10)
}

func (c *claimer) keys(indices []int) (consumers, ids []string) {
	for _, i := range indices {
		consumers = append(consumers, c.claims[i].Consumer)
		ids = append(ids, c.claims[i].MessageID)
	}
	return consumers, ids
}

// read takes in the answer to a claim: what is new.
func (c *claimer) read(p claimPart, rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var (
			n            *int64
			at           *time.Time
			xid, setting *string
		)
		if err := rows.Scan(&n, &at, &xid, &setting); err != nil {
			return err
		}
		if n == nil {
			continue
		}
		if *n < 1 || *n > int64(len(p.indices)) || at == nil || xid == nil {
			return fmt.Errorf("the claim was answered with row %d of %d", *n, len(p.indices))
		}
		id, err := strconv.ParseUint(*xid, 10, 64)
		if err != nil {
			return fmt.Errorf("transaction id %q: %w", *xid, err)
		}
		c.xid = id
		c.claimed[p.indices[*n-1]] = yekbar.Claimed{Fresh: true, At: *at}
	}
	return rows.Err()
}

// old returns the claims that are not new.
func (c *claimer) old() []int {
	var is []int
	for i, got := range c.claimed {
		if !got.Fresh {
			is = append(is, i)
		}
	}
	return is
}

// readOld takes in what stands in their place. It is asked for by a statement
// of its own: the claim's snapshot is older than a winner that committed while
// the claim waited for it.
func (c *claimer) readOld(indices []int, rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var (
			n   int64
			got yekbar.Claimed
		)
		if err := rows.Scan(&n, (*string)(&got.State), &got.Fingerprint, &got.Result, &got.At); err != nil {
			return err
		}
		if n < 1 || n > int64(len(indices)) {
			return fmt.Errorf("the look at old claims was answered with row %d of %d", n, len(indices))
		}
		c.claimed[indices[n-1]] = got
	}
	return rows.Err()
}

// look reads the claims that are not new, over an open transaction or none.
func (c *claimer) look(ctx context.Context, q querier, old []int) error {
	consumers, ids := c.keys(old)
	rows, err := q.Query(ctx, c.s.sql.fetch, consumers, ids)
	if err == nil {
		err = c.readOld(old, rows)
	}
	if err != nil {
		return statementError(ctx, "look at old claims", err)
	}
	return c.vanished()
}

// vanished says what to do about a claim that is neither new nor old: it was
// there when it was claimed, and gone when it was looked at; or it was not
// parked, or not there, and is parked now. One that was to be taken over and is
// not there stays without a state.
func (c *claimer) vanished() error {
	for _, i := range c.old() {
		odd := yekbar.State("")
		if c.claims[i].FromParked {
			odd = yekbar.StateParked
		}
		if c.claimed[i].State == odd {
			return fmt.Errorf("%w: pgxstore: the claim of message %q of consumer %q changed while it was claimed", yekbar.ErrTransient, c.claims[i].MessageID, c.claims[i].Consumer)
		}
	}
	return nil
}

// claimError maps the error of a claim statement.
func claimError(ctx context.Context, c []yekbar.Claim, err error) error {
	pgErr := (*pgconn.PgError)(nil)
	// 55P03: lock_timeout. 57014: a statement_timeout of the session's that is
	// shorter. A claim waits for nothing but a copy in flight.
	if ctx.Err() == nil && errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "57014") {
		which := fmt.Sprintf("one of %d messages of consumer %q", len(c), c[0].Consumer)
		if len(c) == 1 {
			which = fmt.Sprintf("message %q of consumer %q", c[0].MessageID, c[0].Consumer)
		}
		return fmt.Errorf("%w: %s, after waiting %v: %w", yekbar.ErrInFlight, which, longestWait(c), err)
	}
	return statementError(ctx, "claim", err)
}
