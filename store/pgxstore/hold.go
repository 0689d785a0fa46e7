package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// Hold implements yekbar.HoldingStore. It waits for an attempt in flight until
// ctx ends.
func (s *Store) Hold(ctx context.Context, h *yekbar.HeldMessage) (held bool, err error) {
	if h.State != yekbar.StateParked && h.State != yekbar.StateDead {
		return false, fmt.Errorf("pgxstore: hold of message %q of consumer %q: state %q: use parked or dead", h.MessageID, h.Consumer, h.State)
	}
	err = s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.sql.hold, h.Consumer, h.MessageID, string(h.State), h.Fingerprint, h.Reason == yekbar.ReasonBoundary)
		if err != nil {
			return err
		}
		if held = tag.RowsAffected() == 1; held {
			return s.queueHeld(ctx, tx, h)
		}
		state := ""
		err = tx.QueryRow(ctx, s.sql.state, h.Consumer, h.MessageID).Scan(&state)
		switch {
		case errors.Is(err, pgx.ErrNoRows) || err == nil && yekbar.State(state) == yekbar.StateParked:
			return fmt.Errorf("%w: the claim changed meanwhile", yekbar.ErrTransient)
		case err != nil:
			return err
		}
		held = yekbar.State(state) == yekbar.StateDead
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("pgxstore: hold of message %q of consumer %q: %w", h.MessageID, h.Consumer, err)
	}
	return held, nil
}

// queueHeld stores the message under its claim. That is locked by now, and what
// is deleted is looked for after the wait for it.
func (s *Store) queueHeld(ctx context.Context, tx pgx.Tx, h *yekbar.HeldMessage) error {
	for _, sql := range []string{s.sql.deleteResult, s.sql.deleteAttempts} {
		if err := queue(ctx, tx, sql, h.Consumer, h.MessageID); err != nil {
			return err
		}
	}
	return queue(ctx, tx, s.sql.holdRow, heldArgs(h)...)
}

// heldColumns are those of held_messages that Hold writes, the key first.
var heldColumns = []string{
	"consumer_name", "message_id", "state", "reason", "attempts", "errors", "due_at", "held_at", "owner",
	"topic", "ordering_key", "ordered", "key_hash",
	"event_id", "event_source", "event_type", "event_subject", "event_time", "headers", "payload", "raw", "fingerprint",
}

// heldValues are their values, from heldArgs. The order of taking over
// (position) is the identity column's.
const heldValues = `$1::text, $2::text, $3::text, $4::text, $5::integer, $6::text,
  CASE WHEN $3::text = 'parked' THEN clock_timestamp() + $7::bigint * interval '1 microsecond' END, clock_timestamp(), NULL::text,
  $8::text, $9::text, $10::boolean, $11::bytea, $12::text, $13::text, $14::text, $15::text, $16::text, $17::text, $18::bytea, $19::bytea, $20::bytea`

func heldArgs(h *yekbar.HeldMessage) []any {
	m := &h.Message
	var eventTime *string
	if !m.Time.IsZero() {
		t := m.Time.Format(time.RFC3339Nano)
		eventTime = &t
	}
	return []any{
		h.Consumer, h.MessageID, string(h.State), h.Reason, h.Attempts, schema.EncodeErrors(h.Errors), h.Delay.Microseconds(),
		schema.EncodeText(m.Topic), schema.EncodeText(m.OrderingKey), h.Ordered, schema.HashKey(m.OrderingKey),
		schema.EncodeText(m.ID), schema.EncodeText(m.Source), schema.EncodeText(m.Type), schema.EncodeText(m.Subject), eventTime,
		schema.EncodeHeader(m.Header), m.Payload, h.Raw, h.Fingerprint,
	}
}
