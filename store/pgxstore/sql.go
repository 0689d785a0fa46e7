package pgxstore

import (
	"strings"

	"github.com/yekbar-go/yekbar/store/schema"
)

// statements are the store's own, with its tables' names.
//
// Every claim first keeps the session's lock_timeout and bounds the wait for a
// copy in flight, and how long the session may idle in the transaction if we
// vanish; it also marks the transaction with a token (an advisory lock of its
// own) by which it is found again if we lose it. Then it claims. Then
// lock_timeout is put back, and the transaction's id comes with each new claim
// and its n.
//
// One claim does all that in the values it inserts, where CASE gives the order
// (section 4.2.14 of the manual), and in what it returns. A repeat returns
// nothing, and leaves lock_timeout to restore. Where there are more, "st" does
// the first part, "ins" reads st so that it comes after, and the last part
// reads both.
type statements struct {
	claim       string // consumer, id, fingerprint, then lock_timeout, idle, token
	claimAll    string // the same as arrays, then the same
	claimPlain  string // as claim, but a repeat is 23505, and a claim that vanished 22012
	claimParked string // consumer, id, then the same
	fetch       string // consumers, ids
	setResult   string // consumer, id, result
	state       string // consumer, id
	version     string

	hold    string // consumer, id, state, fingerprint, whether the boundary broke
	holdRow string // see heldArgs

	deleteClaim, deleteHeld, deleteResult, deleteAttempts string // consumer, id

	held      heldStatements
	attempts  attemptStatements
	operator  operatorStatements
	retention retentionStatements
	registry  registryStatements
	renames   renameStatements
	positions positionStatements
}

const (
	// restore puts back the lock_timeout that a single claim has kept.
	restore = `SELECT set_config('lock_timeout', current_setting('yekbar.lock_timeout'), true)`
	xactID  = `SELECT pg_current_xact_id()::text FROM pg_try_advisory_xact_lock($1::bigint)`
	// guard fails, with division_by_zero, when the transaction is not the one
	// that claimed, or there is none. It comes right before COMMIT.
	guard = `SELECT 1 / coalesce(pg_current_xact_id_if_assigned() = $1::text::xid8, false)::int`
	// A bigint key stands in pg_locks in two halves, with objsubid 1.
	endOld = `SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND pid <> pg_backend_pid() AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = $1::bigint`
	isTable = `SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')`
	lock    = `SELECT pg_advisory_xact_lock(hashtextextended('yekbar migrate ' || $1::text, 0))`
)

