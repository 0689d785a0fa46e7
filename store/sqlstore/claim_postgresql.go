package sqlstore

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/yekbar-go/yekbar"
)

// lockTimeout is a lock_timeout that waits so long, and for 0 not at all: to
// PostgreSQL 0 means for ever.
func lockTimeout(wait time.Duration) string {
	return strconv.FormatInt(max(1, wait.Milliseconds()), 10)
}

// Both statements set lock_timeout for the INSERT alone: cfg is read before
// the first lock is asked for, and the old value is put back when the rows go
// out, at the end. So that costs no round trip, and an error, after which it
// would not be put back, rolls the whole transaction back and the setting with
// it. Where the INSERT waited for a winner, its row is in neither part, for it
// is newer than the statement's snapshot: a second statement reads it.
const cfgPostgreSQL = `WITH cfg AS MATERIALIZED (
  SELECT pg_catalog.current_setting('lock_timeout') AS old, pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true) AS new
)`

// takePostgreSQL claims one message: $2 consumer, $3 ID, $4 fingerprint, $5
// state.
func takePostgreSQL(s statements) string {
	return cfgPostgreSQL + `, ins AS (
  INSERT INTO ` + s.claims + ` AS p (consumer_name, message_id, fingerprint, state)
  SELECT $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.bytea, $5::pg_catalog.text FROM cfg WHERE cfg.new IS NOT NULL
  ON CONFLICT (consumer_name, message_id) DO NOTHING RETURNING p.processed_at
), old AS (
  SELECT p.state, p.fingerprint, p.processed_at, r.result` + s.from() + `
  WHERE p.consumer_name = $2::pg_catalog.text AND p.message_id = $3::pg_catalog.text
)
SELECT q.*, pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text, pg_catalog.set_config('lock_timeout', q.lock_timeout, true)
FROM (
  SELECT ins.processed_at IS NOT NULL, ` + PostgreSQL.micros("COALESCE(ins.processed_at, old.processed_at)") + `,
    old.state, old.fingerprint, old.result, cfg.old AS lock_timeout
  FROM cfg LEFT JOIN ins ON true LEFT JOIN old ON true OFFSET 0
) q`
}

// takeManyPostgreSQL claims many, in the order given: $2 is a JSON array of
// [consumer, ID, fingerprint in hex or null], $3 the state.
func takeManyPostgreSQL(s statements) string {
	return cfgPostgreSQL + `, keys AS MATERIALIZED (
  SELECT j.ord, j.k->>0 AS consumer, j.k->>1 AS id, pg_catalog.decode(j.k->>2, 'hex') AS fingerprint
  FROM pg_catalog.json_array_elements($2::pg_catalog.text::pg_catalog.json) WITH ORDINALITY AS j(k, ord)
), ins AS (
  INSERT INTO ` + s.claims + ` AS p (consumer_name, message_id, fingerprint, state)
  SELECT keys.consumer, keys.id, keys.fingerprint, $3::pg_catalog.text FROM keys, cfg WHERE cfg.new IS NOT NULL ORDER BY keys.ord
  ON CONFLICT (consumer_name, message_id) DO NOTHING RETURNING p.consumer_name, p.message_id, p.processed_at
)
SELECT q.*, pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text, pg_catalog.set_config('lock_timeout', q.lock_timeout, true)
FROM (
  SELECT ins.processed_at IS NOT NULL, ` + PostgreSQL.micros("COALESCE(ins.processed_at, old.processed_at)") + `,
    old.state, old.fingerprint, old.result, cfg.old AS lock_timeout
  FROM cfg CROSS JOIN keys LEFT JOIN ins ON ins.consumer_name = keys.consumer AND ins.message_id = keys.id
  LEFT JOIN LATERAL (
    SELECT p.state, p.fingerprint, p.processed_at, r.result` + s.from() + `
    WHERE p.consumer_name = keys.consumer AND p.message_id = keys.id OFFSET 0
  ) old ON true
  ORDER BY keys.ord
) q`
}

func (c *claiming) postgreSQL(which []int) error {
	n := 0
	rows, err := c.queryPostgreSQL(which)
	err = each(rows, err, func(rows *sql.Rows) error {
		var (
			got           yekbar.Claimed
			at            instant
			state, xid    sql.NullString
			limit, settle string
		)
		if err := rows.Scan(&got.Fresh, &at, &state, &got.Fingerprint, &got.Result, &limit, &xid, &settle); err != nil {
			return err
		}
		if got.At, got.State = at.Time, yekbar.State(state.String); got.Fresh {
			c.xid = xid.String
		}
		if n < len(which) {
			c.claimed[which[n]] = got
		}
		n++
		return nil
	})
	if err != nil {
		return err
	}
	if n != len(which) {
		return errGone
	}
	for _, i := range which {
		if !c.claimed[i].Fresh && c.claimed[i].State == "" {
			if c.claimed[i], err = c.mustLookup(c.claims[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *claiming) queryPostgreSQL(which []int) (*sql.Rows, error) {
	if len(which) == 1 {
		claim := c.claims[which[0]]
		return c.tx.QueryContext(c.ctx, c.sql.take, lockTimeout(c.wait), claim.Consumer, claim.MessageID, bytesOrNull(claim.Fingerprint), string(c.state))
	}
	keys := make([][3]*string, len(which))
	for n, i := range which {
		claim := c.claims[i]
		keys[n] = [3]*string{&claim.Consumer, &claim.MessageID, nil}
		if claim.Fingerprint != nil {
			f := hex.EncodeToString(claim.Fingerprint)
			keys[n][2] = &f
		}
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	return c.tx.QueryContext(c.ctx, c.sql.takeMany, lockTimeout(c.wait), string(text), string(c.state))
}

// each reads all rows of a query.
func each(rows *sql.Rows, err error, row func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// bytesOrNull keeps a nil slice from becoming an empty one in some drivers.
func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
