package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// keptErrors is how many errors of a message are remembered.
const keptErrors = 10

// AddFailure implements yekbar.AttemptStore.
func (s *Store) AddFailure(ctx context.Context, consumer, messageID, failure string) (a yekbar.Attempts, err error) {
	err = s.attempts(ctx, consumer, messageID, func(t *txn) (commit bool, err error) {
		if a, _, err = t.lockAttempts(consumer, messageID); err != nil {
			return false, err
		}
		a.Failed, a.Running = a.Failed+1, false
		a.Errors = append(a.Errors, failure)
		a.Errors = a.Errors[max(0, len(a.Errors)-keptErrors):]
		return true, t.changeAttempts(consumer, messageID, "failed = ?, errors = ?, started_at = NULL, start_until = NULL", a.Failed, schema.EncodeErrors(a.Errors))
	})
	return a, err
}

// Start implements yekbar.AttemptStore.
func (s *Store) Start(ctx context.Context, consumer, messageID string, within time.Duration) (a yekbar.Attempts, err error) {
	err = s.attempts(ctx, consumer, messageID, func(t *txn) (commit bool, err error) {
		var crashed bool
		if a, crashed, err = t.lockAttempts(consumer, messageID); err != nil || a.Running {
			return false, err
		}
		if crashed {
			a.Crashed++
		}
		d := s.dialect
		return true, t.changeAttempts(consumer, messageID, "crashed = ?, started_at = "+d.now()+", start_until = "+d.later(), a.Crashed, d.duration(within))
	})
	return a, err
}

// ClearStart implements yekbar.AttemptStore.
func (s *Store) ClearStart(ctx context.Context, consumer, messageID string) error {
	return s.attempts(ctx, consumer, messageID, func(t *txn) (commit bool, err error) {
		if err := t.changeAttempts(consumer, messageID, "started_at = NULL, start_until = NULL"); err != nil {
			return false, err
		}
		return true, t.exec("DELETE FROM "+s.table(schema.Attempts)+ofMessage+" AND failed = 0 AND crashed = 0", consumer, messageID)
	})
}

// ClearAttempts implements yekbar.AttemptStore.
func (s *Store) ClearAttempts(ctx context.Context, consumer, messageID string) error {
	return s.attempts(ctx, consumer, messageID, func(t *txn) (commit bool, err error) {
		return true, t.exec("DELETE FROM "+s.table(schema.Attempts)+ofMessage, consumer, messageID)
	})
}

func (s *Store) attempts(ctx context.Context, consumer, messageID string, fn func(*txn) (commit bool, err error)) error {
	if err := s.own(ctx, fn); err != nil {
		return fmt.Errorf("sqlstore: attempts at message %q of consumer %q: %w", messageID, consumer, err)
	}
	return nil
}

// lockAttempts reads a message's row, which it makes and locks. Crashed: a
// start stands there that is past its time.
func (t *txn) lockAttempts(consumer, messageID string) (a yekbar.Attempts, crashed bool, err error) {
	if err := t.ensure(schema.Attempts, []string{"consumer_name", "message_id"}, consumer, messageID); err != nil {
		return a, false, err
	}
	var until, now instant
	var errors string
	d := t.store.dialect
	err = t.query(func(rows *sql.Rows) (err error) {
		if err = rows.Scan(&a.Failed, &a.Crashed, &errors, &until, &now); err == nil {
			a.Errors, err = schema.DecodeErrors(errors)
		}
		return err
	}, "SELECT failed, crashed, errors, "+d.micros("start_until")+", "+d.micros(d.clock())+" FROM "+t.store.table(schema.Attempts)+ofMessage, consumer, messageID)
	a.Running = until.After(now.Time)
	return a, !until.IsZero() && !a.Running, err
}

func (t *txn) changeAttempts(consumer, messageID, set string, args ...any) error {
	return t.exec("UPDATE "+t.store.table(schema.Attempts)+" SET changed_at = "+t.store.dialect.now()+", "+set+ofMessage, append(args, consumer, messageID)...)
}
