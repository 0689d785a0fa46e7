package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// minVersion is the oldest PostgreSQL with pg_current_xact_id.
const minVersion = 130000

// Check implements yekbar.Checker.
func (s *Store) Check(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return connectError(ctx, err)
	}
	defer conn.Release()
	if err := s.checkServer(ctx, conn); err != nil {
		return err
	}
	if err := s.checkPooler(ctx, conn); err != nil {
		return err
	}
	have, minCompatible, err := s.version(ctx, conn)
	if err != nil {
		return err
	}
	if err := schema.CheckVersion(have, minCompatible); err != nil {
		return fmt.Errorf("pgxstore: schema %q: %w", s.names.SchemaName(), err)
	}
	var errs []error
	for i, check := range []func(context.Context, querier) ([]error, error){s.checkColumns, s.checkKey, s.checkSwallowing, s.checkRights} {
		found, err := check(ctx, conn)
		if err != nil {
			return statementError(ctx, "check", err)
		}
		errs = append(errs, found...)
		if i == 0 && len(found) > 0 {
			break // the others would stumble over a missing table
		}
	}
	return errors.Join(errs...)
}

func environment(format string, args ...any) error {
	return fmt.Errorf("%w: pgxstore: "+format, append([]any{yekbar.ErrEnvironment}, args...)...)
}

// unfit is a table that is not as the migrations made it.
func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: pgxstore: "+format, append([]any{yekbar.ErrSchema}, args...)...)
}

