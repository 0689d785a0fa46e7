package sqlstore

import (
	"context"
	"fmt"

	"github.com/yekbar-go/yekbar"
)

// AttemptStatements implements yekbar.StatementStore. database/sql has no
// pipeline: each statement is a round trip. MinRows is compared with what the
// driver counts: on MariaDB and MySQL that is changed rows, or, with
// clientFoundRows=true in go-sql-driver's DSN, matched rows.
func (s *Store) AttemptStatements(ctx context.Context, claims []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
	if len(ss) != len(claims) {
		return nil, fmt.Errorf("sqlstore: %d claims, but statements for %d", len(claims), len(ss))
	}
	var claimed []yekbar.Claimed
	err := s.inTx(ctx, waitOf(claims), func(t *txn) (commit bool, err error) {
		if claimed, err = t.claim(claims, yekbar.StateApplied); err != nil {
			return false, err
		}
		fresh := freshOf(claimed)
		for _, i := range fresh {
			if err := t.call(func() error { return t.execute(ss[i]) }); err != nil {
				return false, &yekbar.BatchError{Index: i, Err: err}
			}
		}
		return len(fresh) > 0, nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

func (t *txn) execute(ss []yekbar.Statement) error {
	for i, st := range ss {
		result, err := t.tx.ExecContext(t.ctx, st.SQL, st.Args...)
		if err != nil {
			return fmt.Errorf("statement %d: %w", i, err)
		}
		if st.MinRows <= 0 {
			continue
		}
		n, err := result.RowsAffected()
		if err != nil {
			return fmt.Errorf("statement %d: its rows can't be counted: %w", i, err)
		}
		if n < int64(st.MinRows) {
			return &yekbar.RowsError{Index: i, MinRows: st.MinRows, Rows: int(n)}
		}
	}
	return nil
}
