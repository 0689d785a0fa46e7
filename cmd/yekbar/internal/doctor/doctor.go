package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// A Level says how bad a finding is.
type Level string

const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, and may surprise
	Problem Level = "problem" // it doesn't work, or not safely
)

const (
	// skewWarning and skewProblem are how far this machine's clock may be
	// from the database's. Yekbar compares only the database's; people
	// compare both, and a broker's clock must not be far from it.
	skewWarning = 2 * time.Second
	skewProblem = time.Minute
	// oldTransaction is how long one may be open until it is mentioned.
	oldTransaction = 5 * time.Minute
)

// A Finding is one thing that was looked at.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"`
}

// A Patient is what is examined.
type Patient struct {
	DB      *sql.DB
	Dialect schema.Dialect
	Names   schema.Names
	// Store is found by the optional interfaces of yekbar.
	Store any
	// Broker, where one was named, has been asked already.
	Broker *Broker
}

// A Broker is what the broker said of a subscription.
type Broker struct {
	Name       string
	Err        error         // it could not be asked
	Redelivery time.Duration // the longest time after which it may deliver again; 0: no limit is known
	Retention  time.Duration // of the consumer's claims; yekbar.KeepForever: for ever
	// Registered is the consumer's subscription in the database, Subscription
	// the broker's; "": unknown.
	Registered, Subscription string
}

// Examine looks at everything. It never fails: what can't be asked is a
// finding too.
func Examine(ctx context.Context, p Patient) []Finding {
	e := &examination{Patient: p, ctx: ctx}
	if e.connect() {
		there := e.schema()
		if there {
			e.tables()
			e.indexes()
		}
		e.clock()
		switch p.Dialect {
		case schema.PostgreSQL:
			e.postgresql()
		case schema.MariaDB:
			e.mariadb()
		case schema.SQLite:
			e.sqlite()
		}
	}
	e.broker()
	return e.findings
}

