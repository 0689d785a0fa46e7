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

// keepOld bounds how many lost transactions are remembered.
const keepOld = 64

// remember keeps the token of a transaction whose connection is lost: its
// backend may still hold the claim.
func (s *Store) remember(token int64) {
	if token == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.old, token) {
		return
	}
	if len(s.old) == keepOld {
		s.old = s.old[1:]
	}
	s.old = append(s.old, token)
}

// endOld ends the backends of lost transactions, so that their claims hold up
// nobody. The error goes to the attempt that meets the claim.
func (s *Store) endOld(ctx context.Context, conn *pgx.Conn) error {
	s.mu.Lock()
	old := slices.Clone(s.old)
	s.mu.Unlock()
	for _, token := range old {
		if _, err := conn.Exec(ctx, endOld, token); err != nil {
			return err
		}
		s.mu.Lock()
		s.old = slices.DeleteFunc(s.old, func(t int64) bool { return t == token })
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
	return fmt.Errorf("%w (the backend of a lost connection could not be ended: %w)", err, oldErr)
}
