package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/yekbar-go/yekbar/store/schema"
)

// savedAtOnce is how many positions one statement saves.
const savedAtOnce = 200

// SavePositions implements yekbar.PositionStore.
func (s *Store) SavePositions(ctx context.Context, consumer string, positions map[string]string) error {
	if len(positions) == 0 {
		return nil
	}
	err := s.own(ctx, func(t *txn) (commit bool, err error) {
		// All lock in the same order.
		for some := range slices.Chunk(slices.Sorted(maps.Keys(positions)), savedAtOnce) {
			if err := t.savePositions(consumer, some, positions); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("sqlstore: positions of consumer %q are not saved: %w", consumer, err)
	}
	return nil
}

func (t *txn) savePositions(consumer string, partitions []string, positions map[string]string) error {
	var args []any
	for _, p := range partitions {
		args = append(args, consumer, schema.EncodeText(p), schema.EncodeText(positions[p]))
	}
	text := "INSERT INTO " + t.store.table(schema.Positions) + " (consumer_name, partition_name, position) VALUES " +
		strings.TrimSuffix(strings.Repeat("(?, ?, ?), ", len(partitions)), ", ")
	if t.store.dialect == MariaDB {
		text += " ON DUPLICATE KEY UPDATE position = VALUES(position), "
	} else {
		text += " ON CONFLICT (consumer_name, partition_name) DO UPDATE SET position = excluded.position, "
	}
	return t.exec(text+"saved_at = "+t.store.dialect.now(), args...)
}

// Positions implements yekbar.PositionStore.
func (s *Store) Positions(ctx context.Context, consumer string) (map[string]string, error) {
	positions := make(map[string]string)
	err := s.read(ctx, func(rows *sql.Rows) error {
		var partition, position string
		err := rows.Scan(encoded{&partition}, encoded{&position})
		positions[partition] = position
		return err
	}, "SELECT partition_name, position FROM "+s.table(schema.Positions)+ofConsumer, consumer)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: positions of consumer %q: %w", consumer, err)
	}
	return positions, nil
}
