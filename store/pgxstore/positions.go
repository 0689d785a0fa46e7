package pgxstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar/store/schema"
)

type positionStatements struct {
	save string // consumer, partitions, positions
	read string // consumer
}

func newPositionStatements(r *strings.Replacer) positionStatements {
	return positionStatements{
		// In order, so that two who save never wait for each other.
		save: r.Replace(`INSERT INTO {positions} (consumer_name, partition_name, position)
SELECT $1::text, p.name, p.position FROM unnest($2::text[], $3::text[]) AS p (name, position) ORDER BY p.name COLLATE "C"
ON CONFLICT (consumer_name, partition_name) DO UPDATE SET position = excluded.position, saved_at = clock_timestamp()`),
		read: r.Replace(`SELECT partition_name, position FROM {positions} WHERE consumer_name = $1::text`),
	}
}

// SavePositions implements yekbar.PositionStore.
func (s *Store) SavePositions(ctx context.Context, consumer string, positions map[string]string) error {
	if len(positions) == 0 {
		return nil
	}
	var names, at []string
	for name, position := range positions {
		names, at = append(names, schema.EncodeText(name)), append(at, schema.EncodeText(position))
	}
	return s.exec(ctx, fmt.Sprintf("save positions of consumer %q", consumer), s.sql.positions.save, consumer, names, at)
}

// Positions implements yekbar.PositionStore.
func (s *Store) Positions(ctx context.Context, consumer string) (map[string]string, error) {
	positions := map[string]string{}
	scan := func(row pgx.CollectableRow) (struct{}, error) {
		var name, position encoded
		err := row.Scan(&name, &position)
		positions[string(name)] = string(position)
		return struct{}{}, err
	}
	_, err := all(ctx, s, fmt.Sprintf("positions of consumer %q", consumer), scan, s.sql.positions.read, consumer)
	if err != nil {
		return nil, err
	}
	return positions, nil
}
