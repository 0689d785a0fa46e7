package doctor

import (
	"database/sql"
	"strings"
	"time"
)

func (e *examination) mariadb() {
	var version string
	if !e.ask("server", []any{&version}, "SELECT VERSION()") {
		return
	}
	kind := "MySQL"
	if strings.Contains(version, "MariaDB") {
		kind = "MariaDB"
	}
	e.ok("server", "%s %s", kind, version)

	name, isolation := "transaction_isolation", ""
	if kind == "MariaDB" {
		name = "tx_isolation" // until 11.1 the other name is unknown
	}
	if e.ask("isolation", []any{&isolation}, "SELECT VARIABLE_VALUE FROM "+variables(kind)+" WHERE VARIABLE_NAME = ?", name) {
		e.when(isolation == "READ-UNCOMMITTED", "isolation", Warning, "set it to READ-COMMITTED or REPEATABLE-READ",
			"the default is %s; Yekbar's own transactions say theirs", isolation)
	}
	var flush int
	if e.ask("durability", []any{&flush}, "SELECT @@innodb_flush_log_at_trx_commit") {
		e.when(flush != 1, "durability", Warning, "set it to 1: what is acknowledged could be lost", "innodb_flush_log_at_trx_commit is %d", flush)
	}
	e.oldestMariaDB()
	e.sizeMariaDB()
}

func variables(kind string) string {
	if kind == "MariaDB" {
		return "information_schema.GLOBAL_VARIABLES"
	}
	return "performance_schema.global_variables"
}

func (e *examination) oldestMariaDB() {
	var id, seconds int64
	err := e.DB.QueryRowContext(e.ctx, `SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()) FROM information_schema.INNODB_TRX
		WHERE trx_mysql_thread_id <> CONNECTION_ID() ORDER BY trx_started LIMIT 1`).Scan(&id, &seconds)
	open := time.Duration(seconds) * time.Second
	switch {
	case err == sql.ErrNoRows:
		e.ok("transactions", "no other one is open")
	case err != nil:
		e.add("transactions", Warning, "GRANT PROCESS, or ask as another user", "could not be asked: %v", err)
	default:
		e.when(open > oldTransaction, "transactions", Warning, "end it (KILL): its locks may stop a message, and purge can remove nothing that is younger",
			"the oldest is open for %v: connection %d", open, id)
	}
}

func (e *examination) sizeMariaDB() {
	var size, free, rows int64
	// _ and % are patterns in LIKE; a prefix has _ in it.
	prefix := strings.TrimSuffix(e.Names.Bare(e.Dialect, "x"), "x")
	if !e.ask("size", []any{&size, &free, &rows}, `SELECT CAST(COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) AS SIGNED), CAST(COALESCE(SUM(DATA_FREE), 0) AS SIGNED), CAST(COALESCE(SUM(TABLE_ROWS), 0) AS SIGNED)
		FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, ?) = ?`, len(prefix), prefix) {
		return
	}
	e.when(free > 1<<30 && free > size, "size", Warning, "OPTIMIZE TABLE gives it back, at a quiet time", "%s in about %d rows; %s free in them", bytesText(size), rows, bytesText(free))
}
