package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// defaultWait is for transactions without claims.
const defaultWait = 5 * time.Second

// waitOf is the longest wait of the claims.
func waitOf(claims []yekbar.Claim) time.Duration {
	var d time.Duration
	for _, c := range claims {
		d = max(d, c.Wait)
	}
	return d
}

// checkClaims refuses what the tables can't keep apart.
func checkClaims(claims []yekbar.Claim) error {
	for _, c := range claims {
		if err := checkText("consumer", c.Consumer, maxConsumer); err != nil {
			return err
		}
		if err := checkText("message ID", c.MessageID, maxMessageID); err != nil {
			return err
		}
	}
	return nil
}

// What the tables hold, in bytes.
const (
	maxConsumer  = 255
	maxMessageID = 512
)

func checkText(what, s string, longest int) error {
	switch {
	case s == "" || !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("sqlstore: the %s %q is empty, has NUL, or is not UTF-8", what, s)
	case len(s) > longest:
		return fmt.Errorf("sqlstore: the %s %.40q… has %d bytes; the tables hold %d", what, s, len(s), longest)
	}
	return nil
}

// statements are the texts of SQL that don't change.
type statements struct {
	claims, results, held string // tables

	lookup    string // of an old claim
	take      string // PostgreSQL: claims one; SQLite: the same
	takeMany  string // PostgreSQL
	setResult string
	exists    string
}

func newStatements(d Dialect, n schema.Names) statements {
	s := statements{
		claims:  n.Table(d.schema(), schema.ProcessedMessages),
		results: n.Table(d.schema(), schema.Results),
		held:    n.Table(d.schema(), schema.HeldMessages),
	}
	pk := "consumer_name = " + d.placeholder(1) + " AND message_id = " + d.placeholder(2)
	s.exists = "SELECT COUNT(*) FROM " + s.claims + " WHERE " + pk
	s.setResult = "INSERT INTO " + s.results + " (consumer_name, message_id, result) VALUES (" +
		d.placeholder(1) + ", " + d.placeholder(2) + ", " + d.placeholder(3) + ")"
	s.lookup = "SELECT p.state, p.fingerprint, " + d.micros("p.processed_at") + ", " + d.bytes("r.result") + s.from() +
		" WHERE p.consumer_name = " + d.placeholder(1) + " AND p.message_id = " + d.placeholder(2)
	switch d {
	case PostgreSQL:
		s.take, s.takeMany = takePostgreSQL(s), takeManyPostgreSQL(s)
	case SQLite:
		s.take = "INSERT INTO " + s.claims + " (consumer_name, message_id, state, fingerprint) VALUES (?, ?, ?, ?)" +
			" ON CONFLICT (consumer_name, message_id) DO NOTHING RETURNING processed_at"
	}
	return s
}

// from joins the claims, p, and their results, r.
func (s statements) from() string {
	return " FROM " + s.claims + " p LEFT JOIN " + s.results + " r ON r.consumer_name = p.consumer_name AND r.message_id = p.message_id"
}

func (d Dialect) placeholder(n int) string {
	if d == PostgreSQL {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

// micros is a time as microseconds since 1970, which every driver scans alike;
// SQLite's is text.
func (d Dialect) micros(column string) string {
	switch d {
	case PostgreSQL:
		return "(EXTRACT(EPOCH FROM " + column + ") * 1000000)::pg_catalog.int8"
	case MariaDB:
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + column + ")"
	}
	return column
}

// instant scans micros, or SQLite's text.
type instant struct{ time.Time }

// Scan implements sql.Scanner.
func (t *instant) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		t.Time = time.Time{}
		return nil
	case int64:
		t.Time = time.UnixMicro(v).UTC()
		return nil
	case time.Time:
		t.Time = v.UTC()
		return nil
	case []byte:
		return t.parse(string(v))
	case string:
		return t.parse(v)
	}
	return fmt.Errorf("sqlstore: a time came as %T", v)
}

func (t *instant) parse(s string) error {
	if parsed, err := time.Parse(time.RFC3339Nano, s); err == nil {
		t.Time = parsed.UTC()
		return nil
	}
	var micros int64
	if _, err := fmt.Sscan(s, &micros); err != nil {
		return fmt.Errorf("sqlstore: a time came as %q", s)
	}
	t.Time = time.UnixMicro(micros).UTC()
	return nil
}

// claiming writes claims with a state in an open transaction, or reads what
// stands there.
type claiming struct {
	*Store
	ctx     context.Context // marked as private
	tx      *sql.Tx
	claims  []yekbar.Claim
	claimed []yekbar.Claimed // the answers, in order
	state   yekbar.State
	wait    time.Duration // for each lock
	xid     string        // PostgreSQL: the transaction's id, when a claim is fresh
}

// claim writes the claims, in order.
func (s *Store) claim(ctx context.Context, tx *sql.Tx, claims []yekbar.Claim, state yekbar.State) (*claiming, error) {
	if err := checkClaims(claims); err != nil {
		return nil, err
	}
	c := &claiming{
		Store: s, ctx: private(ctx), tx: tx,
		claims: claims, claimed: make([]yekbar.Claimed, len(claims)), state: state, wait: waitOf(claims),
	}
	return c, c.run()
}

func (c *claiming) run() error {
	var which []int // to insert
	for i, claim := range c.claims {
		if !claim.FromParked {
			which = append(which, i)
		}
	}
	var err error
	switch {
	case len(which) == 0:
	case c.dialect == PostgreSQL:
		err = c.postgreSQL(which)
	case c.dialect == MariaDB:
		err = c.mariaDB(which)
	default:
		err = c.sqlite(which)
	}
	for i, claim := range c.claims {
		if err == nil && claim.FromParked {
			c.claimed[i], err = c.takeOver(claim)
		}
	}
	return err
}

