package schema

import "github.com/yekbar-go/yekbar"

// ClassifySQLState says what a SQLSTATE of PostgreSQL means: one of
// yekbar.ErrTransient, ErrUnavailable and ErrEnvironment, or nil when the
// error is the message's own. The codes are those of the PostgreSQL manual,
// appendix A.
//
// Two things a code can't say are the store's to add: 55P03 from the claim is
// ErrInFlight, and any error of severity FATAL or PANIC took the connection
// with it (PgBouncer reports its own outages as FATAL 08P01).
func ClassifySQLState(code string) error {
	if class, ok := sqlStates[code]; ok {
		return class
	}
	if len(code) == 5 {
		return sqlStateClasses[code[:2]]
	}
	return nil
}

var sqlStateClasses = map[string]error{
	"08": yekbar.ErrUnavailable, // connection exception
	"28": yekbar.ErrEnvironment, // invalid authorization: password wrong or expired, role may not log in
	"F0": yekbar.ErrEnvironment, // configuration file error
}

var sqlStates = map[string]error{
	"08P01": nil, // protocol_violation: also a wrong number of arguments, which is the handler's

	"25006": yekbar.ErrEnvironment, // read_only_sql_transaction: a standby, or default_transaction_read_only

	"26000": yekbar.ErrEnvironment, // invalid_sql_statement_name: a pooler between us and the server lost a prepared statement
	"42P05": yekbar.ErrEnvironment, // duplicate_prepared_statement: the same

	"3D000": yekbar.ErrEnvironment, // invalid_catalog_name: the database is missing
	"3F000": yekbar.ErrEnvironment, // invalid_schema_name

	"40000": yekbar.ErrTransient, // transaction_rollback
	"40001": yekbar.ErrTransient, // serialization_failure
	"40P01": yekbar.ErrTransient, // deadlock_detected

	"42501": yekbar.ErrEnvironment, // insufficient_privilege
	"42703": yekbar.ErrEnvironment, // undefined_column
	"42704": yekbar.ErrEnvironment, // undefined_object: a type is missing
	"42883": yekbar.ErrEnvironment, // undefined_function
	"42P01": yekbar.ErrEnvironment, // undefined_table

	"53000": yekbar.ErrUnavailable, // insufficient_resources
	"53100": yekbar.ErrEnvironment, // disk_full
	"53200": yekbar.ErrTransient,   // out_of_memory: the server's, or this message's; so it has an end
	"53300": yekbar.ErrUnavailable, // too_many_connections

	"55P03": yekbar.ErrTransient, // lock_not_available

	"57P01": yekbar.ErrUnavailable, // admin_shutdown, pg_terminate_backend
	"57P02": yekbar.ErrUnavailable, // crash_shutdown
	"57P03": yekbar.ErrUnavailable, // cannot_connect_now
	"57P04": yekbar.ErrEnvironment, // database_dropped
	"57P05": yekbar.ErrUnavailable, // idle_session_timeout

	"58000": yekbar.ErrEnvironment, // system_error
	"58030": yekbar.ErrEnvironment, // io_error

	"XX001": yekbar.ErrEnvironment, // data_corrupted
	"XX002": yekbar.ErrEnvironment, // index_corrupted
}

// ClassifyMySQL is ClassifySQLState for the error numbers of MariaDB and
// MySQL, from the manuals' "MariaDB Error Code Reference" and "Server Error
// Message Reference". Number 1205 from the claim is the store's to call
// ErrInFlight.
func ClassifyMySQL(number uint16) error { return mysqlNumbers[number] }

