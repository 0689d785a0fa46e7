package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// Hold implements yekbar.HoldingStore.
func (s *Store) Hold(ctx context.Context, h *yekbar.HeldMessage) (held bool, err error) {
	if h.State != yekbar.StateParked && h.State != yekbar.StateDead {
		return false, fmt.Errorf("sqlstore: Hold: the state is %q; use %q or %q", h.State, yekbar.StateParked, yekbar.StateDead)
	}
	claim := yekbar.Claim{Consumer: h.Consumer, MessageID: h.MessageID, Fingerprint: h.Fingerprint, Wait: defaultWait}
	err = s.inTx(ctx, claim.Wait, func(t *txn) (commit bool, err error) {
		claimed, err := t.claim([]yekbar.Claim{claim}, h.State)
		if err != nil {
			return false, err
		}
		now := claimed[0].State
		if !claimed[0].Fresh {
			if now, err = t.lockState(h); err != nil {
				return false, err
			}
		}
		switch {
		case claimed[0].Fresh:
		case now == yekbar.StateDead:
			held = true
			return false, nil
		case now == yekbar.StateApplied && h.Reason != yekbar.ReasonBoundary:
			return false, nil
		default:
			if err := t.replaceHeld(h); err != nil {
				return false, err
			}
		}
		held = true
		if err := t.writeHeld(h); err != nil {
			return false, err
		}
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("sqlstore: message %q of consumer %q is not held: %w", h.MessageID, h.Consumer, err)
	}
	return held, nil
}

// exec executes one of the store's own statements, its placeholders written
// as ?.
func (t *txn) exec(text string, args ...any) error {
	_, err := t.tx.ExecContext(private(t.ctx), t.store.rebind(text), args...)
	if err != nil {
		return t.store.claimError(t, err)
	}
	return nil
}

// rebind numbers the placeholders for PostgreSQL.
func (s *Store) rebind(text string) string {
	if s.dialect != PostgreSQL {
		return text
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		fmt.Fprintf(&b, "$%d", n)
		text = after
	}
}

// lockState reads the state of an old claim and keeps others from changing it.
func (t *txn) lockState(h *yekbar.HeldMessage) (state yekbar.State, err error) {
	lock := " FOR UPDATE"
	if t.store.dialect == SQLite {
		lock = ""
	}
	err = t.tx.QueryRowContext(private(t.ctx), t.store.rebind("SELECT state FROM "+t.store.sql.claims+" WHERE consumer_name = ? AND message_id = ?"+lock),
		h.Consumer, h.MessageID).Scan(&state)
	if err == sql.ErrNoRows {
		return "", errGone
	}
	if err != nil {
		return "", t.store.claimError(t, err)
	}
	return state, nil
}

// replaceHeld makes room for h where a claim stands already.
func (t *txn) replaceHeld(h *yekbar.HeldMessage) error {
	err := t.exec("UPDATE "+t.store.sql.claims+" SET state = ?, fingerprint = ? WHERE consumer_name = ? AND message_id = ?",
		string(h.State), bytesOrNull(h.Fingerprint), h.Consumer, h.MessageID)
	if err != nil {
		return err
	}
	return t.exec("DELETE FROM "+t.store.sql.held+" WHERE consumer_name = ? AND message_id = ?", h.Consumer, h.MessageID)
}

func (t *txn) writeHeld(h *yekbar.HeldMessage) error {
	m := &h.Message
	columns := []struct {
		name  string
		value any
	}{
		{"consumer_name", h.Consumer},
		{"message_id", h.MessageID},
		{"state", string(h.State)},
		{"reason", h.Reason},
		{"attempts", h.Attempts},
		{"errors", schema.EncodeErrors(h.Errors)},
		{"due_at", t.store.timeValue(h.Due)},
		{"topic", schema.EncodeText(m.Topic)},
		{"ordering_key", schema.EncodeText(m.OrderingKey)},
		{"event_id", schema.EncodeText(m.ID)},
		{"event_source", schema.EncodeText(m.Source)},
		{"event_type", schema.EncodeText(m.Type)},
		{"event_subject", schema.EncodeText(m.Subject)},
		{"event_time", eventTime(m.Time)},
		{"headers", schema.EncodeHeader(m.Header)},
		{"payload", bytesOrNull(m.Payload)},
		{"raw", bytesOrNull(h.Raw)},
		{"fingerprint", bytesOrNull(h.Fingerprint)},
	}
	names, marks, args := make([]string, len(columns)), make([]string, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		names[i], marks[i], args[i] = c.name, "?", c.value
	}
	return t.exec("INSERT INTO "+t.store.sql.held+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", args...)
}

func eventTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format(time.RFC3339Nano)
}

// timeValue is a time as the tables keep it, whatever the driver's own ideas
// of time zones are.
func (s *Store) timeValue(t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case s.dialect == MariaDB:
		return t.UTC().Format("2006-01-02 15:04:05.000000")
	case s.dialect == SQLite:
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return t
}