// lookup reads an old claim.
func (c *claiming) lookup(claim yekbar.Claim) (yekbar.Claimed, error) {
	return scanOld(c.tx.QueryRowContext(c.ctx, c.sql.lookup, claim.Consumer, claim.MessageID))
}

// mustLookup is lookup where the claim was just seen.
func (c *claiming) mustLookup(claim yekbar.Claim) (yekbar.Claimed, error) {
	old, err := c.lookup(claim)
	if errors.Is(err, sql.ErrNoRows) {
		err = errGone
	}
	return old, err
}

func scanOld(row interface{ Scan(...any) error }) (yekbar.Claimed, error) {
	var (
		old yekbar.Claimed
		at  instant
	)
	err := row.Scan(&old.State, &old.Fingerprint, &at, &old.Result)
	old.At = at.Time
	return old, err
}

// index finds claims by consumer and message ID.
func (c *claiming) index() map[[2]string]int {
	m := make(map[[2]string]int, len(c.claims))
	for i, claim := range c.claims {
		m[[2]string{claim.Consumer, claim.MessageID}] = i
	}
	return m
}

// errGone: a claim that was there a moment ago is not any more.
var errGone = fmt.Errorf("%w: the claim was removed while it was read; start over", yekbar.ErrTransient)

// takeOver turns a parked message to applied, and removes what is held of it.
// What is not parked is not fresh: its state says what it is, "" when there is
// no claim.
func (c *claiming) takeOver(claim yekbar.Claim) (yekbar.Claimed, error) {
	p := c.dialect.placeholder
	pk := " WHERE consumer_name = " + p(1) + " AND message_id = " + p(2)
	var n int64
	err := c.limited(claim.Wait, func() error {
		result, err := c.tx.ExecContext(c.ctx, "UPDATE "+c.sql.claims+" SET state = 'applied', processed_at = "+c.dialect.now()+pk+" AND state = 'parked'", claim.Consumer, claim.MessageID)
		if err == nil {
			n, err = result.RowsAffected()
		}
		return err
	})
	if err != nil {
		return yekbar.Claimed{}, err
	}
	if n == 0 {
		old, err := c.lookup(claim)
		if errors.Is(err, sql.ErrNoRows) {
			return yekbar.Claimed{}, nil
		}
		return old, err
	}
	if _, err = c.tx.ExecContext(c.ctx, "DELETE FROM "+c.sql.held+pk, claim.Consumer, claim.MessageID); err != nil {
		return yekbar.Claimed{}, err
	}
	if c.dialect == PostgreSQL && c.xid == "" {
		c.xid, err = currentXID(c.ctx, c.tx)
	}
	return yekbar.Claimed{Fresh: true}, err
}

// currentXID assigns the transaction's id.
func currentXID(ctx context.Context, tx *sql.Tx) (xid string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text").Scan(&xid)
	return xid, err
}

// now is the database's clock, as the tables keep it.
func (d Dialect) now() string {
	switch d {
	case PostgreSQL:
		return "pg_catalog.clock_timestamp()"
	case MariaDB:
		return "UTC_TIMESTAMP(6)"
	}
	return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
}

// limited bounds the lock waits of fn, for the rare paths: most claims carry
// their bound with them.
func (c *claiming) limited(wait time.Duration, fn func() error) error {
	run := func(query string, args ...any) error {
		_, err := c.tx.ExecContext(c.ctx, query, args...)
		return err
	}
	switch c.dialect {
	case PostgreSQL:
		const set = "SELECT pg_catalog.set_config('lock_timeout', $1, true)"
		var old string
		if err := c.tx.QueryRowContext(c.ctx, "SELECT pg_catalog.current_setting('lock_timeout')").Scan(&old); err != nil {
			return err
		}
		if err := run(set, lockTimeout(wait)); err != nil {
			return err
		}
		if err := fn(); err != nil {
			return err // ROLLBACK puts the setting back
		}
		return run(set, old)
	case MariaDB:
		if err := run(fmt.Sprintf("SET @yekbar_lock_wait = @@innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = %d", wholeSeconds(wait))); err != nil {
			return err
		}
		err := fn()
		if _, alive := mysqlNumber(err); err == nil || alive {
			if err2 := run("SET SESSION innodb_lock_wait_timeout = @yekbar_lock_wait"); err2 != nil {
				return errors.Join(err, err2)
			}
		}
		return err
	}
	return fn()
}

// claimError maps an error of a statement of the store's own.
func (s *Store) claimError(t *txn, err error) error {
	if state, ok := sqlState(err); ok && state == "55P03" {
		return s.inFlight(t, err)
	}
	if number, ok := mysqlNumber(err); ok && (number == 1205 || number == 3572) {
		return s.inFlight(t, err)
	}
	return ownTable(s.classify(t, err), err)
}

func (s *Store) inFlight(t *txn, err error) error {
	if t != nil && t.orphan != nil {
		err = errors.Join(err, t.orphan)
	}
	return fmt.Errorf("%w: %w", yekbar.ErrInFlight, err)
}

// classify is the package's, with what the store knows of the connection.
func (s *Store) classify(t *txn, err error) error {
	var raw any
	if t != nil && t.guard != nil {
		raw = t.guard.conn.raw
	}
	return classify(s.cfg.Classify, raw, err)
}
