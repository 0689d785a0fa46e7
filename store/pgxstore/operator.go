package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

type operatorStatements struct {
	lock     string // consumer, ID
	setState string // consumer, ID, state
	replay   string // consumer, ID, whether there is a payload, payload
	makeDue  string // consumer, ID
	audit    string // actor, reason, action, consumer, ID, detail
	log      string // consumer, ID of an entry, limit
	pause    string // consumer, paused, by, reason
	paused   string // consumer
	status   string
	held     string
}

func newOperatorStatements(r *strings.Replacer) operatorStatements {
	return operatorStatements{
		lock:     r.Replace(`SELECT FROM {processed} WHERE consumer_name = $1::text AND message_id = $2::text FOR UPDATE`),
		setState: r.Replace(`UPDATE {processed} SET state = $3::text WHERE consumer_name = $1::text AND message_id = $2::text`),
		replay: r.Replace(`WITH was AS MATERIALIZED (
  SELECT position, payload FROM {held} WHERE consumer_name = $1::text AND message_id = $2::text AND state = 'dead' FOR UPDATE
)
UPDATE {held} h SET state = 'parked', reason = '` + yekbar.ReasonReplayed + `', attempts = 0, errors = '[]', due_at = clock_timestamp(), owner = NULL,
  payload = CASE WHEN $3::boolean THEN $4::bytea ELSE h.payload END
FROM was WHERE h.position = was.position
RETURNING was.payload`),
		makeDue: r.Replace(`UPDATE {held} SET due_at = clock_timestamp(), owner = NULL WHERE consumer_name = $1::text AND message_id = $2::text AND state = 'parked'`),
		audit: r.Replace(`INSERT INTO {audit} (actor, reason, action, consumer_name, message_id, detail)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::bytea)`),
		log: r.Replace(`SELECT id, acted_at, actor, reason, action, consumer_name, message_id, detail FROM {audit}
WHERE ($1::text = '' OR consumer_name = $1::text) AND ($2::bigint = 0 OR id < $2::bigint) ORDER BY id DESC LIMIT $3::integer`),
		pause: r.Replace(`INSERT INTO {consumers} AS c (consumer_name, paused, paused_by, paused_reason, paused_at)
VALUES ($1::text, $2::boolean, $3::text, $4::text, CASE WHEN $2::boolean THEN clock_timestamp() END)
ON CONFLICT (consumer_name) DO UPDATE SET (paused, paused_by, paused_reason, paused_at) =
  (excluded.paused, excluded.paused_by, excluded.paused_reason, excluded.paused_at)`),
		paused: r.Replace(`SELECT paused, paused_by, paused_reason FROM {consumers} WHERE consumer_name = $1::text`),
		// The time of the last claim is in no index, which each claim would have
		// to write: all claims are read.
		status: r.Replace(`WITH claims AS (
  SELECT consumer_name, max(processed_at) FILTER (WHERE state = 'applied') AS last FROM {processed} GROUP BY consumer_name
)
SELECT consumer_name, c.subscription, c.watermark, coalesce(c.paused, false), c.paused_by, c.paused_reason, c.paused_at, claims.last
FROM {consumers} c FULL JOIN claims USING (consumer_name)
WHERE c.renamed_to IS NULL OR claims.consumer_name IS NOT NULL`),
		held: r.Replace(`SELECT consumer_name, reason, state = 'dead', count(*), min(held_at) FROM {held} GROUP BY consumer_name, reason, state`),
	}
}

// Replay implements yekbar.OperatorStore.
func (s *Store) Replay(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
	return s.change(ctx, &yekbar.AuditEntry{Action: "replay", Consumer: consumer, MessageID: messageID, By: by}, func(ctx context.Context, tx pgx.Tx, e *yekbar.AuditEntry) error {
		var old []byte
		err := tx.QueryRow(ctx, s.sql.operator.replay, consumer, messageID, payload != nil, payload).Scan(&old)
		if errors.Is(err, pgx.ErrNoRows) {
			return yekbar.ErrNotHeld
		}
		if err != nil {
			return err
		}
		if payload != nil {
			e.Detail = old
		}
		return queue(ctx, tx, s.sql.operator.setState, consumer, messageID, string(yekbar.StateParked))
	})
}

// MakeDue implements yekbar.OperatorStore.
func (s *Store) MakeDue(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return s.change(ctx, &yekbar.AuditEntry{Action: "due", Consumer: consumer, MessageID: messageID, By: by}, func(ctx context.Context, tx pgx.Tx, _ *yekbar.AuditEntry) error {
		tag, err := tx.Exec(ctx, s.sql.operator.makeDue, consumer, messageID)
		return changed(tag, err, yekbar.ErrNotHeld)
	})
}

