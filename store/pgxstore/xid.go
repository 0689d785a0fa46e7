package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
)

// A querier is what connections and transactions have in common.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Transaction ids (xid8) travel as text, which every query mode can encode.
func xidString(xid uint64) string { return strconv.FormatUint(xid, 10) }

type xidText struct{ to *uint64 }

// Scan implements sql.Scanner.
func (x *xidText) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("transaction id is a %T", src)
	}
	id, err := strconv.ParseUint(s, 10, 64)
	*x.to = id
	return err
}

// keepOld bounds how many transactions with unknown COMMIT are remembered.
const keepOld = 64

// remember keeps the id of a transaction whose COMMIT is unknown: its backend
// may still hold the claim.
func (s *Store) remember(xid uint64) {
	if xid == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.old) == keepOld {
		s.old = s.old[1:]
	}
	s.old = append(s.old, xid)
}

// endOld ends the backends whose COMMIT is unknown, so that their claims hold
// up nobody. A transaction id names one transaction ever, so it can't be
// another's. It is tried once: the error goes to the attempt that meets the
// claim.
func (s *Store) endOld(ctx context.Context, conn *pgx.Conn) error {
	s.mu.Lock()
	old := slices.Clone(s.old)
	s.mu.Unlock()
	for _, xid := range old {
		// pg_stat_activity has the lower half.
		if _, err := conn.Exec(ctx, endOld, xidString(xid&0xffffffff)); err != nil {
			return err
		}
		s.mu.Lock()
		s.old = slices.DeleteFunc(s.old, func(x uint64) bool { return x == xid })
		s.mu.Unlock()
	}
	return nil
}

// withOld adds to an error that a claim is in flight why an old backend, which
// may be the one that holds it, was not ended.
func withOld(err, oldErr error) error {
	if oldErr == nil || !errors.Is(err, yekbar.ErrInFlight) {
		return err
	}
	return fmt.Errorf("%w (the backend of an earlier COMMIT whose outcome is unknown could not be ended: %w)", err, oldErr)
}
