package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// TakeDue implements yekbar.HoldingStore. Of several callers each gets what
// the others have not locked.
func (s *Store) TakeDue(ctx context.Context, consumer string, limit int, lease time.Duration) (due []*yekbar.HeldMessage, err error) {
	err = s.own(ctx, func(t *txn) (commit bool, err error) {
		due, err = t.takeDue(consumer, limit, lease)
		return len(due) > 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("sqlstore: parked messages of consumer %q: %w", consumer, err)
	}
	return due, nil
}

func (t *txn) takeDue(consumer string, limit int, lease time.Duration) (due []*yekbar.HeldMessage, err error) {
	d, held := t.store.dialect, t.store.sql.held
	// InnoDB's index goes on with the message's ID, where the others sort by
	// position: a sort would read, and lock, all that is due.
	order := "h.due_at, h.position"
	if d == MariaDB {
		order = "h.due_at"
	}
	text := "SELECT " + d.heldColumns() + ", " + d.micros(d.clock()) + " FROM " + held + " h" +
		" WHERE h.consumer_name = ? AND h.state = 'parked' AND h.due_at <= " + d.clock() +
		" AND (h.ordered = ? OR h.position IN (" + t.store.heads() + "))" +
		" ORDER BY " + order + " LIMIT ?" + d.skipLocked()
	err = t.query(func(rows *sql.Rows) error {
		var now instant
		h, err := scanHeld(rows, &now)
		if err == nil {
			h.Due = now.Add(lease)
			due = append(due, h)
		}
		return err
	}, text, consumer, false, consumer, limit)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	args := []any{t.store.timeValue(due[0].Due), t.store.owner}
	for _, h := range due {
		h.Due = due[0].Due
		args = append(args, h.Position)
	}
	return due, t.exec("UPDATE "+held+" SET due_at = ?, owner = ? WHERE position IN ("+marks(len(due))+")", args...)
}

// isOrdered is a condition that the index of the order answers.
func (d Dialect) isOrdered() string {
	if d == MariaDB {
		return "ordered = 1"
	}
	return "ordered"
}

// heads finds the first message of each key, in one walk through their index:
// a condition on each message would be a search for each that waits.
func (s *Store) heads() string {
	return "SELECT MIN(e.position) FROM " + s.sql.held + " e WHERE e.consumer_name = ? AND e." + s.dialect.isOrdered() + " GROUP BY e.key_hash"
}

// HeldKeys implements yekbar.HoldingStore.
func (s *Store) HeldKeys(ctx context.Context, consumer string) (keys []string, err error) {
	text := "SELECT h.ordering_key FROM " + s.sql.held + " h WHERE h.position IN (" + s.heads() + ")"
	err = s.read(ctx, func(rows *sql.Rows) error {
		var key string
		if err := rows.Scan(encoded{&key}); err != nil {
			return err
		}
		keys = append(keys, key)
		return nil
	}, text, consumer)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: held keys of consumer %q: %w", consumer, err)
	}
	return keys, nil
}

// processName is who leases, for people: the host and the process ID.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return schema.EncodeText(fmt.Sprintf("%s/%d", strings.ToValidUTF8(host[:min(len(host), 200)], ""), os.Getpid()))
}
