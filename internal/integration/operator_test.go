package integration

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// An operated is a database of a real server, and the program to operate it.
type operated struct {
	t       *testing.T
	program string
	url     string
	db      *sql.DB
	store   *sqlstore.Store
}

// call runs the program, and wants an exit status and a text.
func (o *operated) call(status int, text string, args ...string) string {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, o.program, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	c.Env = append(os.Environ(), "YEKBAR_DATABASE="+o.url, "YEKBAR_BY=ada", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		o.t.Fatal(err)
	}
	o.t.Logf("yekbar %s: exit status %d\n%s%s", strings.Join(args, " "), c.ProcessState.ExitCode(), stdout.String(), stderr.String())
	if c.ProcessState.ExitCode() != status || !strings.Contains(stdout.String()+stderr.String(), text) {
		o.t.Errorf("want exit status %d and %q", status, text)
	}
	return stdout.String()
}

func (o *operated) hold(id string, state yekbar.State, reason string) {
	o.t.Helper()
	m := yekbar.Message{ID: id, Topic: "orders", OrderingKey: "sku-1", Payload: []byte("payload of " + id)}
	h := &yekbar.HeldMessage{Consumer: "inventory", MessageID: id, State: state, Reason: reason, Message: m, Fingerprint: m.Fingerprint(), Attempts: 1, Errors: []string{"why"}, Delay: time.Hour}
	if _, err := o.store.Hold(o.t.Context(), h); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operated) claim(id string) yekbar.Claimed {
	o.t.Helper()
	c, err := o.store.Claim(o.t.Context(), "inventory", id)
	if err != nil {
		o.t.Fatal(err)
	}
	return c
}

func (o *operated) exec(texts ...string) {
	o.t.Helper()
	for _, text := range texts {
		if _, err := o.db.ExecContext(o.t.Context(), text); err != nil {
			o.t.Fatalf("%s: %v", text, err)
		}
	}
}

func TestOperators(t *testing.T) {
	program := string(buildProgram(t))
	for _, d := range []struct {
		name, driver string
		dialect      sqlstore.Dialect
		url          func(testing.TB) string
		dsn          func(testing.TB, string) string
		text, at     string // column types of the old inbox
		epoch        string // a number's
	}{
		{"PostgreSQL", "pgx", sqlstore.PostgreSQL, servers.PostgreSQL, func(_ testing.TB, url string) string { return url }, "uuid", "timestamptz", "bigint"},
		{"PgBouncer", "pgx", sqlstore.PostgreSQL, servers.PgBouncer, func(_ testing.TB, url string) string { return url + sep(url) + "default_query_exec_mode=exec" }, "uuid", "timestamp", "bigint"},
		{"MariaDB", "mysql", sqlstore.MariaDB, servers.MariaDB, mariaDSN, "varchar(64)", "timestamp(6) NULL", "bigint"},
	} {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			db, err := sqlstore.Open(d.driver, d.dsn(t, url))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			o := &operated{t, program, url, db, sqlstore.New(db, d.dialect, sqlstore.Config{})}
			o.call(4, "run yekbar migrate", "status")
			o.call(1, "yekbar migrate", "doctor")
			o.call(0, "version", "migrate")
			if err := o.store.Register(t.Context(), yekbar.Registration{Consumer: "inventory", Subscription: "nats ORDERS/inventory"}); err != nil {
				t.Fatal(err)
			}
			o.changes()
			o.imports(d.text, d.at, d.epoch)
			o.examines(d.name)
		})
	}
}

func sep(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}

func (o *operated) changes() {
	for i := range 5 {
		o.hold("m-"+strconv.Itoa(i), yekbar.StateDead, yekbar.ReasonAttempts)
	}
	o.hold("p-1", yekbar.StateParked, yekbar.ReasonDelayed)
	why := []string{"--reason", "a test"}
	do := func(words ...string) []string { return append(words, why...) }
	o.call(0, "attempts 5, delayed 1", "status", "inventory")
	o.call(0, "next: yekbar dead list inventory --limit 2 --after", "dead", "list", "inventory", "--limit", "2")
	o.call(0, "payload of m-1", "dead", "show", "inventory", "m-1")
	o.call(0, "replayed", do("dead", "replay", "inventory", "m-1")...)
	o.call(0, "due now", do("parked", "now", "inventory", "p-1")...)
	o.call(0, "discarded", do("dead", "discard", "inventory", "m-2")...)
	o.call(5, "was discarded", do("dead", "replay", "inventory", "m-2")...)
	o.call(0, "replay: 3 messages", do("dead", "replay", "inventory", "--all")...)
	o.call(0, "forgotten", do("claims", "forget", "inventory", "m-3")...)
	o.call(5, "no message", "claims", "show", "inventory", "m-3")
	o.call(0, "paused", do("pause", "inventory")...)
	o.call(0, "PAUSED by ada", "status")
	o.call(0, "resumed", do("resume", "inventory")...)
	o.call(0, "there is no watermark yet", do("prune", "inventory", "--retention", "1h")...)
	var log struct {
		Entries []struct{ Action, By, Reason string }
	}
	if err := json.Unmarshal([]byte(o.call(0, "", "audit", "inventory", "--json")), &log); err != nil {
		o.t.Fatal(err)
	}
	var actions []string
	for _, e := range log.Entries {
		actions = append(actions, e.Action)
	}
	if got := strings.Join(actions, " "); got != "prune resume pause forget replay replay replay discard due replay" {
		o.t.Errorf("the audit log has %s", got)
	}
	due, err := o.store.TakeDue(o.t.Context(), "inventory", 10, time.Minute)
	if err != nil || len(due) != 4 {
		o.t.Errorf("%d messages are due, want m-0, m-1, m-4 and p-1: %v", len(due), err)
	}
}

