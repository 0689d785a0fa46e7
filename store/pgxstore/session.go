package pgxstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
)

// Bind implements yekbar.Store. Besides the store's own transactions and their
// savepoints it takes any pgx.Tx; a claim that finds a copy in flight, as every
// failed statement does, leaves that in need of a rollback.
func (s *Store) Bind(t pgx.Tx) (yekbar.Session, error) {
	if t == nil {
		return nil, errors.New("pgxstore: Bind: the transaction is nil")
	}
	return &session{s, t}, nil
}

type session struct {
	s  *Store
	tx pgx.Tx
}

func (se *session) Claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	claims := []yekbar.Claim{c}
	cl := se.s.newClaimer(claims, 0)
	p := cl.parts[0]
	rows, err := se.tx.Query(ctx, p.sql, p.args...)
	if err == nil {
		err = cl.read(p, rows)
	}
	if err != nil {
		return yekbar.Claimed{}, claimError(ctx, claims, err)
	}
	if old := cl.old(); len(old) > 0 {
		if _, err := se.tx.Exec(ctx, restore); err != nil {
			return yekbar.Claimed{}, statementError(ctx, "restore lock_timeout", err)
		}
		if err := cl.look(ctx, se.tx, old); err != nil {
			return yekbar.Claimed{}, err
		}
	}
	return cl.claimed[0], nil
}

// SetResult stores a result; in a transaction of the store's it travels with
// COMMIT.
func (se *session) SetResult(ctx context.Context, c yekbar.Claim, result []byte) error {
	if result == nil {
		result = []byte{}
	}
	err := Queue(ctx, se.tx, yekbar.Statement{SQL: se.s.sql.setResult, Args: []any{c.Consumer, c.MessageID, result}})
	return statementError(ctx, "store a result", err)
}
