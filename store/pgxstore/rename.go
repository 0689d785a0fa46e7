package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

const (
	moved     = 500 // messages that one transaction gives another consumer's name
	moveTries = 5   // while others claim under the new name
)

// messageTables have rows of a message.
var messageTables = []string{schema.ProcessedMessages, schema.Results, schema.HeldMessages, schema.Attempts}

type renameStatements struct {
	former    string            // name
	lock      string            // former name
	batch     string            // former name, limit
	states    string            // consumer, IDs
	attempts  string            // former name, limit
	both      string            // former name, name, IDs
	positions string            // former name, name
	remove    map[string]string // by table: consumer, IDs
	move      map[string]string // by table: former name, name, IDs
}

func newRenameStatements(r *strings.Replacer, table func(string) string) renameStatements {
	s := renameStatements{
		former:   r.Replace(`SELECT consumer_name FROM {consumers} WHERE renamed_to = $1::text ORDER BY consumer_name`),
		lock:     r.Replace(`SELECT FROM {consumers} WHERE consumer_name = $1::text FOR UPDATE`),
		batch:    r.Replace(`SELECT message_id, state FROM {processed} WHERE consumer_name = $1::text ORDER BY message_id LIMIT $2::integer FOR UPDATE`),
		states:   r.Replace(`SELECT message_id, state FROM {processed} WHERE consumer_name = $1::text AND message_id = ANY ($2::text[]) ORDER BY message_id FOR UPDATE`),
		attempts: r.Replace(`SELECT message_id, '' FROM {attempts} WHERE consumer_name = $1::text ORDER BY message_id LIMIT $2::integer FOR UPDATE`),
		both: r.Replace(`DELETE FROM {attempts} WHERE consumer_name = $1::text
  AND message_id = ANY (ARRAY(SELECT message_id FROM {attempts} WHERE consumer_name = $2::text AND message_id = ANY ($3::text[])))`),
		positions: r.Replace(`WITH gone AS (
  DELETE FROM {positions} WHERE consumer_name = $1::text RETURNING partition_name, position, saved_at
)
INSERT INTO {positions} (consumer_name, partition_name, position, saved_at) SELECT $2::text, partition_name, position, saved_at FROM gone
ON CONFLICT (consumer_name, partition_name) DO NOTHING`),
		remove: map[string]string{},
		move:   map[string]string{},
	}
	for _, t := range messageTables {
		s.remove[t] = `DELETE FROM ` + table(t) + ` WHERE consumer_name = $1::text AND message_id = ANY ($2::text[])`
		s.move[t] = `UPDATE ` + table(t) + ` SET consumer_name = $2::text WHERE consumer_name = $1::text AND message_id = ANY ($3::text[])`
	}
	return s
}

// moveAll moves what is stored under a former name, in batches. The row of the
// former name is the lock of those who do that at once.
func (s *Store) moveAll(ctx context.Context, former, name string) error {
	for _, move := range []func(context.Context, pgx.Tx, string, string) (int, error){s.moveClaims, s.moveAttempts, s.movePositions} {
		for n, tries := 1, 1; n > 0; {
			err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				if _, err = tx.Exec(ctx, s.sql.renames.lock, former); err == nil {
					n, err = move(ctx, tx, former, name)
				}
				return err
			})
			switch {
			case err == nil:
				tries = 1
			case tries == moveTries || !isMoveRace(err):
				return fmt.Errorf("move what is stored for %q: %w", former, err)
			default:
				n, tries = 1, tries+1
			}
		}
	}
	return nil
}

// isMoveRace reports whether a message that was to be moved was claimed under
// the new name meanwhile; or two waited for each other.
func isMoveRace(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.Is(err, yekbar.ErrTransient) || errors.As(err, &pgErr) && pgErr.Code == "23505"
}

// moveClaims moves claims, and what hangs on them. Of a message that both names
// claimed, the applied claim stays, else that of the new name.
func (s *Store) moveClaims(ctx context.Context, tx pgx.Tx, former, name string) (int, error) {
	old, err := states(ctx, tx, s.sql.renames.batch, former, moved)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	ids := make([]string, len(old))
	for i, c := range old {
		ids[i] = c.id
	}
	both, err := states(ctx, tx, s.sql.renames.states, name, ids)
	if err != nil {
		return 0, err
	}
	own := map[string]yekbar.State{}
	for _, c := range both {
		own[c.id] = c.state
	}
	var gives, wins, rest []string // of former: what goes, what takes the other's place, what moves
	for _, c := range old {
		switch state := own[c.id]; {
		case state == "":
			rest = append(rest, c.id)
		case c.state == yekbar.StateApplied && state != yekbar.StateApplied:
			wins, rest = append(wins, c.id), append(rest, c.id)
		default:
			gives = append(gives, c.id)
		}
	}
	if err := s.removeMessages(ctx, tx, former, gives, messageTables...); err != nil {
		return 0, err
	}
	if err := s.removeMessages(ctx, tx, name, wins, messageTables...); err != nil {
		return 0, err
	}
	if err := s.removeMessages(ctx, tx, name, rest, schema.Attempts); err != nil {
		return 0, err
	}
	return len(old), s.moveMessages(ctx, tx, former, name, rest, messageTables...)
}

// moveAttempts moves what is left of attempts: those at messages without a
// claim. Where both names have some, those of the new name stay.
func (s *Store) moveAttempts(ctx context.Context, tx pgx.Tx, former, name string) (int, error) {
	left, err := states(ctx, tx, s.sql.renames.attempts, former, moved)
	if err != nil || len(left) == 0 {
		return 0, err
	}
	ids := make([]string, len(left))
	for i, a := range left {
		ids[i] = a.id
	}
	if err := queue(ctx, tx, s.sql.renames.both, former, name, ids); err != nil {
		return 0, err
	}
	return len(left), s.moveMessages(ctx, tx, former, name, ids, schema.Attempts)
}

// movePositions moves all at once: they are as many as the broker's partitions.
func (s *Store) movePositions(ctx context.Context, tx pgx.Tx, former, name string) (int, error) {
	return 0, queue(ctx, tx, s.sql.renames.positions, former, name)
}

type stateOf struct {
	id    string
	state yekbar.State
}

// states reads and locks rows of messages.
func states(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]stateOf, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c stateOf, err error) {
		err = row.Scan(&c.id, (*string)(&c.state))
		return c, err
	})
}

func (s *Store) removeMessages(ctx context.Context, tx pgx.Tx, consumer string, ids []string, tables ...string) error {
	for _, table := range tables {
		if len(ids) == 0 {
			return nil
		}
		if err := queue(ctx, tx, s.sql.renames.remove[table], consumer, ids); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) moveMessages(ctx context.Context, tx pgx.Tx, former, name string, ids []string, tables ...string) error {
	for _, table := range tables {
		if len(ids) == 0 {
			return nil
		}
		if err := queue(ctx, tx, s.sql.renames.move[table], former, name, ids); err != nil {
			return err
		}
	}
	return nil
}