func (s *Store) checkServer(ctx context.Context, q querier) error {
	var (
		version            int
		recovery, readOnly bool
		name               string
	)
	err := q.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
  pg_is_in_recovery(), current_setting('transaction_read_only')::bool`).Scan(&version, &name, &recovery, &readOnly)
	switch {
	case err != nil:
		return statementError(ctx, "check the server", err)
	case version < minVersion:
		return environment("the server is PostgreSQL %s: 13 is the oldest that can be used", name)
	case recovery:
		return environment("the server is a standby, which can't be written: connect to the primary (target_session_attrs=read-write)")
	case readOnly:
		return environment("transactions are read-only: change default_transaction_read_only of the role, the database or the connection string")
	}
	return nil
}

// checkPooler finds a pooler by transaction that does not know prepared
// statements, when the pool uses them: a statement prepared on one server
// connection is then missing on the next, or there already.
func (s *Store) checkPooler(ctx context.Context, conn *pgxpool.Conn) error {
	if s.pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return nil
	}
	first, err := backend(ctx, conn)
	if err != nil {
		return statementError(ctx, "check for a pooler", err)
	}
	if first == int64(conn.Conn().PgConn().PID()) {
		return nil // the server itself
	}
	// A pooler by session gives a server connection to one client only.
	second, ok, err := s.secondBackend(ctx)
	if err != nil || !ok || second != first {
		return err
	}
	names, err := s.preparedNames(ctx, conn)
	if err != nil {
		return statementError(ctx, "check for a pooler", err)
	}
	if slices.Contains(names, probeName) {
		return environment("a pooler by transaction stands in front of the server and does not keep prepared statements, and this pool uses them: %s", poolerAdvice)
	}
	return nil
}

// simple keeps the checks for a pooler from preparing anything.
const simple = pgx.QueryExecModeSimpleProtocol

func backend(ctx context.Context, q querier) (pid int64, err error) {
	err = q.QueryRow(ctx, "SELECT pg_backend_pid()::bigint", simple).Scan(&pid)
	return pid, err
}

// secondBackend asks on another connection; ok is false when there is none to
// be had at once.
func (s *Store) secondBackend(ctx context.Context) (pid int64, ok bool, err error) {
	if s.pool.Config().MaxConns < 2 {
		return 0, false, nil
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := s.pool.Acquire(short)
	if err != nil {
		if ctx.Err() == nil && short.Err() != nil {
			return 0, false, nil // all are busy
		}
		return 0, false, connectError(ctx, err)
	}
	defer conn.Release()
	pid, err = backend(ctx, conn)
	return pid, err == nil, statementError(ctx, "check for a pooler", err)
}

const probeName = "yekbar_probe"

// preparedNames prepares a statement and returns the names that the server
// knows in the same transaction, and so on the same server connection.
func (s *Store) preparedNames(ctx context.Context, conn *pgxpool.Conn) (names []string, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
	if _, err := tx.Prepare(ctx, probeName, "SELECT 1"); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, "SELECT name FROM pg_prepared_statements", simple)
	if err != nil {
		return nil, err
	}
	if names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, err
	}
	return names, conn.Conn().Deallocate(ctx, probeName)
}

// checkColumns compares the columns with those the store writes.
func (s *Store) checkColumns(ctx context.Context, q querier) ([]error, error) {
	want := map[string][]string{
		schema.ProcessedMessages: {"consumer_name", "message_id", "state", "fingerprint", "processed_at"},
		schema.Results:           {"consumer_name", "message_id", "result"},
		schema.HeldMessages:      append([]string{"position"}, heldColumns...),
		schema.Attempts:          {"consumer_name", "message_id", "failed", "crashed", "errors", "started_at", "start_until", "changed_at"},
		schema.Consumers: {
			"consumer_name", "subscription", "first_seen", "renamed_to", "watermark", "watermark_called_at", "published_watermark", "published_at",
			"prunable_watermark", "prune_after", "paused", "paused_by", "paused_reason", "paused_at",
		},
		schema.Positions: {"consumer_name", "partition_name", "position", "saved_at"},
		schema.AuditLog:  {"id", "acted_at", "actor", "reason", "action", "consumer_name", "message_id", "detail"},
	}
	rows, err := q.Query(ctx, `SELECT c.relname::text, a.attname::text, a.atttypid::regtype::text, coalesce(co.collisdeterministic, true)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
WHERE n.nspname = $1`, s.names.SchemaName())
	if err != nil {
		return nil, err
	}
	type column struct {
		Table, Name, Type string
		Deterministic     bool
	}
	cs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		return nil, err
	}
	var errs []error
	for table, names := range want {
		for _, name := range names {
			i := slices.IndexFunc(cs, func(c column) bool { return c.Table == table && c.Name == name })
			if i < 0 {
				errs = append(errs, unfit("table %s has no column %s: run yekbar migrate, or compare with yekbar migrate --print", s.names.Table(schema.PostgreSQL, table), name))
				continue
			}
			if name != "consumer_name" && name != "message_id" && name != "partition_name" {
				continue
			}
			if c := cs[i]; c.Type != "text" && c.Type != "character varying" || !c.Deterministic {
				errs = append(errs, unfit(`table %s: column %s (%s) does not compare byte for byte, so that different IDs would be one: ALTER TABLE %[1]s ALTER COLUMN %[2]s TYPE text COLLATE "C"`,
					s.names.Table(schema.PostgreSQL, table), name, c.Type))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs, nil
}

// checkKey verifies the key that decides.
func (s *Store) checkKey(ctx context.Context, q querier) ([]error, error) {
	var (
		name, persistence string
		columns           []string
		deferrable        bool
	)
	table := s.names.Table(schema.PostgreSQL, schema.ProcessedMessages)
	err := q.QueryRow(ctx, `SELECT k.conname::text, k.condeferrable, c.relpersistence::text,
  array(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS u (attnum, n)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum ORDER BY u.n)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND k.contype = 'p'`, s.names.SchemaName(), schema.ProcessedMessages).Scan(&name, &deferrable, &persistence, &columns)
	mend := "ALTER TABLE " + table + " ADD CONSTRAINT " + claimKey + " PRIMARY KEY (consumer_name, message_id)"
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return []error{unfit("table %s has no primary key, so that nothing keeps a message from being done twice: %s", table, mend)}, nil
	case err != nil:
		return nil, err
	}
	drop := "ALTER TABLE " + table + " DROP CONSTRAINT " + schema.Quote(schema.PostgreSQL, name) + "; " + mend
	var errs []error
	if !slices.Equal(columns, []string{"consumer_name", "message_id"}) {
		errs = append(errs, unfit("the primary key of %s is (%s), not (consumer_name, message_id): %s", table, strings.Join(columns, ", "), drop))
	}
	if persistence != "p" {
		errs = append(errs, unfit("table %s is not logged, so that a crash of the server empties it: ALTER TABLE %[1]s SET LOGGED", table))
	}
	if deferrable {
		errs = append(errs, unfit("the primary key of %s is deferrable, so that a claim would decide nothing before COMMIT: %s", table, drop))
	}
	if name != claimKey {
		errs = append(errs, unfit("the primary key of %s is called %q: ALTER TABLE %[1]s RENAME CONSTRAINT %s TO %s", table, name, schema.Quote(schema.PostgreSQL, name), claimKey))
	}
	return errs, nil
}

// checkSwallowing finds what can make a claim vanish without an error.
func (s *Store) checkSwallowing(ctx context.Context, q querier) ([]error, error) {
	// tgtype: bit 0 row, bit 1 before, bit 2 insert, bit 6 instead (catalog
	// pg_trigger in the manual has the names, trigger.h the bits).
	rows, err := q.Query(ctx, `SELECT 'trigger', t.tgname::text FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 7 = 7
UNION ALL
SELECT 'rule', r.rulename::text FROM pg_catalog.pg_rewrite r
JOIN pg_catalog.pg_class c ON c.oid = r.ev_class JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND r.ev_type IN ('2', '3') AND r.ev_enabled <> 'D'
UNION ALL
SELECT 'policy', p.polname::text FROM pg_catalog.pg_policy p
JOIN pg_catalog.pg_class c ON c.oid = p.polrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND row_security_active(c.oid)`, s.names.SchemaName(), schema.ProcessedMessages)
	if err != nil {
		return nil, err
	}
	type thing struct{ Kind, Name string }
	things, err := pgx.CollectRows(rows, pgx.RowToStructByPos[thing])
	if err != nil {
		return nil, err
	}
	table := s.names.Table(schema.PostgreSQL, schema.ProcessedMessages)
	var errs []error
	for _, t := range things {
		errs = append(errs, unfit("%s %q on %s can swallow or hide a claim: DROP %s %s ON %[3]s (a trigger AFTER INSERT does no harm)",
			t.Kind, t.Name, table, strings.ToUpper(t.Kind), schema.Quote(schema.PostgreSQL, t.Name)))
	}
	return errs, nil
}

func (s *Store) checkRights(ctx context.Context, q querier) ([]error, error) {
	var errs []error
	for _, table := range schema.Tables() {
		if table == schema.SchemaVersion {
			continue // only migrations write it
		}
		name := s.names.Table(schema.PostgreSQL, table)
		rows, err := q.Query(ctx, `SELECT r FROM unnest($2::text[]) AS r WHERE NOT has_table_privilege($1, r)`, name, []string{"SELECT", "INSERT", "UPDATE", "DELETE"})
		if err != nil {
			return nil, err
		}
		missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			errs = append(errs, environment("the role may not %s in %s: GRANT %[1]s ON %[2]s TO it", strings.Join(missing, ", "), name))
		}
	}
	return errs, nil
}
