package sqlstore

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// writeHeld inserts the row of a held message, at the position it had, if any.
func (t *txn) writeHeld(h *yekbar.HeldMessage, position *int64) error {
	m, d := &h.Message, t.store.dialect
	var names, values []string
	var args []any
	set := func(name, value string, arg ...any) {
		names, values, args = append(names, name), append(values, value), append(args, arg...)
	}
	if position != nil {
		set("position", "?", *position)
	}
	if h.State == yekbar.StateParked {
		set("due_at", d.later(), d.duration(h.Delay))
	}
	if h.Ordered {
		set("key_hash", "?", schema.HashKey(m.OrderingKey))
	}
	for _, c := range []struct {
		name  string
		value any
	}{
		{"consumer_name", h.Consumer},
		{"message_id", h.MessageID},
		{"state", string(h.State)},
		{"reason", h.Reason},
		{"attempts", h.Attempts},
		{"errors", schema.EncodeErrors(h.Errors)},
		{"ordered", h.Ordered},
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
	} {
		set(c.name, "?", c.value)
	}
	return t.exec("INSERT INTO "+t.store.sql.held+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(values, ", ")+")", args...)
}

// eventTime is a producer's time as RFC 3339. What that can't say, a year of
// five digits, is no time of CloudEvents either, and is left out; an offset
// with seconds is.
func eventTime(t time.Time) any {
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.UTC()
	}
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
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

// heldColumns are those that scanHeld reads, of the table h.
func (d Dialect) heldColumns() string {
	return "h.consumer_name, h.message_id, h.state, h.reason, h.attempts, h.errors, h.ordered, h.position, " +
		d.micros("h.held_at") + ", " + d.micros("h.due_at") +
		", h.topic, h.ordering_key, h.event_id, h.event_source, h.event_type, h.event_subject, h.event_time, h.headers, " +
		d.bytes("h.payload") + ", " + d.bytes("h.raw") + ", h.fingerprint"
}

// scanHeld reads heldColumns, and more behind them.
func scanHeld(rows *sql.Rows, more ...any) (*yekbar.HeldMessage, error) {
	var (
		h              yekbar.HeldMessage
		at, due        instant
		errors, header string
		event          sql.NullString
	)
	m := &h.Message
	err := rows.Scan(append([]any{
		&h.Consumer, &h.MessageID, &h.State, &h.Reason, &h.Attempts, &errors, &h.Ordered, &h.Position,
		&at, &due,
		encoded{&m.Topic}, encoded{&m.OrderingKey}, encoded{&m.ID}, encoded{&m.Source}, encoded{&m.Type}, encoded{&m.Subject}, &event, &header, &m.Payload, &h.Raw, &h.Fingerprint,
	}, more...)...)
	if err == nil {
		h.Errors, err = schema.DecodeErrors(errors)
	}
	if err == nil {
		m.Header, err = schema.DecodeHeader(header)
	}
	if err == nil && event.Valid {
		m.Time, err = time.Parse(time.RFC3339Nano, event.String)
	}
	if err != nil {
		return nil, fmt.Errorf("held message %q of consumer %q: %w", h.MessageID, h.Consumer, err)
	}
	h.At, h.Due = at.Time, due.Time
	return &h, nil
}