// Worst returns the worst level.
func Worst(fs []Finding) Level {
	worst := OK
	for _, f := range fs {
		if f.Level == Problem || f.Level == Warning && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

type examination struct {
	Patient
	ctx      context.Context
	findings []Finding
}

func (e *examination) add(check string, level Level, mend, format string, args ...any) {
	e.findings = append(e.findings, Finding{check, level, fmt.Sprintf(format, args...), mend})
}

func (e *examination) ok(check, format string, args ...any) { e.add(check, OK, "", format, args...) }

// when adds a finding of the given level if it is so, and an ok one if not.
func (e *examination) when(bad bool, check string, level Level, mend, format string, args ...any) {
	if !bad {
		level, mend = OK, ""
	}
	e.add(check, level, mend, format, args...)
}

// failed notes that something could not be asked.
func (e *examination) failed(check string, err error) {
	e.add(check, Warning, "grant the right to ask, or ask as another user", "could not be asked: %v", err)
}

// ask scans one row, and reports whether there was one.
func (e *examination) ask(check string, dest []any, text string, args ...any) bool {
	err := e.DB.QueryRowContext(e.ctx, text, args...).Scan(dest...)
	if err != nil {
		e.failed(check, err)
	}
	return err == nil
}

func (e *examination) connect() bool {
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	if err := e.DB.PingContext(ctx); err != nil {
		e.add("connection", Problem, "start the server, or mend the URL, the user's password or the network", "%v", err)
		return false
	}
	return true
}

// schema reports whether the tables are there, and of a version that is known.
func (e *examination) schema() bool {
	m, ok := yekbar.Find[yekbar.Migrator](e.Store)
	if !ok {
		return true
	}
	have, want, err := m.SchemaVersion(e.ctx)
	switch {
	case err != nil:
		e.add("schema", Problem, "see what the error says; yekbar migrate makes the tables", "%v", err)
	case have == 0:
		e.add("schema", Problem, "yekbar migrate", "there are no tables (or --schema or --prefix names others)")
	case have < want:
		e.add("schema", Problem, "yekbar migrate", "the tables have version %d; this release needs %d", have, want)
	case have > want:
		e.add("schema", Warning, "use the newer release when all workers have it", "the tables have version %d, newer than this release's %d", have, want)
	default:
		e.ok("schema", "version %d", have)
	}
	return err == nil && have >= want
}

func (e *examination) tables() {
	c, ok := yekbar.Find[yekbar.Checker](e.Store)
	if !ok {
		return
	}
	err := c.Check(e.ctx)
	if err == nil {
		e.ok("tables", "columns, keys and rights are as needed, and nothing swallows a claim")
		return
	}
	for _, one := range apart(err) {
		// The checker's errors say the mend themselves, after what is wrong.
		text := strings.TrimPrefix(one.Error(), "sqlstore: ")
		e.add("tables", Problem, "as it says; workers refuse to start until then", "%s", text)
	}
}

// joined is the type of errors.Join's errors; those of fmt.Errorf that wrap
// several are one sentence, and stay whole.
var joined = reflect.TypeOf(errors.Join(io.EOF))

// apart takes joined errors apart.
func apart(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok && reflect.TypeOf(err) == joined {
		var all []error
		for _, one := range j.Unwrap() {
			all = append(all, apart(one)...)
		}
		return all
	}
	return []error{err}
}

func (e *examination) clock() {
	before := time.Now()
	there, err := Now(e.ctx, e.DB, e.Dialect)
	if err != nil {
		e.failed("clock", err)
		return
	}
	trip := time.Since(before)
	skew := there.Sub(before.Add(trip / 2)).Round(time.Millisecond)
	mend := "run NTP on both machines; Yekbar goes by the database's clock alone, but logs, brokers and people don't"
	switch size := max(skew, -skew) - trip/2; {
	case size > skewProblem:
		e.add("clock", Problem, mend, "the database's is %v from this machine's", skew)
	case size > skewWarning:
		e.add("clock", Warning, mend, "the database's is %v from this machine's", skew)
	default:
		e.ok("clock", "the database's is within %v of this machine's", max(skew, -skew, time.Millisecond))
	}
}

// Now is the database's clock.
func Now(ctx context.Context, db *sql.DB, d schema.Dialect) (time.Time, error) {
	text := map[schema.Dialect]string{
		schema.PostgreSQL: "SELECT CAST(EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * 1000000 AS bigint)",
		schema.MariaDB:    "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS SIGNED)",
		schema.SQLite:     "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
	}[d]
	var us int64
	if err := db.QueryRowContext(ctx, text).Scan(&us); err != nil {
		return time.Time{}, fmt.Errorf("ask for the database's time: %w", err)
	}
	return time.UnixMicro(us).UTC(), nil
}

// index is one of Yekbar's.
type index struct{ table, name string }

var indexes = map[schema.Dialect][]index{
	schema.PostgreSQL: {{schema.HeldMessages, "held_messages_due"}, {schema.HeldMessages, "held_messages_order"}, {schema.AuditLog, "audit_log_consumer"}},
	schema.SQLite:     {{schema.HeldMessages, "held_messages_due"}, {schema.HeldMessages, "held_messages_order"}, {schema.AuditLog, "audit_log_consumer"}},
	schema.MariaDB:    {{schema.HeldMessages, "due"}, {schema.HeldMessages, "order"}, {schema.AuditLog, "consumer"}},
}

func (e *examination) indexes() {
	var missing []string
	for _, i := range indexes[e.Dialect] {
		var n int
		var err error
		switch e.Dialect {
		case schema.PostgreSQL:
			err = e.DB.QueryRowContext(e.ctx, "SELECT count(*) FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace WHERE n.nspname = $1 AND i.relname = $2 AND x.indisvalid",
				e.Names.SchemaName(), i.name).Scan(&n)
		case schema.MariaDB:
			err = e.DB.QueryRowContext(e.ctx, "SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND INDEX_NAME = ?",
				e.Names.Bare(e.Dialect, i.table), i.name).Scan(&n)
		case schema.SQLite:
			err = e.DB.QueryRowContext(e.ctx, "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'index' AND name = ?", e.Names.Bare(e.Dialect, i.name)).Scan(&n)
		}
		if err != nil {
			e.failed("indexes", err)
			return
		}
		if n == 0 {
			missing = append(missing, i.name)
		}
	}
	e.when(len(missing) > 0, "indexes", Warning, "create them as yekbar migrate --print has them",
		"%s", map[bool]string{true: "missing or invalid: " + strings.Join(missing, ", "), false: "all are there"}[len(missing) > 0])
}

func (e *examination) broker() {
	b := e.Broker
	switch {
	case b == nil:
		return
	case b.Err != nil:
		e.add("broker", Problem, "start the server, or mend --broker", "%v", b.Err)
		return
	}
	e.ok("broker", "%s answers", b.Name)
	if b.Registered != "" && b.Subscription != "" {
		e.when(b.Registered != b.Subscription, "subscription", Problem, "give the new consumer a name of its own, or: yekbar consumers confirm",
			"the consumer is registered over %q, the broker's is %q", b.Registered, b.Subscription)
	}
	switch {
	case b.Retention == yekbar.KeepForever:
		e.ok("retention", "claims are kept for ever")
	case b.Redelivery == 0:
		e.add("retention", Warning, "limit how long the broker keeps messages (JetStream: the stream's MaxAge)",
			"the broker may deliver again without limit; claims are kept for %v. An older message is set aside for a person", hours(b.Retention))
	default:
		e.when(b.Redelivery > b.Retention, "retention", Problem, "raise Config.Retention above it, or lower how long the broker keeps messages",
			"claims are kept for %v, and the broker may deliver again for %v", hours(b.Retention), hours(b.Redelivery))
	}
}

// hours prints a long duration without its zeros.
func hours(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
