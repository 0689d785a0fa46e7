package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// MigrationSQL implements yekbar.Migrator.
func (s *Store) MigrationSQL(from, to int) (string, error) {
	return schema.SQL(s.dialect.schema(), s.names, from, to)
}

// Migrate implements yekbar.Migrator.
func (s *Store) Migrate(ctx context.Context) error {
	have, _, err := s.SchemaVersion(ctx)
	if err != nil || have >= schema.Version {
		return err
	}
	return s.migrate(ctx, func(have int) int { return max(have, schema.Version) })
}

// MigrateTo implements yekbar.Migrator.
func (s *Store) MigrateTo(ctx context.Context, version int) error {
	return s.migrate(ctx, func(int) int { return version })
}

// migrationLock is what processes that migrate at once queue for: on
// PostgreSQL the key of an advisory lock.
const migrationLock = 0x79656b626172 // "yekbar"

// migrate runs under a lock of its own. PostgreSQL and SQLite do all of it or
// nothing. MariaDB and MySQL commit after each statement; when one of them
// fails, the tables that are there say what is missing.
func (s *Store) migrate(ctx context.Context, target func(have int) int) error {
	if err := s.Validate(); err != nil {
		return err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return s.connectError(ctx, err)
	}
	defer giveBack(conn)
	if err := s.settings(ctx, conn); err != nil {
		return err
	}
	unlock, err := s.lockMigration(ctx, conn)
	if err != nil {
		return fmt.Errorf("sqlstore: lock for migrating: %w", s.claimError(nil, err))
	}
	err = s.migrateLocked(ctx, conn, target)
	if err2 := unlock(err == nil); err2 != nil {
		// Nobody may get a connection in this state.
		discard(conn)
		err = errors.Join(err, fmt.Errorf("sqlstore: end of the migration: %w", err2))
	}
	return err
}

func (s *Store) migrateLocked(ctx context.Context, conn *sql.Conn, target func(have int) int) error {
	have, _, err := s.version(ctx, conn)
	if err != nil {
		return err
	}
	ss, err := schema.Statements(s.dialect.schema(), s.names, have, target(have))
	if err != nil {
		return err
	}
	for i, text := range ss {
		if _, err := conn.ExecContext(ctx, text); err != nil && !s.brokeOff(err) {
			return fmt.Errorf("sqlstore: migration from version %d to %d, statement %d of %d: %w", have, target(have), i+1, len(ss), with(s.classify(nil, err), err))
		}
	}
	return nil
}

// brokeOff reports that a migration that died halfway had done this statement:
// MariaDB and MySQL keep what it did. Its last one is what says that it is
// whole.
func (s *Store) brokeOff(err error) bool {
	number, ok := mysqlNumber(err)
	return ok && s.dialect == MariaDB && (number == tableExists || number == unknownTable)
}

const (
	tableExists  = 1050 // ER_TABLE_EXISTS_ERROR
	unknownTable = 1051 // ER_BAD_TABLE_ERROR
)

// lockMigration begins a transaction where that is the lock.
func (s *Store) lockMigration(ctx context.Context, conn *sql.Conn) (unlock func(ok bool) error, err error) {
	run := func(ctx context.Context, text string) error {
		_, err := conn.ExecContext(ctx, text)
		return err
	}
	end := func(ok bool) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
		defer cancel()
		if ok {
			return run(ctx, "COMMIT")
		}
		return run(ctx, "ROLLBACK")
	}
	switch s.dialect {
	case PostgreSQL:
		if err := run(ctx, "BEGIN"); err != nil {
			return nil, err
		}
		if err := run(ctx, fmt.Sprintf("SELECT pg_catalog.pg_advisory_xact_lock(%d)", migrationLock)); err != nil {
			return nil, errors.Join(err, end(false))
		}
		return end, nil
	case MariaDB:
		const name = "CONCAT('yekbar ', DATABASE())"
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(LEFT("+name+", 64), 60)").Scan(&got); err != nil {
			return nil, err
		}
		if got.Int64 != 1 {
			return nil, fmt.Errorf("%w: another process has migrated for more than 60 s", yekbar.ErrUnavailable)
		}
		return func(bool) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
			defer cancel()
			return run(ctx, "DO RELEASE_LOCK(LEFT("+name+", 64))")
		}, nil
	}
	err = pollBusy(ctx, 4*defaultWait, func() error {
		return run(ctx, "BEGIN IMMEDIATE")
	})
	return end, err
}

// SchemaVersion implements yekbar.Migrator.
func (s *Store) SchemaVersion(ctx context.Context) (have, want int, err error) {
	if err := s.Validate(); err != nil {
		return 0, schema.Version, err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return 0, schema.Version, s.connectError(ctx, err)
	}
	defer giveBack(conn)
	have, _, err = s.version(ctx, conn)
	return have, schema.Version, err
}

// version reads the schema's version, 0 when there are no tables.
func (s *Store) version(ctx context.Context, conn *sql.Conn) (have, minCompatible int, err error) {
	bare := s.names.Bare(s.dialect.schema(), schema.SchemaVersion)
	text, args := "SELECT COUNT(*) FROM main.sqlite_master WHERE type = 'table' AND name = ?", []any{bare}
	switch s.dialect {
	case PostgreSQL:
		text = "SELECT COUNT(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1 AND n.nspname = $2"
		args = append(args, s.names.SchemaName())
	case MariaDB:
		text = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?"
	}
	var n int
	if err := conn.QueryRowContext(ctx, text, args...).Scan(&n); err != nil {
		return 0, 0, fmt.Errorf("sqlstore: schema version: %w", s.unavailable(ctx, err))
	}
	if n == 0 {
		return 0, 0, nil
	}
	err = conn.QueryRowContext(ctx, "SELECT version, min_compatible FROM "+s.names.Table(s.dialect.schema(), schema.SchemaVersion)).Scan(&have, &minCompatible)
	if errors.Is(err, sql.ErrNoRows) && s.dialect == MariaDB {
		return 0, 0, nil // a migration is under way, or broke off
	}
	if err != nil {
		return 0, 0, fmt.Errorf("sqlstore: schema version: %w", s.claimError(nil, err))
	}
	return have, minCompatible, nil
}

// unavailable is for a query that only an outage, or missing rights, can fail.
func (s *Store) unavailable(ctx context.Context, err error) error {
	err = with(s.classify(nil, err), err)
	return with(ended(ctx), err)
}

// connectError says why there is no connection.
func (s *Store) connectError(ctx context.Context, err error) error {
	return fmt.Errorf("sqlstore: no connection: %w", with(ended(ctx), with(s.classifyConnection(ctx, nil, err), err)))
}

// classifyConnection is classify for what comes before the first claim, of
// which nothing is a message's own: what the server didn't say itself is an
// outage.
func (s *Store) classifyConnection(ctx context.Context, t *txn, err error) error {
	class := s.classify(t, err)
	if _, server := fromServer(err); class == nil && !server && ended(ctx) == nil {
		class = yekbar.ErrUnavailable
	}
	return class
}