func (o *operated) imports(text, at, epoch string) {
	o.exec("CREATE TABLE old_inbox (id "+text+" NULL, producer varchar(64) NULL, handled "+at+", n "+epoch+" NULL)",
		"INSERT INTO old_inbox VALUES ('0198c5f2-7a1e-7000-8000-000000000001', NULL, '2026-01-02 03:04:05', 1), ('0198c5f2-7a1e-7000-8000-000000000002', '/shop', '2036-01-02 03:04:05', 1), (NULL, NULL, NULL, 1), ('0198c5f2-7a1e-7000-8000-000000000003', NULL, NULL, 1)")
	args := []string{"import", "--table", "old_inbox", "--id-column", "id", "--source-column", "producer", "--time-column", "handled", "--consumer", "inventory", "--reason", "move", "--batch", "2"}
	o.call(3, "4 rows read: 3 new, 0 claimed before, 1 refused", args...)
	o.call(3, "4 rows read: 0 new, 3 claimed before, 1 refused", args...)
	if c := o.claim("0198c5f2-7a1e-7000-8000-000000000001"); c.State != yekbar.StateApplied || !c.At.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		o.t.Errorf("%+v", c)
	}
	now := o.claim("0198c5f2-7a1e-7000-8000-000000000003").At
	if c := o.claim("/shop 0198c5f2-7a1e-7000-8000-000000000002"); c.At.Sub(now).Abs() > time.Minute {
		o.t.Errorf("what lies in the future was claimed at %v", c.At)
	}
	args[slices.Index(args, "handled")] = "n"
	o.call(4, "make a view", args...)
}

func (o *operated) examines(name string) {
	// The test servers are right but for their durability, which the doctor
	// notices.
	status := 0
	if name != "MariaDB" {
		status = 1
	}
	said := o.call(status, "version 1", "doctor")
	if durable := !strings.Contains(said, "fsync is off"); durable == (name != "MariaDB") {
		o.t.Errorf("fsync is found to be on: %v", durable)
	}
	if strings.Contains(said, "could not be asked") {
		o.t.Error("something could not be asked")
	}
	if pooled := strings.Contains(said, "one stands between"); pooled != (name == "PgBouncer") {
		o.t.Errorf("a pooler is noticed: %v", pooled)
	}
	if name == "MariaDB" {
		o.exec("DROP INDEX `due` ON yekbar_held_messages")
	} else {
		o.exec("DROP INDEX yekbar.held_messages_due")
	}
	o.call(status, "missing or invalid", "doctor")
	tx, err := o.db.BeginTx(o.t.Context(), nil)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(); err != nil {
			o.t.Error(err)
		}
	}()
	if _, err := tx.Exec("UPDATE old_inbox SET n = 2"); err != nil {
		o.t.Fatal(err)
	}
	if name == "MariaDB" {
		// What INNODB_TRX shows is kept until 0.1 s after it was last read.
		o.exec("DO SLEEP(0.2)")
	}
	o.call(status, "the oldest is open for", "doctor")
	o.call(1, "is nats-server running there", "doctor", "--broker", "nats://ada:s3cr3t@127.0.0.1:1/ORDERS/inventory")
}

// TestOperatorsRewind restores a database to an earlier moment, in effect, and
// rewinds the broker to it.
func TestOperatorsRewind(t *testing.T) {
	url := servers.NATS(t)
	sub := subscribeNATS(t, url, time.Minute)
	database := servers.PostgreSQL(t)
	db, err := sqlstore.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	o := &operated{t, string(buildProgram(t)), database, db, sqlstore.New(db, sqlstore.PostgreSQL, sqlstore.Config{})}
	ctx := t.Context()
	if err := o.store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	source, err := natsbroker.NewSource(ctx, sub.js, sub.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.store.Register(ctx, yekbar.Registration{Consumer: "inventory", Subscription: source.Capabilities().Subscription}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := sub.js.Publish(ctx, sub.subject, []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if got := takeAll(t, source, 5); got != "0 1 2 3 4" {
		t.Fatalf("delivered %s", got)
	}
	if err := source.Close(ctx); err != nil {
		t.Fatal(err)
	}
	broker := url + "/" + sub.config.Stream + "/" + sub.config.Durable
	args := []string{"rewind", "inventory", "--broker", broker, "--reason", "restored"}
	o.call(5, "say --to", args...)
	if err := o.store.SavePositions(ctx, "inventory", map[string]string{sub.config.Stream: "3"}); err != nil {
		t.Fatal(err)
	}
	o.call(0, "would be rewound from 6 to 3", append(args, "--dry-run")...)
	o.call(2, "that would skip messages", append(args, "--to", sub.config.Stream+"=9")...)
	o.call(0, "rewound from 6 to 3", args...)
	o.call(0, "nothing to do", args...)
	o.call(1, "the broker may deliver again without limit", "doctor", "--broker", broker, "--consumer", "inventory")
	o.call(0, "rewind inventory", "audit")
	if source, err = natsbroker.NewSource(ctx, sub.js, sub.config); err != nil {
		t.Fatal(err)
	}
	if got := takeAll(t, source, 3); got != "2 3 4" {
		t.Errorf("delivered %s after the rewind", got)
	}
	if err := source.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// takeAll takes and acknowledges so many messages.
func takeAll(t *testing.T, source *natsbroker.Source, n int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []string
	for len(got) < n {
		ds, err := source.Receive(ctx, n-len(got))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			m, err := d.Message()
			if err == nil {
				err = d.Ack(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(m.Payload))
		}
	}
	return strings.Join(got, " ")
}
