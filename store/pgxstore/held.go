package pgxstore

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// heldRead are the columns that scanHeld reads.
const heldRead = `h.position, h.consumer_name, h.message_id, h.state, h.reason, h.attempts, h.errors, h.due_at, h.held_at,
  h.topic, h.ordering_key, h.ordered, h.event_id, h.event_source, h.event_type, h.event_subject, h.event_time, h.headers, h.payload, h.raw, h.fingerprint`

type heldStatements struct {
	takeDue string // consumer, limit, lease in microseconds, owner
	keys    string // consumer
	list    string // consumer, ID, reason, state, position, limit
}

func newHeldStatements(r *strings.Replacer) heldStatements {
	// The first message of each key, by one probe of the index a key: neither
	// what waits behind them is read, nor can old statistics lead elsewhere.
	const heads = `WITH RECURSIVE heads AS (
  (SELECT key_hash, position, ordering_key, state, due_at FROM {held}
  WHERE consumer_name = $1::text AND ordered ORDER BY key_hash, position LIMIT 1)
  UNION ALL
  SELECT n.* FROM heads CROSS JOIN LATERAL (
    SELECT key_hash, position, ordering_key, state, due_at FROM {held} e
    WHERE e.consumer_name = $1::text AND e.ordered AND e.key_hash > heads.key_hash ORDER BY e.key_hash, e.position LIMIT 1
  ) n
)`
	return heldStatements{
		// statement_timestamp(), for with a volatile clock_timestamp() no
		// index would be searched. Rows that others lock are being leased, or
		// taken over; one that was, is looked at anew.
		takeDue: r.Replace(heads + `, first AS MATERIALIZED (
  SELECT h.position, h.due_at FROM heads JOIN {held} h ON h.position = heads.position
  WHERE heads.state = 'parked' AND heads.due_at <= statement_timestamp() AND h.state = 'parked' AND h.due_at <= statement_timestamp()
  ORDER BY h.due_at, h.position LIMIT $2::integer FOR UPDATE OF h SKIP LOCKED
), free AS MATERIALIZED (
  SELECT h.position, h.due_at FROM {held} h
  WHERE h.consumer_name = $1::text AND h.state = 'parked' AND NOT h.ordered AND h.due_at <= statement_timestamp()
  ORDER BY h.due_at, h.position LIMIT $2::integer FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
  SELECT * FROM first UNION ALL SELECT * FROM free ORDER BY due_at, position LIMIT $2::integer
), taken AS (
  UPDATE {held} t SET due_at = clock_timestamp() + $3::bigint * interval '1 microsecond', owner = $4::text
  FROM due WHERE t.position = due.position
  RETURNING t.*
)
SELECT ` + heldRead + ` FROM taken h JOIN due USING (position) ORDER BY due.due_at, position`),
		keys: r.Replace(heads + ` SELECT ordering_key FROM heads`),
		list: r.Replace(`SELECT ` + heldRead + ` FROM {held} h
WHERE ($1::text = '' OR h.consumer_name = $1::text) AND ($2::text = '' OR h.message_id = $2::text)
  AND ($3::text = '' OR h.reason = $3::text) AND ($4::text = '' OR h.state = $4::text) AND ($5::bigint = 0 OR h.position < $5::bigint)
ORDER BY h.position DESC LIMIT $6::integer`),
	}
}

// TakeDue implements yekbar.HoldingStore.
func (s *Store) TakeDue(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
	if limit <= 0 {
		return nil, nil
	}
	what := fmt.Sprintf("take parked messages of consumer %q", consumer)
	return all(ctx, s, what, scanHeld, s.sql.held.takeDue, consumer, limit, lease.Microseconds(), s.owner)
}

// HeldKeys implements yekbar.HoldingStore.
func (s *Store) HeldKeys(ctx context.Context, consumer string) ([]string, error) {
	what := fmt.Sprintf("held keys of consumer %q", consumer)
	return all(ctx, s, what, scanText, s.sql.held.keys, consumer)
}

// Held implements yekbar.OperatorStore. It reads pages, and has no connection
// while the caller looks at them.
func (s *Store) Held(ctx context.Context, f yekbar.HeldFilter) iter.Seq2[*yekbar.HeldMessage, error] {
	page := func(after int64, n int) ([]*yekbar.HeldMessage, error) {
		return all(ctx, s, "held messages", scanHeld, s.sql.held.list, f.Consumer, f.MessageID, f.Reason, string(f.State), after, n)
	}
	return pages(f.After, f.Limit, page, func(h *yekbar.HeldMessage) int64 { return h.Position })
}

func scanHeld(rows pgx.CollectableRow) (*yekbar.HeldMessage, error) {
	h := &yekbar.HeldMessage{}
	m := &h.Message
	var (
		errs, headers string
		due           *time.Time
		eventTime     *string
	)
	err := rows.Scan(&h.Position, &h.Consumer, &h.MessageID, (*string)(&h.State), &h.Reason, &h.Attempts, &errs, &due, &h.At,
		(*encoded)(&m.Topic), (*encoded)(&m.OrderingKey), &h.Ordered, (*encoded)(&m.ID), (*encoded)(&m.Source), (*encoded)(&m.Type), (*encoded)(&m.Subject),
		&eventTime, &headers, &m.Payload, &h.Raw, &h.Fingerprint)
	if err != nil {
		return nil, err
	}
	h.Due = orZero(due)
	if h.Errors, err = schema.DecodeErrors(errs); err != nil {
		return nil, fmt.Errorf("message %q: %w", h.MessageID, err)
	}
	if m.Header, err = schema.DecodeHeader(headers); err != nil {
		return nil, fmt.Errorf("message %q: %w", h.MessageID, err)
	}
	if eventTime != nil {
		if m.Time, err = time.Parse(time.RFC3339Nano, *eventTime); err != nil {
			return nil, fmt.Errorf("message %q: event_time: %w", h.MessageID, err)
		}
	}
	return h, nil
}

// processName is the owner of this process's leases, for people to see.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return schema.EncodeText(fmt.Sprintf("%s/%d", host[:min(len(host), 200)], os.Getpid()))
}