// Discard implements yekbar.OperatorStore.
func (s *Store) Discard(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return s.change(ctx, &yekbar.AuditEntry{Action: "discard", Consumer: consumer, MessageID: messageID, By: by}, func(ctx context.Context, tx pgx.Tx, _ *yekbar.AuditEntry) error {
		tag, err := tx.Exec(ctx, s.sql.deleteHeld, consumer, messageID)
		if err := changed(tag, err, yekbar.ErrNotHeld); err != nil {
			return err
		}
		return queue(ctx, tx, s.sql.operator.setState, consumer, messageID, string(yekbar.StateDead))
	})
}

// Forget implements yekbar.OperatorStore.
func (s *Store) Forget(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return s.change(ctx, &yekbar.AuditEntry{Action: "forget", Consumer: consumer, MessageID: messageID, By: by}, func(ctx context.Context, tx pgx.Tx, _ *yekbar.AuditEntry) error {
		tag, err := tx.Exec(ctx, s.sql.deleteClaim, consumer, messageID)
		if err := changed(tag, err, yekbar.ErrNoClaim); err != nil {
			return err
		}
		for _, sql := range []string{s.sql.deleteHeld, s.sql.deleteResult, s.sql.deleteAttempts} {
			if err := queue(ctx, tx, sql, consumer, messageID); err != nil {
				return err
			}
		}
		return nil
	})
}

// changed is the error of a statement that should have changed a row.
func changed(tag pgconn.CommandTag, err, none error) error {
	if err == nil && tag.RowsAffected() == 0 {
		return none
	}
	return err
}

// change makes a change to a message, whose claim it locks, and so waits for an
// attempt in flight; and the entry in the audit log.
func (s *Store) change(ctx context.Context, e *yekbar.AuditEntry, fn func(context.Context, pgx.Tx, *yekbar.AuditEntry) error) error {
	if err := e.By.Validate(); err != nil {
		return err
	}
	err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql.operator.lock, e.Consumer, e.MessageID); err != nil {
			return err
		}
		if err := fn(ctx, tx, e); err != nil {
			return err
		}
		return s.queueAudit(ctx, tx, e)
	})
	if err != nil {
		return fmt.Errorf("pgxstore: %s: message %q of consumer %q: %w", e.Action, e.MessageID, e.Consumer, err)
	}
	return nil
}

func (s *Store) queueAudit(ctx context.Context, tx pgx.Tx, e *yekbar.AuditEntry) error {
	return queue(ctx, tx, s.sql.operator.audit,
		schema.EncodeText(e.By.Name), schema.EncodeText(e.By.Reason), e.Action, e.Consumer, e.MessageID, e.Detail)
}

// Record implements yekbar.OperatorStore.
func (s *Store) Record(ctx context.Context, e yekbar.AuditEntry) error {
	if err := e.By.Validate(); err != nil {
		return err
	}
	err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.queueAudit(ctx, tx, &e) })
	if err != nil {
		return fmt.Errorf("pgxstore: audit log: %w", err)
	}
	return nil
}

// Claim implements yekbar.OperatorStore.
func (s *Store) Claim(ctx context.Context, consumer, messageID string) (yekbar.Claimed, error) {
	c := &claimer{s: s, claims: []yekbar.Claim{{Consumer: consumer, MessageID: messageID}}, claimed: make([]yekbar.Claimed, 1)}
	rows, err := s.pool.Query(ctx, s.sql.fetch, []string{consumer}, []string{messageID})
	if err == nil {
		err = c.readOld([]int{0}, rows)
	}
	if err != nil {
		return yekbar.Claimed{}, statementError(ctx, fmt.Sprintf("claim of message %q of consumer %q", messageID, consumer), err)
	}
	if c.claimed[0].State == "" {
		return yekbar.Claimed{}, fmt.Errorf("pgxstore: message %q of consumer %q: %w", messageID, consumer, yekbar.ErrNoClaim)
	}
	return c.claimed[0], nil
}

// Audit implements yekbar.OperatorStore. It reads pages, and has no connection
// while the caller looks at them.
func (s *Store) Audit(ctx context.Context, f yekbar.AuditFilter) iter.Seq2[*yekbar.AuditEntry, error] {
	page := func(after int64, n int) ([]*yekbar.AuditEntry, error) {
		return all(ctx, s, "audit log", scanAudit, s.sql.operator.log, f.Consumer, after, n)
	}
	return pages(f.After, f.Limit, page, func(e *yekbar.AuditEntry) int64 { return e.ID })
}

