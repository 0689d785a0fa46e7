package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// Watermark implements yekbar.RetentionStore.
func (s *Store) Watermark(ctx context.Context, consumer string, retention time.Duration) (w yekbar.Window, err error) {
	err = s.own(ctx, func(t *txn) (commit bool, err error) {
		c, err := t.lockConsumer(consumer)
		if err != nil {
			return false, err
		}
		p := c.pruning.Advance(c.now, retention)
		w = yekbar.Window{Watermark: p.Watermark, Now: c.now}
		return true, t.setPruning(consumer, p)
	})
	if err != nil {
		return yekbar.Window{}, fmt.Errorf("sqlstore: watermark of consumer %q: %w", consumer, err)
	}
	return w, nil
}

func (t *txn) setPruning(consumer string, p schema.Pruning) error {
	value := t.store.timeValue
	return t.exec("UPDATE "+t.store.table(schema.Consumers)+
		" SET first_seen = ?, watermark = ?, watermark_called_at = ?, published_watermark = ?, published_at = ?, prunable_watermark = ?"+ofConsumer,
		value(p.FirstSeen), value(p.Watermark), value(p.CalledAt), value(p.Published), value(p.PublishedAt), value(p.Prunable), consumer)
}

const (
	// mostPruned bounds a transaction, and its texts.
	mostPruned = 500
	// lookedAt is how many claims Prune looks at for each that it may delete.
	lookedAt = 10
)

// Prune implements yekbar.RetentionStore. It deletes at most 500 claims in a
// call. The row of the consumer is its lock, for the transaction alone; claims
// that others have locked at the moment are left for the next walk.
func (s *Store) Prune(ctx context.Context, consumer string, limit int) (deleted int, more bool, err error) {
	if limit <= 0 {
		return 0, false, fmt.Errorf("sqlstore: Prune: the limit is %d; use 1 or more", limit)
	}
	err = s.own(ctx, func(t *txn) (commit bool, err error) {
		c, found, err := t.readConsumer(consumer, s.dialect.skipLocked())
		until := c.pruning.Limit(c.now)
		if err != nil || !found || until.IsZero() {
			return false, err
		}
		deleted, more, err = t.prune(consumer, c.pruneAfter, until, min(limit, mostPruned))
		return true, err
	})
	if err != nil {
		return 0, false, fmt.Errorf("sqlstore: prune consumer %q: %w", consumer, err)
	}
	return deleted, more, nil
}

// prune goes on behind the message ID after.
func (t *txn) prune(consumer, after string, until time.Time, limit int) (deleted int, more bool, err error) {
	claims, look := t.store.sql.claims, lookedAt*limit
	var end sql.NullString
	var seen int
	_, err = t.one([]any{&end, &seen}, "SELECT MAX(w.message_id), COUNT(*) FROM (SELECT message_id FROM "+claims+
		ofConsumer+" AND message_id > ? ORDER BY message_id LIMIT ?) w", consumer, after, look)
	if err != nil {
		return 0, false, err
	}
	old, err := t.strings("SELECT message_id FROM "+claims+ofConsumer+" AND message_id > ? AND message_id <= ? AND state = 'applied' AND processed_at < ?"+
		" ORDER BY message_id LIMIT ?"+t.store.dialect.skipLocked(), consumer, after, end.String, t.store.timeValue(until), limit)
	if err != nil {
		return 0, false, err
	}
	if err := t.deleteMessages(consumer, old, schema.ProcessedMessages, schema.Results, schema.Attempts); err != nil {
		return 0, false, err
	}
	switch {
	case len(old) == limit:
		return limit, true, t.pruneAfter(consumer, old[limit-1])
	case seen == look:
		return len(old), true, t.pruneAfter(consumer, end.String)
	}
	return len(old), false, t.pruneAfter(consumer, nil)
}

// pruneAfter remembers how far the walk has come; nil: it begins anew.
func (t *txn) pruneAfter(consumer string, id any) error {
	return t.exec("UPDATE "+t.store.table(schema.Consumers)+" SET prune_after = ?"+ofConsumer, id, consumer)
}

// deleteMessages deletes the rows of messages from tables.
func (t *txn) deleteMessages(consumer string, ids []string, tables ...string) error {
	if len(ids) == 0 {
		return nil
	}
	among, args := t.store.dialect.among(ids)
	for _, table := range tables {
		if err := t.exec("DELETE FROM "+t.store.table(table)+ofConsumer+" AND "+among, append([]any{consumer}, args...)...); err != nil {
			return err
		}
	}
	return nil
}
