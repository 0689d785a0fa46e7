package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/database"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// A shop is a database with a consumer that has seen better days.
type shop struct {
	t     *testing.T
	url   string
	db    *sql.DB
	store *sqlstore.Store
}

func newShop(t *testing.T) *shop {
	t.Helper()
	url := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	d, err := database.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	db := d.Open(nil)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &shop{t, url, db, sqlstore.New(db, d.Dialect, sqlstore.Config{})}
	ctx := t.Context()
	if err := s.store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Register(ctx, yekbar.Registration{Consumer: "inventory", Subscription: "nats ORDERS/inventory"}); err != nil {
		t.Fatal(err)
	}
	s.hold("/shop 536365", yekbar.StateDead, yekbar.ReasonPermanent, `{"invoice":"536365"}`, "sku-1")
	s.hold("bell", yekbar.StateDead, yekbar.ReasonAttempts, "\x1b]0;owned\x07\xff", "")
	s.hold("waits", yekbar.StateParked, yekbar.ReasonDelayed, "later", "")
	s.apply("done")
	return s
}

func (s *shop) hold(id string, state yekbar.State, reason, payload, key string) {
	s.t.Helper()
	m := yekbar.Message{ID: id, Topic: "orders", OrderingKey: key, Payload: []byte(payload)}
	if source, rest, ok := strings.Cut(id, " "); ok {
		m.Source, m.ID = source, rest
	}
	m.Header.Add("Tenant", "eu\x1b[2J")
	held, err := s.store.Hold(s.t.Context(), &yekbar.HeldMessage{
		Consumer: "inventory", MessageID: id, State: state, Reason: reason, Message: m, Fingerprint: m.Fingerprint(),
		Attempts: 2, Errors: []string{"first", "no article \x1b[31m85123A"}, Delay: time.Hour,
	})
	if err != nil || !held {
		s.t.Fatal(held, err)
	}
}

func (s *shop) apply(id string) {
	s.t.Helper()
	_, err := s.store.Attempt(s.t.Context(), []yekbar.Claim{{Consumer: "inventory", MessageID: id, Fingerprint: []byte{1, 2}}}, func(context.Context, *sql.Tx, []int) error { return nil })
	if err != nil {
		s.t.Fatal(err)
	}
}

// call runs the program against the shop.
func (s *shop) call(stdin string, args ...string) result {
	s.t.Helper()
	return call(s.t, strings.NewReader(stdin), append(args, "--database", s.url)...)
}

// want runs it and looks at the status and at what is printed.
func (s *shop) want(status int, text string, args ...string) result {
	s.t.Helper()
	r := s.call("", args...)
	if r.status != status || !strings.Contains(r.stdout+r.stderr, text) {
		s.t.Errorf("yekbar %q: exit status %d, want %d and %q", args, r.status, status, text)
	}
	for _, c := range []byte(r.stdout + r.stderr) {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			s.t.Errorf("yekbar %q prints a control character: %q", args, r.stdout+r.stderr)
			break
		}
	}
	return r
}

// object runs it with --json.
func (s *shop) object(status int, args ...string) map[string]any {
	s.t.Helper()
	r := s.want(status, "", append(args, "--json")...)
	var o map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &o); err != nil || strings.Count(r.stdout, "\n") != 1 {
		s.t.Fatalf("not one JSON object on one line: %v: %q", err, r.stdout)
	}
	return o
}

func (s *shop) state(id string) yekbar.State {
	s.t.Helper()
	c, err := s.store.Claim(s.t.Context(), "inventory", id)
	if err != nil {
		s.t.Fatal(err)
	}
	return c.State
}

func TestOperatorsLook(t *testing.T) {
	s := newShop(t)
	s.want(0, "inventory", "status")
	s.want(0, "permanent 1", "status", "inventory")
	s.want(5, `did you mean "inventory"?`, "status", "inventroy")
	s.want(0, "'/shop 536365'", "dead", "list", "inventory")
	s.want(0, "next: yekbar dead list --limit 1 --after ", "dead", "list", "--limit", "1")
	s.want(2, "reasons are", "dead", "list", "--why", "bad")
	s.want(2, "--limit", "dead", "list", "--limit", "0")
	s.want(0, "due in", "parked", "list")
	s.want(0, `{"invoice":"536365"}`, "dead", "show", "inventory", "/shop 536365")
	s.want(0, "|.]0;owned", "dead", "show", "inventory", "bell")
	s.want(5, "did you mean '/shop 536365'?", "dead", "show", "inventory", "536365")
	s.want(5, "it was applied", "dead", "show", "inventory", "done")
	s.want(5, "parked show inventory waits", "dead", "show", "inventory", "waits")
	s.want(0, "it took effect", "claims", "show", "inventory", "done")
	s.want(5, "never came", "claims", "show", "inventory", "nothing like any")
	s.want(0, "nothing was done by hand", "audit")

	list := s.object(0, "dead", "list")
	if n := len(list["messages"].([]any)); n != 2 {
		t.Errorf("%d dead messages", n)
	}
	show := s.object(0, "dead", "show", "inventory", "bell")
	if p := show["payload"].(map[string]any); p["base64"] == nil || p["text"] != nil {
		t.Errorf("payload %v", p)
	}
}