func scanAudit(row pgx.CollectableRow) (*yekbar.AuditEntry, error) {
	e := &yekbar.AuditEntry{}
	err := row.Scan(&e.ID, &e.At, (*encoded)(&e.By.Name), (*encoded)(&e.By.Reason), &e.Action, &e.Consumer, &e.MessageID, &e.Detail)
	return e, err
}

// SetPaused implements yekbar.OperatorStore.
func (s *Store) SetPaused(ctx context.Context, consumer string, paused bool, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	e := &yekbar.AuditEntry{Action: "resume", Consumer: consumer, By: by}
	var name, reason *string
	if paused {
		e.Action = "pause"
		n, r := schema.EncodeText(by.Name), schema.EncodeText(by.Reason)
		name, reason = &n, &r
	}
	err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := queue(ctx, tx, s.sql.operator.pause, consumer, paused, name, reason); err != nil {
			return err
		}
		return s.queueAudit(ctx, tx, e)
	})
	if err != nil {
		return fmt.Errorf("pgxstore: %s consumer %q: %w", e.Action, consumer, err)
	}
	return nil
}

// Paused implements yekbar.OperatorStore.
func (s *Store) Paused(ctx context.Context, consumer string) (by yekbar.Actor, paused bool, err error) {
	scan := func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(&paused, (*encoded)(&by.Name), (*encoded)(&by.Reason))
	}
	_, err = all(ctx, s, fmt.Sprintf("whether consumer %q is paused", consumer), scan, s.sql.operator.paused, consumer)
	if err != nil {
		return yekbar.Actor{}, false, err
	}
	return by, paused, nil
}

// Consumers implements yekbar.OperatorStore. It reads all claims, which takes
// some seconds for ten million.
func (s *Store) Consumers(ctx context.Context) ([]yekbar.ConsumerStatus, error) {
	statuses := map[string]*yekbar.ConsumerStatus{}
	of := func(name string) *yekbar.ConsumerStatus {
		if statuses[name] == nil {
			statuses[name] = &yekbar.ConsumerStatus{Name: name, Reasons: map[string]int64{}}
		}
		return statuses[name]
	}
	_, err := all(ctx, s, "consumers", func(row pgx.CollectableRow) (struct{}, error) {
		var st yekbar.ConsumerStatus
		var watermark, pausedAt, last *time.Time
		err := row.Scan(&st.Name, (*encoded)(&st.Subscription), &watermark, &st.Paused, (*encoded)(&st.PausedBy.Name), (*encoded)(&st.PausedBy.Reason), &pausedAt, &last)
		st.Watermark, st.PausedAt, st.LastApplied, st.Reasons = orZero(watermark), orZero(pausedAt), orZero(last), map[string]int64{}
		statuses[st.Name] = &st
		return struct{}{}, err
	}, s.sql.operator.status)
	if err != nil {
		return nil, err
	}
	if err := s.countHeld(ctx, of); err != nil {
		return nil, err
	}
	list := make([]yekbar.ConsumerStatus, 0, len(statuses))
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		list = append(list, *statuses[name])
	}
	return list, nil
}

// CountHeld implements yekbar.HeldCounter.
func (s *Store) CountHeld(ctx context.Context, consumer string) (yekbar.ConsumerStatus, error) {
	c := &yekbar.ConsumerStatus{Name: consumer, Reasons: map[string]int64{}}
	others := &yekbar.ConsumerStatus{Reasons: map[string]int64{}}
	err := s.countHeld(ctx, func(name string) *yekbar.ConsumerStatus {
		if name == consumer {
			return c
		}
		return others
	})
	return *c, err
}

func (s *Store) countHeld(ctx context.Context, of func(string) *yekbar.ConsumerStatus) error {
	_, err := all(ctx, s, "held messages by reason", func(row pgx.CollectableRow) (struct{}, error) {
		var name, reason string
		var dead bool
		var n int64
		var oldest time.Time
		if err := row.Scan(&name, &reason, &dead, &n, &oldest); err != nil {
			return struct{}{}, err
		}
		st := of(name)
		st.Reasons[reason] += n
		switch {
		case dead:
			st.Dead += n
		case st.Parked == 0 || oldest.Before(st.OldestParked):
			st.OldestParked = oldest
			fallthrough
		default:
			st.Parked += n
		}
		return struct{}{}, nil
	}, s.sql.operator.held)
	return err
}
