package pgxstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// keptErrors is how many errors of a message are remembered.
const keptErrors = 10

type attemptStatements struct {
	lock       string // consumer, ID
	fail       string // consumer, ID, errors
	start      string // consumer, ID, microseconds, crashes
	clearStart string // consumer, ID
}

func newAttemptStatements(r *strings.Replacer) attemptStatements {
	return attemptStatements{
		lock: r.Replace(`INSERT INTO {attempts} AS a (consumer_name, message_id) VALUES ($1::text, $2::text)
ON CONFLICT (consumer_name, message_id) DO UPDATE SET changed_at = clock_timestamp()
RETURNING a.failed, a.crashed, a.errors, a.start_until, clock_timestamp()`),
		fail: r.Replace(`UPDATE {attempts} SET failed = failed + 1, errors = $3::text, started_at = NULL, start_until = NULL
WHERE consumer_name = $1::text AND message_id = $2::text`),
		start: r.Replace(`UPDATE {attempts} SET crashed = $4::integer, started_at = clock_timestamp(), start_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE consumer_name = $1::text AND message_id = $2::text`),
		// What says nothing any more goes.
		clearStart: r.Replace(`WITH gone AS (
  DELETE FROM {attempts} WHERE consumer_name = $1::text AND message_id = $2::text AND failed = 0 AND crashed = 0
)
UPDATE {attempts} SET started_at = NULL, start_until = NULL, changed_at = clock_timestamp()
WHERE consumer_name = $1::text AND message_id = $2::text AND (failed > 0 OR crashed > 0)`),
	}
}

// AddFailure implements yekbar.AttemptStore.
func (s *Store) AddFailure(ctx context.Context, consumer, messageID, failure string) (yekbar.Attempts, error) {
	return s.try(ctx, consumer, messageID, func(ctx context.Context, tx pgx.Tx, t *tried) error {
		t.Failed++
		t.Errors = append(t.Errors, failure)
		t.Errors = t.Errors[max(0, len(t.Errors)-keptErrors):]
		return queue(ctx, tx, s.sql.attempts.fail, consumer, messageID, schema.EncodeErrors(t.Errors))
	})
}

// Start implements yekbar.AttemptStore.
func (s *Store) Start(ctx context.Context, consumer, messageID string, within time.Duration) (yekbar.Attempts, error) {
	return s.try(ctx, consumer, messageID, func(ctx context.Context, tx pgx.Tx, t *tried) error {
		switch {
		case t.until == nil:
		case t.until.After(t.now):
			t.Running = true
			return nil
		default:
			t.Crashed++
		}
		return queue(ctx, tx, s.sql.attempts.start, consumer, messageID, within.Microseconds(), t.Crashed)
	})
}

// ClearStart implements yekbar.AttemptStore.
func (s *Store) ClearStart(ctx context.Context, consumer, messageID string) error {
	what := fmt.Sprintf("clear the start of message %q of consumer %q", messageID, consumer)
	return s.exec(ctx, what, s.sql.attempts.clearStart, consumer, messageID)
}

// ClearAttempts implements yekbar.AttemptStore.
func (s *Store) ClearAttempts(ctx context.Context, consumer, messageID string) error {
	what := fmt.Sprintf("clear the attempts at message %q of consumer %q", messageID, consumer)
	return s.exec(ctx, what, s.sql.deleteAttempts, consumer, messageID)
}

// tried is a row of attempts, which is locked.
type tried struct {
	yekbar.Attempts
	until *time.Time // when a start must have ended
	now   time.Time
}

// try changes the row of a message.
func (s *Store) try(ctx context.Context, consumer, messageID string, change func(context.Context, pgx.Tx, *tried) error) (yekbar.Attempts, error) {
	var t tried
	err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var errs string
		err := tx.QueryRow(ctx, s.sql.attempts.lock, consumer, messageID).Scan(&t.Failed, &t.Crashed, &errs, &t.until, &t.now)
		if err != nil {
			return err
		}
		if t.Errors, err = schema.DecodeErrors(errs); err != nil {
			return err
		}
		return change(ctx, tx, &t)
	})
	if err != nil {
		return yekbar.Attempts{}, fmt.Errorf("pgxstore: attempts at message %q of consumer %q: %w", messageID, consumer, err)
	}
	return t.Attempts, nil
}
