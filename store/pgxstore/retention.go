package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// lookedAt is how many claims Prune looks at for each that it may delete, and
// leastLookedAt how many at least.
const (
	lookedAt      = 10
	leastLookedAt = 1000
)

type retentionStatements struct {
	advance    string // consumer, and the columns of a schema.Pruning but first_seen
	pruner     string // consumer, lock
	prune      string // consumer, message ID, how many to look at, until, how many to delete
	pruneAfter string // consumer, message ID
}

// pruningRead are the columns that scanPruning reads.
const pruningRead = "c.first_seen, c.watermark, c.watermark_called_at, c.published_watermark, c.published_at, c.prunable_watermark"

func newRetentionStatements(r *strings.Replacer) retentionStatements {
	return retentionStatements{
		advance: r.Replace(`UPDATE {consumers} SET first_seen = $2::timestamptz, watermark = $3::timestamptz, watermark_called_at = $4::timestamptz,
  published_watermark = $5::timestamptz, published_at = $6::timestamptz, prunable_watermark = $7::timestamptz
WHERE consumer_name = $1::text`),
		pruner: r.Replace(`SELECT pg_try_advisory_xact_lock(hashtextextended($2::text, 0)), clock_timestamp(), c.prune_after, ` + pruningRead + `
FROM {consumers} c WHERE c.consumer_name = $1::text`),
		// Arrays, for a join would go by statistics that may be of an empty table.
		prune: r.Replace(`WITH seen AS MATERIALIZED (
  SELECT message_id, state = 'applied' AND processed_at < $4::timestamptz AS ripe FROM {processed}
  WHERE consumer_name = $1::text AND message_id > $2::text ORDER BY message_id LIMIT $3::integer
), picked AS MATERIALIZED (
  SELECT message_id FROM seen WHERE ripe ORDER BY message_id LIMIT $5::integer
), gone AS (
  DELETE FROM {processed} WHERE consumer_name = $1::text AND message_id = ANY (ARRAY(SELECT message_id FROM picked))
    AND state = 'applied' AND processed_at < $4::timestamptz
  RETURNING message_id
), res AS (
  DELETE FROM {results} WHERE consumer_name = $1::text AND message_id = ANY (ARRAY(SELECT message_id FROM gone))
), att AS (
  DELETE FROM {attempts} WHERE consumer_name = $1::text AND message_id = ANY (ARRAY(SELECT message_id FROM gone))
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM picked), (SELECT max(message_id) FROM picked), (SELECT count(*) FROM seen), (SELECT max(message_id) FROM seen)`),
		pruneAfter: r.Replace(`UPDATE {consumers} SET prune_after = $2::text WHERE consumer_name = $1::text`),
	}
}

// Watermark implements yekbar.RetentionStore.
func (s *Store) Watermark(ctx context.Context, consumer string, retention time.Duration) (yekbar.Window, error) {
	var w yekbar.Window
	err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c, err := s.lockConsumer(ctx, tx, consumer)
		if err != nil {
			return err
		}
		p := c.pruning.Advance(c.now, retention)
		w = yekbar.Window{Watermark: p.Watermark, Now: c.now}
		return s.queuePruning(ctx, tx, consumer, p)
	})
	if err != nil {
		return yekbar.Window{}, fmt.Errorf("pgxstore: watermark of consumer %q: %w", consumer, err)
	}
	return w, nil
}

func (s *Store) queuePruning(ctx context.Context, tx pgx.Tx, consumer string, p schema.Pruning) error {
	return queue(ctx, tx, s.sql.retention.advance, consumer, p.FirstSeen,
		orNull(p.Watermark), orNull(p.CalledAt), orNull(p.Published), orNull(p.PublishedAt), orNull(p.Prunable))
}

// Prune implements yekbar.RetentionStore. It walks through the claims in the
// order of their key, and remembers in the database how far it has come. That
// there is one at a time is a lock of its transaction's, which a pooler by
// transaction keeps.
func (s *Store) Prune(ctx context.Context, consumer string, limit int) (deleted int, more bool, err error) {
	if limit <= 0 {
		return 0, false, fmt.Errorf("pgxstore: prune consumer %q: limit %d: use at least 1", consumer, limit)
	}
	err = s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var (
			alone bool
			now   time.Time
			after *string
			p     pruningRow
		)
		lock := "yekbar prune " + s.names.SchemaName() + " " + consumer
		err := tx.QueryRow(ctx, s.sql.retention.pruner, consumer, lock).Scan(append([]any{&alone, &now, &after}, p.columns()...)...)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // nothing was ever published
		}
		if err != nil {
			return err
		}
		until := p.pruning().Limit(now)
		if !alone || until.IsZero() {
			return nil
		}
		deleted, more, err = s.prune(ctx, tx, consumer, after, until, limit)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("pgxstore: prune consumer %q: %w", consumer, err)
	}
	return deleted, more, nil
}

// prune goes on behind the message ID after; nil is the beginning.
func (s *Store) prune(ctx context.Context, tx pgx.Tx, consumer string, after *string, until time.Time, limit int) (deleted int, more bool, err error) {
	var (
		begin           string
		old, seen       int
		lastOld, lastAt *string
	)
	if after != nil {
		begin = *after
	}
	look := max(lookedAt*limit, leastLookedAt)
	err = tx.QueryRow(ctx, s.sql.retention.prune, consumer, begin, look, until, limit).Scan(&deleted, &old, &lastOld, &seen, &lastAt)
	if err != nil {
		return 0, false, err
	}
	switch {
	case old == limit:
		after, more = lastOld, true
	case seen == look:
		after, more = lastAt, true
	default:
		after = nil
	}
	return deleted, more, queue(ctx, tx, s.sql.retention.pruneAfter, consumer, after)
}

// A pruningRow scans a schema.Pruning.
type pruningRow struct {
	firstSeen                                             time.Time
	watermark, calledAt, published, publishedAt, prunable *time.Time
}

func (p *pruningRow) columns() []any {
	return []any{&p.firstSeen, &p.watermark, &p.calledAt, &p.published, &p.publishedAt, &p.prunable}
}

func (p *pruningRow) pruning() schema.Pruning {
	return schema.Pruning{
		FirstSeen: p.firstSeen, Watermark: orZero(p.watermark), CalledAt: orZero(p.calledAt),
		Published: orZero(p.published), PublishedAt: orZero(p.publishedAt), Prunable: orZero(p.prunable),
	}
}