func TestPayloadGoesToANewFile(t *testing.T) {
	s := newShop(t)
	file := filepath.Join(t.TempDir(), "payload")
	s.want(0, "written to", "dead", "show", "inventory", "bell", "--raw", file)
	got, err := os.ReadFile(file)
	if err != nil || string(got) != "\x1b]0;owned\x07\xff" {
		t.Errorf("%q, %v", got, err)
	}
	s.want(2, "exists", "dead", "show", "inventory", "bell", "--raw", file)
	if r := s.call("", "dead", "show", "inventory", "bell", "--raw", "-"); r.stdout != "\x1b]0;owned\x07\xff" {
		t.Errorf("%q", r.stdout)
	}
}

func TestOperatorsChange(t *testing.T) {
	s := newShop(t)
	why := []string{"--by", "ada", "--reason", "a test"}
	do := func(args ...string) []string { return append(args, why...) }
	s.want(2, "--reason", "pause", "inventory")
	s.want(0, "paused", do("pause", "inventory")...)
	s.want(0, "paused already, by ada", do("pause", "inventory")...)
	s.want(0, "PAUSED by ada", "status")
	s.want(0, "resumed", do("resume", "inventory")...)

	r := s.call("corrected", do("dead", "replay", "inventory", "/shop 536365", "--payload", "-")...)
	if r.status != 0 || s.state("/shop 536365") != yekbar.StateParked || !strings.Contains(r.stderr, "may have been applied") {
		t.Error("not replayed, or not warned of later messages of the key")
	}
	s.want(0, "corrected", "parked", "show", "inventory", "/shop 536365")
	s.want(5, "not dead but parked", do("dead", "replay", "inventory", "/shop 536365")...)
	s.want(5, "not dead but parked", do("dead", "discard", "inventory", "waits")...)
	s.want(0, "due now", do("parked", "now", "inventory", "waits")...)
	s.want(3, "1 of 2 were not there", do("dead", "discard", "inventory", "bell", "none")...)
	s.want(5, "was discarded", do("dead", "show", "inventory", "bell")[:4]...)
	s.want(2, "--all", do("dead", "replay", "inventory")...)
	s.want(0, "comes once more", do("claims", "forget", "inventory", "done")...)
	s.want(5, "no message", do("claims", "forget", "inventory", "done")...)
	s.want(0, "is 'nats NEW/inventory' now", do("consumers", "confirm", "inventory", "--subscription", "nats NEW/inventory")...)
	s.want(0, "no watermark", do("prune", "inventory", "--retention", "1h")...)

	entries := s.object(0, "audit")["entries"].([]any)
	var actions []string
	for _, e := range entries {
		e := e.(map[string]any)
		actions = append(actions, e["action"].(string))
		if e["by"] != "ada" || e["reason"] != "a test" {
			t.Errorf("an entry by %v because of %v", e["by"], e["reason"])
		}
	}
	if got := strings.Join(actions, " "); got != "prune confirm forget discard due replay resume pause pause" {
		t.Errorf("the audit log has %s", got)
	}
}

func TestReplayOfAll(t *testing.T) {
	s := newShop(t)
	for i := range 450 { // more than two pages
		s.hold(fmt.Sprintf("m-%d", i), yekbar.StateDead, yekbar.ReasonAttempts, "x", "")
	}
	s.want(0, "replay: 451 messages", "dead", "replay", "inventory", "--all", "--why", "attempts", "--reason", "fixed")
	if s.state("/shop 536365") != yekbar.StateDead || s.state("m-0") != yekbar.StateParked {
		t.Error("the wrong ones were replayed")
	}
}

