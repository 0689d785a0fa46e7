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

// heldColumns are the columns of held_messages, the key first.
var heldColumns = []string{
	"consumer_name", "message_id", "state", "reason", "attempts", "errors", "due_at", "held_at", "owner", "topic", "ordering_key",
	"event_id", "event_source", "event_type", "event_subject", "event_time", "headers", "payload", "raw", "fingerprint",
}

// Hold implements yekbar.HoldingStore. It waits for an attempt in flight until
// ctx ends.
func (s *Store) Hold(ctx context.Context, h *yekbar.HeldMessage) (held bool, err error) {
	if h.State != yekbar.StateParked && h.State != yekbar.StateDead {
		return false, fmt.Errorf("pgxstore: hold of message %q of consumer %q: state %q: use parked or dead", h.MessageID, h.Consumer, h.State)
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.sql.hold, holdArgs(h)...)
		if err != nil {
			return err
		}
		if held = tag.RowsAffected() == 1; held {
			return nil
		}
		state := ""
		err = tx.QueryRow(ctx, s.sql.holdState, h.Consumer, h.MessageID).Scan(&state)
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

func holdArgs(h *yekbar.HeldMessage) []any {
	m := &h.Message
	var due, eventTime *string
	if !h.Due.IsZero() {
		t := h.Due.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
		due = &t
	}
	if !m.Time.IsZero() {
		t := m.Time.Format(time.RFC3339Nano)
		eventTime = &t
	}
	return []any{
		h.Consumer, h.MessageID, string(h.State), h.Fingerprint, h.Reason == yekbar.ReasonBoundary,
		h.Reason, h.Attempts, schema.EncodeErrors(h.Errors), due,
		schema.EncodeText(m.Topic), schema.EncodeText(m.OrderingKey), schema.EncodeText(m.ID), schema.EncodeText(m.Source),
		schema.EncodeText(m.Type), schema.EncodeText(m.Subject), eventTime, schema.EncodeHeader(m.Header), m.Payload, h.Raw,
	}
}
