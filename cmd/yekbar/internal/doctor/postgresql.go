package doctor

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

func (e *examination) postgresql() {
	var version, isolation, commit, fsync, fullPages string
	if !e.ask("server", []any{&version, &isolation, &commit, &fsync, &fullPages}, `SELECT current_setting('server_version'), current_setting('default_transaction_isolation'),
		current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')`) {
		return
	}
	e.ok("server", "PostgreSQL %s", version)
	e.when(isolation != "read committed", "isolation", Warning, "expect serialization failures in transactions of your own (ClaimTx), and try them again",
		"default_transaction_isolation is %s; Yekbar's own transactions say theirs", isolation)
	switch {
	case fsync == "off" || fullPages == "off":
		e.add("durability", Problem, "switch both on: a power cut can lose what was acknowledged, or the database", "fsync is %s, full_page_writes is %s", fsync, fullPages)
	default:
		e.when(commit == "off", "durability", Warning, "set synchronous_commit to on for this role or database: what is acknowledged could be lost", "fsync is on, synchronous_commit is %s", commit)
	}
	e.pooler()
	e.oldestPostgreSQL()
	e.sizePostgreSQL()
}

// pooler compares the backend that the driver was told of with the one that
// answers: between them stands a pooler, which makes up the former.
func (e *examination) pooler() {
	conn, err := e.DB.Conn(e.ctx)
	if err != nil {
		e.failed("pooler", err)
		return
	}
	var told uint32
	err = conn.Raw(func(raw any) error {
		c, ok := sqlstore.Unwrap(raw).(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%T is no connection of pgx", raw)
		}
		told = c.Conn().PgConn().PID()
		return nil
	})
	var answers uint32
	if err == nil {
		err = conn.QueryRowContext(e.ctx, "SELECT pg_catalog.pg_backend_pid()").Scan(&answers)
	}
	if cerr := conn.Close(); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		e.failed("pooler", err)
	case told == answers:
		e.ok("pooler", "none: the connection leads to the server itself")
	default:
		e.ok("pooler", "one stands between (PgBouncer or another): pool_mode transaction and session both work; statement doesn't. In pgx use the query mode exec or simple_protocol where prepared statements don't pass")
	}
}

func (e *examination) oldestPostgreSQL() {
	var pid sql.NullInt64
	var age sql.NullFloat64
	var state sql.NullString
	var hidden int
	if !e.ask("transactions", []any{&hidden}, "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend' AND state IS NULL AND query = '<insufficient privilege>'") {
		return
	}
	err := e.DB.QueryRowContext(e.ctx, `SELECT pid, EXTRACT(epoch FROM clock_timestamp() - xact_start)::float8, state FROM pg_catalog.pg_stat_activity
		WHERE xact_start IS NOT NULL AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1`).Scan(&pid, &age, &state)
	if err != nil && err != sql.ErrNoRows {
		e.failed("transactions", err)
		return
	}
	note := ""
	if hidden > 0 {
		note = fmt.Sprintf("; %d sessions of other users can't be seen (GRANT pg_read_all_stats)", hidden)
	}
	open := time.Duration(age.Float64 * float64(time.Second)).Round(time.Second)
	if !pid.Valid {
		e.ok("transactions", "no other one is open%s", note)
		return
	}
	e.when(open > oldTransaction, "transactions", Warning, "end it: VACUUM can remove nothing that is younger, and its locks may stop a message", "the oldest is open for %v: process %d, %s%s", open, pid.Int64, state.String, note)
}

func (e *examination) sizePostgreSQL() {
	var size, live, dead int64
	var vacuumed sql.NullTime
	ok := e.ask("size", []any{&size, &live, &dead, &vacuumed}, `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint,
		max(greatest(last_vacuum, last_autovacuum)) FILTER (WHERE relname = $2) FROM pg_catalog.pg_stat_user_tables WHERE schemaname = $1`, e.Names.SchemaName(), schema.ProcessedMessages)
	if !ok {
		return
	}
	last := "never"
	if vacuumed.Valid {
		last = vacuumed.Time.UTC().Format("2006-01-02 15:04 UTC")
	}
	e.when(dead > 10_000 && dead > live/2, "size", Warning, "see that autovacuum runs (and no old transaction stops it), or VACUUM "+e.Names.Table(e.Dialect, schema.ProcessedMessages),
		"%s in about %d rows, and about %d dead ones; claims last vacuumed: %s", bytesText(size), live, dead, last)
}

// bytesText prints a size.
func bytesText(n int64) string {
	unit := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(unit)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", f, unit[i])
}