func TestImport(t *testing.T) {
	s := newShop(t)
	for _, text := range []string{
		"CREATE TABLE inbox (id TEXT, handler TEXT, at TEXT)",
		"INSERT INTO inbox VALUES ('a', 'stock', '2026-01-02 03:04:05'), ('b', 'stock', '2099-01-01 00:00:00'), ('a', 'mail', NULL), (NULL, 'stock', NULL), ('bell', 'stock', NULL), ('done', 'stock', NULL)",
	} {
		if _, err := s.db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"import", "--table", "inbox", "--id-column", "id", "--time-column", "at", "--consumer-column", "handler", "--consumer-value", "stock", "--consumer", "inventory", "--reason", "move"}
	s.want(3, "5 rows read: 2 new, 1 claimed before, 2 refused", args...)
	o := s.object(3, args...)
	if o["new"] != 0.0 || o["old"] != 3.0 || len(o["refused"].([]any)) != 2 {
		t.Errorf("again: %v", o)
	}
	a, err := s.store.Claim(t.Context(), "inventory", "a")
	if err != nil || !a.At.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v, %v", a, err)
	}
	b, err := s.store.Claim(t.Context(), "inventory", "b")
	if err != nil || time.Since(b.At) > time.Hour || b.At.After(time.Now().Add(time.Hour)) {
		t.Errorf("what lies in the future: %+v, %v", b, err)
	}
	args[len(args)-3] = "inventary"
	s.want(5, `did you mean "inventory"? To import`, args...)
	s.want(3, "4 new, 0 claimed before, 1 refused", append(args, "--new")...)
	s.want(4, "--table", "import", "--table", "none", "--id-column", "id", "--consumer", "inventory", "--reason", "x")
}

func TestDoctor(t *testing.T) {
	s := newShop(t)
	s.want(0, "version 1", "doctor")
	if o := s.object(0, "doctor"); o["worst"] != "ok" {
		t.Errorf("%v", o)
	}
	if _, err := s.db.Exec("CREATE TRIGGER swallow BEFORE INSERT ON yekbar_processed_messages BEGIN SELECT RAISE(IGNORE); END"); err != nil {
		t.Fatal(err)
	}
	s.want(1, "swallow", "doctor")
	s.want(1, "yekbar migrate", "doctor", "--prefix", "none_")
	r := call(t, nil, "doctor", "--database", "sqlite:/none/at/all.db")
	if r.status != 1 || !strings.Contains(r.stdout, "yekbar migrate creates") {
		t.Errorf("exit status %d", r.status)
	}
}

func TestNoTables(t *testing.T) {
	s := newShop(t)
	s.want(4, "yekbar migrate", "status", "--prefix", "none_")
	file := filepath.Join(t.TempDir(), "none.db")
	if r := call(t, nil, "status", "--database", "sqlite:"+file); r.status != 4 || !strings.Contains(r.stderr, "is the path right?") {
		t.Errorf("exit status %d", r.status)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("looking created a database")
	}
	if r := call(t, nil, "status", "--database", "postgres://ada:s3cr3t@127.0.0.1:1/shop"); r.status != 4 || strings.Contains(r.stderr, "s3cr3t") {
		t.Errorf("exit status %d", r.status)
	}
}

func TestBrokerURLs(t *testing.T) {
	s := newShop(t)
	for url, status := range map[string]int{
		"nats://ada:s3cr3t@127.0.0.1:1/ORDERS/inventory": 4, "nats://s3cr3t@127.0.0.1:1/ORDERS/inventory": 4,
		"nats://ada:s3cr3t@127.0.0.1:1": 2, "nats://ada:s3cr3t@127.0.0.1:1/ORDERS": 2, "amqp://ada:s3cr3t@127.0.0.1/a/b": 2, "nats://ada:s3cr3t/x@h/a/b": 2,
	} {
		r := s.want(status, "", "rewind", "inventory", "--reason", "x", "--broker", url)
		if strings.Contains(r.stderr, "s3cr3t") || strings.Contains(r.stderr, "SQLite") {
			t.Errorf("%q tells the password, or blames the database", r.stderr)
		}
	}
	if r := s.want(1, "problem  broker", "doctor", "--broker", "nats://ada:s3cr3t@127.0.0.1:1/ORDERS/inventory"); strings.Contains(r.stdout, "s3cr3t") {
		t.Error("the password came out")
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, args := range []string{
		"status", "pause", "resume", "dead list", "dead show", "dead replay", "dead discard", "parked list", "parked show", "parked now",
		"claims show", "claims forget", "consumers confirm", "audit", "prune", "rewind", "import", "doctor",
	} {
		r := call(t, nil, append(strings.Fields(args), "--help")...)
		for _, want := range []string{"Examples:", "Exit status:", "JSON: ", "--json"} {
			if r.status != 0 || !strings.Contains(r.stdout, want) {
				t.Errorf("yekbar %s --help has no %q", args, want)
			}
		}
	}
}
