package pgxstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// Migrate implements yekbar.Migrator. It needs the right to create a schema
// only where there is none yet. Tables that are newer are left alone, and an
// error when this release can't use them.
func (s *Store) Migrate(ctx context.Context) error {
	have, minCompatible, err := s.version(ctx, s.pool)
	if err != nil {
		return err
	}
	if have >= schema.Version {
		return schema.CheckVersion(have, minCompatible)
	}
	return s.migrate(ctx, func(have, minCompatible int) (int, error) {
		if have >= schema.Version { // somebody was faster
			return have, schema.CheckVersion(have, minCompatible)
		}
		return schema.Version, nil
	})
}

// MigrateTo implements yekbar.Migrator.
func (s *Store) MigrateTo(ctx context.Context, version int) error {
	if version < 0 || version > schema.Version {
		return fmt.Errorf("pgxstore: schema version %d is unknown: this release knows 0 (no tables) to %d", version, schema.Version)
	}
	return s.migrate(ctx, func(have, minCompatible int) (int, error) {
		if have > schema.Version {
			return 0, fmt.Errorf("%w: they are at version %d, and this release knows how to leave %d at most: use the newer one", yekbar.ErrSchema, have, schema.Version)
		}
		return version, nil
	})
}

// MigrationSQL implements yekbar.Migrator.
func (s *Store) MigrationSQL(from, to int) (string, error) {
	return schema.SQL(schema.PostgreSQL, s.names, from, to)
}

// SchemaVersion implements yekbar.Migrator.
func (s *Store) SchemaVersion(ctx context.Context) (have, want int, err error) {
	have, _, err = s.version(ctx, s.pool)
	return have, schema.Version, err
}

// migrate leads from the version that is there to the one that to returns, in
// one transaction, one process at a time.
func (s *Store) migrate(ctx context.Context, to func(have, minCompatible int) (int, error)) error {
	// Read committed: the version is read after the wait for the lock.
	err := s.inTx(ctx, pgx.ReadCommitted, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, s.names.SchemaName()); err != nil {
			return err
		}
		have, minCompatible, err := s.version(ctx, tx)
		if err != nil {
			return err
		}
		want, err := to(have, minCompatible)
		if err != nil {
			return err
		}
		if want == have {
			return nil
		}
		stmts, err := schema.Statements(schema.PostgreSQL, s.names, have, want)
		if err != nil {
			return err
		}
		for _, stmt := range stmts {
			// The simple protocol leaves no prepared statement behind.
			if _, err := tx.Exec(ctx, stmt, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pgxstore: migrate schema %q: %w", s.names.SchemaName(), err)
	}
	return nil
}

// version returns the tables' version, 0 when there are none.
func (s *Store) version(ctx context.Context, q querier) (have, minCompatible int, err error) {
	var n int
	if err := q.QueryRow(ctx, isTable, s.names.SchemaName(), schema.SchemaVersion).Scan(&n); err != nil {
		return 0, 0, statementError(ctx, "look for the tables", err)
	}
	if n == 0 {
		return 0, 0, nil
	}
	err = q.QueryRow(ctx, s.sql.version).Scan(&have, &minCompatible)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, fmt.Errorf("%w: %s is empty: put back its row, or drop the tables and run yekbar migrate",
			yekbar.ErrSchema, s.names.Table(schema.PostgreSQL, schema.SchemaVersion))
	}
	return have, minCompatible, statementError(ctx, "read the tables' version", err)
}