var mysqlNumbers = map[uint16]error{
	1020: yekbar.ErrTransient, // ER_CHECKREAD: record has changed since last read
	1037: yekbar.ErrTransient, // ER_OUTOFMEMORY: the server's, or this message's; so it has an end
	1041: yekbar.ErrTransient, // ER_OUT_OF_RESOURCES: the same
	1205: yekbar.ErrTransient, // ER_LOCK_WAIT_TIMEOUT
	1213: yekbar.ErrTransient, // ER_LOCK_DEADLOCK
	1412: yekbar.ErrTransient, // ER_TABLE_DEF_CHANGED: please retry transaction
	1613: yekbar.ErrTransient, // ER_XA_RBTIMEOUT
	1614: yekbar.ErrTransient, // ER_XA_RBDEADLOCK
	1615: yekbar.ErrTransient, // ER_NEED_REPREPARE
	3572: yekbar.ErrTransient, // MySQL ER_LOCK_NOWAIT

	1040: yekbar.ErrUnavailable, // ER_CON_COUNT_ERROR: too many connections
	1042: yekbar.ErrUnavailable, // ER_BAD_HOST_ERROR: the server can't resolve us
	1047: yekbar.ErrUnavailable, // ER_UNKNOWN_COM_ERROR: what a Galera node that is not ready answers
	1053: yekbar.ErrUnavailable, // ER_SERVER_SHUTDOWN
	1077: yekbar.ErrUnavailable, // ER_NORMAL_SHUTDOWN
	1079: yekbar.ErrUnavailable, // ER_SHUTDOWN_COMPLETE
	1152: yekbar.ErrUnavailable, // ER_ABORTING_CONNECTION
	1158: yekbar.ErrUnavailable, // ER_NET_READ_ERROR
	1159: yekbar.ErrUnavailable, // ER_NET_READ_INTERRUPTED
	1160: yekbar.ErrUnavailable, // ER_NET_ERROR_ON_WRITE
	1161: yekbar.ErrUnavailable, // ER_NET_WRITE_INTERRUPTED
	1184: yekbar.ErrUnavailable, // ER_NEW_ABORTING_CONNECTION
	1203: yekbar.ErrUnavailable, // ER_TOO_MANY_USER_CONNECTIONS
	1226: yekbar.ErrUnavailable, // ER_USER_LIMIT_REACHED
	1927: yekbar.ErrUnavailable, // MariaDB ER_CONNECTION_KILLED
	3169: yekbar.ErrUnavailable, // MySQL ER_SESSION_WAS_KILLED
	4031: yekbar.ErrUnavailable, // MySQL ER_CLIENT_INTERACTION_TIMEOUT

	1021: yekbar.ErrEnvironment, // ER_DISK_FULL
	1026: yekbar.ErrEnvironment, // ER_ERROR_ON_WRITE
	1030: yekbar.ErrEnvironment, // ER_GET_ERRNO: the storage engine's error, such as no space left
	1034: yekbar.ErrEnvironment, // ER_NOT_KEYFILE: index corrupt
	1035: yekbar.ErrEnvironment, // ER_OLD_KEYFILE
	1044: yekbar.ErrEnvironment, // ER_DBACCESS_DENIED_ERROR
	1045: yekbar.ErrEnvironment, // ER_ACCESS_DENIED_ERROR
	1049: yekbar.ErrEnvironment, // ER_BAD_DB_ERROR
	1054: yekbar.ErrEnvironment, // ER_BAD_FIELD_ERROR: unknown column
	1114: yekbar.ErrEnvironment, // ER_RECORD_FILE_FULL
	1129: yekbar.ErrEnvironment, // ER_HOST_IS_BLOCKED
	1130: yekbar.ErrEnvironment, // ER_HOST_NOT_PRIVILEGED
	1142: yekbar.ErrEnvironment, // ER_TABLEACCESS_DENIED_ERROR
	1143: yekbar.ErrEnvironment, // ER_COLUMNACCESS_DENIED_ERROR
	1146: yekbar.ErrEnvironment, // ER_NO_SUCH_TABLE
	1194: yekbar.ErrEnvironment, // ER_CRASHED_ON_USAGE
	1195: yekbar.ErrEnvironment, // ER_CRASHED_ON_REPAIR
	1227: yekbar.ErrEnvironment, // ER_SPECIFIC_ACCESS_DENIED_ERROR
	1251: yekbar.ErrEnvironment, // ER_NOT_SUPPORTED_AUTH_MODE
	1290: yekbar.ErrEnvironment, // ER_OPTION_PREVENTS_STATEMENT: --read-only
	1370: yekbar.ErrEnvironment, // ER_PROCACCESS_DENIED_ERROR
	1524: yekbar.ErrEnvironment, // ER_PLUGIN_IS_NOT_LOADED
	1698: yekbar.ErrEnvironment, // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
	1792: yekbar.ErrEnvironment, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	1820: yekbar.ErrEnvironment, // ER_MUST_CHANGE_PASSWORD
	1836: yekbar.ErrEnvironment, // ER_READ_ONLY_MODE
	1862: yekbar.ErrEnvironment, // ER_MUST_CHANGE_PASSWORD_LOGIN
	1932: yekbar.ErrEnvironment, // MariaDB ER_NO_SUCH_TABLE_IN_ENGINE
	3118: yekbar.ErrEnvironment, // MySQL ER_ACCOUNT_HAS_BEEN_LOCKED
	4151: yekbar.ErrEnvironment, // MariaDB ER_ACCOUNT_HAS_BEEN_LOCKED
}

// ClassifySQLite is ClassifySQLState for SQLite's result codes, primary or
// extended (sqlite.org/rescode.html). SQLite has one code, SQLITE_ERROR, for
// every error in a statement's text, missing tables and columns among them, and
// for functions that fail; it counts as the message's own, unless the store
// finds that SQLite can't compile the text.
func ClassifySQLite(code int) error {
	if class, ok := sqliteCodes[code]; ok {
		return class
	}
	return sqliteCodes[code&0xff]
}

var sqliteCodes = map[int]error{
	3:   yekbar.ErrEnvironment, // SQLITE_PERM
	5:   yekbar.ErrUnavailable, // SQLITE_BUSY: another process writes
	6:   yekbar.ErrTransient,   // SQLITE_LOCKED: another connection of this process, shared cache
	7:   yekbar.ErrTransient,   // SQLITE_NOMEM: the process's, or this message's; so it has an end
	8:   yekbar.ErrEnvironment, // SQLITE_READONLY
	10:  yekbar.ErrEnvironment, // SQLITE_IOERR
	11:  yekbar.ErrEnvironment, // SQLITE_CORRUPT
	13:  yekbar.ErrEnvironment, // SQLITE_FULL
	14:  yekbar.ErrEnvironment, // SQLITE_CANTOPEN
	15:  yekbar.ErrUnavailable, // SQLITE_PROTOCOL: too many readers and writers start at once
	17:  yekbar.ErrTransient,   // SQLITE_SCHEMA: it changed while a statement was prepared
	22:  yekbar.ErrEnvironment, // SQLITE_NOLFS
	23:  yekbar.ErrEnvironment, // SQLITE_AUTH
	26:  yekbar.ErrEnvironment, // SQLITE_NOTADB
	517: yekbar.ErrTransient,   // SQLITE_BUSY_SNAPSHOT: begin again
}