func newStatements(n schema.Names) statements {
	table := func(name string) string { return n.Table(schema.PostgreSQL, name) }
	r := strings.NewReplacer(
		"{processed}", table(schema.ProcessedMessages),
		"{results}", table(schema.Results),
		"{held}", table(schema.HeldMessages),
		"{attempts}", table(schema.Attempts),
		"{consumers}", table(schema.Consumers),
		"{positions}", table(schema.Positions),
		"{audit}", table(schema.AuditLog),
		"{version}", table(schema.SchemaVersion),
	)
	settings := func(lockTimeout, idle, token string) string {
		// OFFSET 0 keeps the inner SELECT apart, and so before the outer.
		return `WITH st AS MATERIALIZED (
  SELECT o.lock, set_config('lock_timeout', ` + lockTimeout + `::text, true), pg_try_advisory_xact_lock(` + token + `::bigint),
    CASE WHEN o.idle = '0' AND ` + idle + `::text <> '0' THEN set_config('idle_in_transaction_session_timeout', ` + idle + `::text, true) END
  FROM (SELECT current_setting('lock_timeout') AS lock, current_setting('idle_in_transaction_session_timeout') AS idle OFFSET 0) o
), `
	}
	const (
		insert = `INSERT INTO {processed} (consumer_name, message_id, state, fingerprint)
VALUES ($1::text, $2::text, CASE
  WHEN set_config('yekbar.lock_timeout', current_setting('lock_timeout'), true) IS NULL THEN NULL
  WHEN set_config('lock_timeout', $4::text, true) IS NULL THEN NULL
  WHEN pg_try_advisory_xact_lock($6::bigint) IS NULL THEN NULL
  WHEN $5::text = '0' THEN 'applied'
  WHEN current_setting('idle_in_transaction_session_timeout') <> '0' THEN 'applied'
  WHEN set_config('idle_in_transaction_session_timeout', $5::text, true) IS NULL THEN NULL
  ELSE 'applied' END, $3::bytea)`
		lockBack   = `set_config('lock_timeout', current_setting('yekbar.lock_timeout'), true)`
		onConflict = ` ON CONFLICT (consumer_name, message_id) DO NOTHING`
		answer     = `SELECT ins.n, ins.processed_at, pg_current_xact_id_if_assigned()::text, set_config('lock_timeout', st.lock, true)
FROM st LEFT JOIN ins ON true`
	)
	return statements{
		claim: r.Replace(insert + onConflict + `
RETURNING 1::bigint, processed_at, pg_current_xact_id_if_assigned()::text, ` + lockBack),
		claimPlain: r.Replace(`WITH ins AS (
` + insert + `
RETURNING processed_at
)
SELECT 1::bigint, max(processed_at), pg_current_xact_id_if_assigned()::text, ` + lockBack + `
FROM ins HAVING 1 / count(*) = 1`),
		claimAll: r.Replace(settings("$4", "$5", "$6") + `c AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY AS c (consumer_name, message_id, fingerprint, n)
), new AS (
  INSERT INTO {processed} (consumer_name, message_id, state, fingerprint)
  SELECT c.consumer_name, c.message_id, 'applied', c.fingerprint FROM st, c
  ORDER BY c.consumer_name COLLATE "C", c.message_id COLLATE "C"` + onConflict + `
  RETURNING consumer_name, message_id, processed_at
), ins AS MATERIALIZED (
  SELECT c.n, new.processed_at FROM new JOIN c ON c.consumer_name = new.consumer_name AND c.message_id = new.message_id
)
` + answer),
		claimParked: r.Replace(settings("$3", "$4", "$5") + `ins AS (
  UPDATE {processed} SET state = 'applied', processed_at = clock_timestamp() FROM st
  WHERE consumer_name = $1::text AND message_id = $2::text AND state = 'parked'
  RETURNING 1::bigint AS n, processed_at
), del AS (
  DELETE FROM {held} WHERE consumer_name = $1::text AND message_id = $2::text AND EXISTS (SELECT FROM ins)
)
` + answer),
		// OFFSET 0 keeps the planner from joining the other way round when its
		// statistics are of an empty table.
		fetch: r.Replace(`SELECT c.n, f.state, f.fingerprint, f.result, f.processed_at
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (consumer_name, message_id, n)
CROSS JOIN LATERAL (
  SELECT p.state, p.fingerprint, r.result, p.processed_at
  FROM {processed} p LEFT JOIN {results} r ON r.consumer_name = p.consumer_name AND r.message_id = p.message_id
  WHERE p.consumer_name = c.consumer_name AND p.message_id = c.message_id OFFSET 0
) f`),
		setResult: r.Replace(`INSERT INTO {results} AS r (consumer_name, message_id, result) VALUES ($1, $2, $3)
ON CONFLICT (consumer_name, message_id) DO UPDATE SET result = excluded.result`),
		state:   r.Replace(`SELECT state FROM {processed} WHERE consumer_name = $1 AND message_id = $2`),
		version: r.Replace(`SELECT version, min_compatible FROM {version}`),
		hold: r.Replace(`INSERT INTO {processed} AS p (consumer_name, message_id, state, fingerprint) VALUES ($1::text, $2::text, $3::text, $4::bytea)
ON CONFLICT (consumer_name, message_id) DO UPDATE
SET state = excluded.state, fingerprint = excluded.fingerprint, processed_at = clock_timestamp()
WHERE p.state = 'parked' OR p.state = 'applied' AND $5::boolean`),
		holdRow: r.Replace(`INSERT INTO {held} (` + strings.Join(heldColumns, ", ") + `)
VALUES (` + heldValues + `)
ON CONFLICT (consumer_name, message_id) DO UPDATE SET (` + strings.Join(heldColumns[2:], ", ") + `) =
  (excluded.` + strings.Join(heldColumns[2:], ", excluded.") + `)`),

		deleteClaim:    r.Replace(`DELETE FROM {processed} WHERE consumer_name = $1::text AND message_id = $2::text`),
		deleteHeld:     r.Replace(`DELETE FROM {held} WHERE consumer_name = $1::text AND message_id = $2::text`),
		deleteResult:   r.Replace(`DELETE FROM {results} WHERE consumer_name = $1::text AND message_id = $2::text`),
		deleteAttempts: r.Replace(`DELETE FROM {attempts} WHERE consumer_name = $1::text AND message_id = $2::text`),

		held:      newHeldStatements(r),
		attempts:  newAttemptStatements(r),
		operator:  newOperatorStatements(r),
		retention: newRetentionStatements(r),
		registry:  newRegistryStatements(r),
		renames:   newRenameStatements(r, table),
		positions: newPositionStatements(r),
	}
}

// xactEnd is the rest of a simple query that asks how a transaction ended.
func xactEnd(xid uint64) string {
	if xid == 0 {
		return ""
	}
	return "; SELECT pg_xact_status('" + xidString(xid) + "'::xid8)"
}
