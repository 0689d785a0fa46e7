package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// How many rows a list reads at once. Between its pages it holds no connection,
// so that who goes through it may act on what it finds.
const (
	heldPage  = 20 // whole messages
	auditPage = 100
)

// Held implements yekbar.OperatorStore. It reads in pages of 20.
func (s *Store) Held(ctx context.Context, f yekbar.HeldFilter) iter.Seq2[*yekbar.HeldMessage, error] {
	return list(f.Limit, heldPage, func(n int) ([]*yekbar.HeldMessage, error) {
		hs, err := s.heldPage(ctx, f, n)
		if err != nil {
			return nil, fmt.Errorf("sqlstore: held messages: %w", err)
		}
		if len(hs) > 0 {
			f.After = hs[len(hs)-1].Position
		}
		return hs, nil
	})
}

func (s *Store) heldPage(ctx context.Context, f yekbar.HeldFilter, n int) (hs []*yekbar.HeldMessage, err error) {
	var w where
	w.equal("h.consumer_name", f.Consumer)
	w.equal("h.message_id", f.MessageID)
	w.equal("h.reason", f.Reason)
	w.equal("h.state", string(f.State))
	w.before("h.position", f.After)
	err = s.read(ctx, func(rows *sql.Rows) error {
		h, err := scanHeld(rows)
		hs = append(hs, h)
		return err
	}, "SELECT "+s.dialect.heldColumns()+" FROM "+s.sql.held+" h"+w.text()+" ORDER BY h.position DESC LIMIT ?", append(w.args, n)...)
	return hs, err
}

// Audit implements yekbar.OperatorStore. It reads in pages of 100.
func (s *Store) Audit(ctx context.Context, f yekbar.AuditFilter) iter.Seq2[*yekbar.AuditEntry, error] {
	return list(f.Limit, auditPage, func(n int) ([]*yekbar.AuditEntry, error) {
		es, err := s.auditPage(ctx, f, n)
		if err != nil {
			return nil, fmt.Errorf("sqlstore: audit log: %w", err)
		}
		if len(es) > 0 {
			f.After = es[len(es)-1].ID
		}
		return es, nil
	})
}

func (s *Store) auditPage(ctx context.Context, f yekbar.AuditFilter, n int) (es []*yekbar.AuditEntry, err error) {
	var w where
	w.equal("consumer_name", f.Consumer)
	w.before("id", f.After)
	err = s.read(ctx, func(rows *sql.Rows) error {
		var e yekbar.AuditEntry
		var at instant
		err := rows.Scan(&e.ID, &at, encoded{&e.By.Name}, encoded{&e.By.Reason}, &e.Action, &e.Consumer, &e.MessageID, &e.Detail)
		e.At = at.Time
		es = append(es, &e)
		return err
	}, "SELECT id, "+s.dialect.micros("acted_at")+", actor, reason, action, consumer_name, message_id, "+s.dialect.bytes("detail")+" FROM "+s.table(schema.AuditLog)+
		w.text()+" ORDER BY id DESC LIMIT ?", append(w.args, n)...)
	return es, err
}

// list yields what next reads, up to limit; 0: all.
func list[T any](limit, page int, next func(n int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for left := limit; ; left -= page {
			n := page
			if limit > 0 {
				n = min(n, left)
			}
			items, err := next(n)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if len(items) < page || limit > 0 && left <= page {
				return
			}
		}
	}
}

// where collects conditions.
type where struct {
	conditions []string
	args       []any
}

// equal demands a value, unless it is "".
func (w *where) equal(column, value string) {
	if value != "" {
		w.conditions, w.args = append(w.conditions, column+" = ?"), append(w.args, value)
	}
}

// before demands a smaller number, unless it is 0.
func (w *where) before(column string, n int64) {
	if n != 0 {
		w.conditions, w.args = append(w.conditions, column+" < ?"), append(w.args, n)
	}
}

func (w *where) text() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// Consumers implements yekbar.OperatorStore. ConsumerStatus.LastApplied reads
// all claims, for they have no index by time.
func (s *Store) Consumers(ctx context.Context) ([]yekbar.ConsumerStatus, error) {
	all := make(map[string]*yekbar.ConsumerStatus)
	of := func(name string) *yekbar.ConsumerStatus {
		if all[name] == nil {
			all[name] = &yekbar.ConsumerStatus{Name: name, Reasons: map[string]int64{}}
		}
		return all[name]
	}
	for _, part := range []func(context.Context, func(string) *yekbar.ConsumerStatus) error{s.registered, s.lastApplied, s.countHeld} {
		if err := part(ctx, of); err != nil {
			return nil, fmt.Errorf("sqlstore: how consumers stand: %w", err)
		}
	}
	var list []yekbar.ConsumerStatus
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list, nil
}

func (s *Store) registered(ctx context.Context, of func(string) *yekbar.ConsumerStatus) error {
	return s.read(ctx, func(rows *sql.Rows) error {
		var c yekbar.ConsumerStatus
		var watermark, at instant
		err := rows.Scan(&c.Name, encoded{&c.Subscription}, &watermark, &c.Paused, encoded{&c.PausedBy.Name}, encoded{&c.PausedBy.Reason}, &at)
		to := of(c.Name)
		to.Subscription, to.Watermark, to.Paused, to.PausedBy, to.PausedAt = c.Subscription, watermark.Time, c.Paused, c.PausedBy, at.Time
		return err
	}, "SELECT consumer_name, subscription, "+s.dialect.micros("watermark")+", paused, paused_by, paused_reason, "+s.dialect.micros("paused_at")+
		" FROM "+s.table(schema.Consumers)+" WHERE renamed_to IS NULL")
}

func (s *Store) lastApplied(ctx context.Context, of func(string) *yekbar.ConsumerStatus) error {
	return s.read(ctx, func(rows *sql.Rows) error {
		var name string
		var at instant
		err := rows.Scan(&name, &at)
		of(name).LastApplied = at.Time
		return err
	}, "SELECT consumer_name, "+s.dialect.micros("MAX(CASE WHEN state = 'applied' THEN processed_at END)")+" FROM "+s.sql.claims+" GROUP BY consumer_name")
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
	if err != nil {
		return yekbar.ConsumerStatus{}, fmt.Errorf("sqlstore: held messages of consumer %q: %w", consumer, err)
	}
	return *c, nil
}

func (s *Store) countHeld(ctx context.Context, of func(string) *yekbar.ConsumerStatus) error {
	return s.read(ctx, func(rows *sql.Rows) error {
		var name, reason string
		var state yekbar.State
		var n int64
		var oldest instant
		if err := rows.Scan(&name, &state, &reason, &n, &oldest); err != nil {
			return err
		}
		c := of(name)
		c.Reasons[reason] += n
		if state == yekbar.StateDead {
			c.Dead += n
			return nil
		}
		if c.Parked += n; c.OldestParked.IsZero() || oldest.Before(c.OldestParked) {
			c.OldestParked = oldest.Time
		}
		return nil
	}, "SELECT consumer_name, state, reason, COUNT(*), "+s.dialect.micros("MIN(held_at)")+" FROM "+s.sql.held+" GROUP BY consumer_name, state, reason")
}
