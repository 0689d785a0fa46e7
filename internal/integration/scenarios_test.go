package integration

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/proxy"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// The three scenarios that everything here began with, each with processes of
// its own over JetStream and a real database: the handler takes one unit of a
// stock of 100, and whatever happens, 99 are left.

// within is how long a scenario may wait for anything.
const within = 60 * time.Second

// A scenario is one database with one stock, and one stream with one message.
type scenario struct {
	t     *testing.T
	store scenarioStore
	url   string // of the database
	db    *sql.DB
	js    jetstream.JetStream
	name  string // of the stream and its consumer
	nats  string
}

func eachStore(t *testing.T, test func(s *scenario)) {
	for _, store := range scenarioStores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			test(newScenario(t, store))
		})
	}
}

func newScenario(t *testing.T, store scenarioStore) *scenario {
	s := &scenario{t: t, store: store, name: servers.UniqueName("scenario"), nats: servers.NATS(t)}
	s.url = store.database(t)
	db, err := store.open(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.db = db
	t.Cleanup(func() { s.check(db.Close()) })
	s.check(store.migrate(t.Context(), db))
	for _, q := range []string{"CREATE TABLE stock (sku VARCHAR(20) PRIMARY KEY, units INT NOT NULL)", "INSERT INTO stock VALUES ('85123A', 100)"} {
		_, err := db.ExecContext(t.Context(), q)
		s.check(err)
	}
	nc, err := nats.Connect(s.nats)
	s.check(err)
	t.Cleanup(nc.Close)
	s.js, err = jetstream.New(nc)
	s.check(err)
	_, err = s.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: s.name, Subjects: []string{s.name}})
	s.check(err)
	t.Cleanup(func() { s.check(s.js.DeleteStream(context.WithoutCancel(t.Context()), s.name)) })
	s.check(natsbroker.EnsureConsumer(t.Context(), s.js, natsbroker.SourceConfig{Stream: s.name, Durable: s.name, AckWait: 2 * time.Second}))
	return s
}

func (s *scenario) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// publish publishes a copy of the one message.
func (s *scenario) publish() {
	s.t.Helper()
	m := nats.NewMsg(s.name)
	m.Header.Set("ce-id", "order-1")
	m.Header.Set("ce-source", "/shop")
	m.Data = []byte("85123A")
	_, err := s.js.PublishMsg(s.t.Context(), m)
	s.check(err)
}

// expect compares the stock and the claims, and waits until the stream has
// nothing for its consumer.
func (s *scenario) expect(units, claims int) {
	s.t.Helper()
	var gotUnits, gotClaims int
	s.check(s.db.QueryRowContext(s.t.Context(), "SELECT units FROM stock").Scan(&gotUnits))
	s.check(s.db.QueryRowContext(s.t.Context(), "SELECT count(*) FROM "+s.store.claims).Scan(&gotClaims))
	if gotUnits != units || gotClaims != claims {
		s.t.Errorf("%d units and %d claims; want %d and %d", gotUnits, gotClaims, units, claims)
	}
}

func (s *scenario) expectAllAcknowledged() {
	s.t.Helper()
	info, err := s.js.Consumer(s.t.Context(), s.name, s.name)
	s.check(err)
	state, err := info.Info(s.t.Context())
	s.check(err)
	if state.NumAckPending != 0 || state.NumPending != 0 {
		s.t.Errorf("the consumer has %d messages unacknowledged and %d undelivered", state.NumAckPending, state.NumPending)
	}
}

// A process is a worker of its own.
type process struct {
	s     *scenario
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

// start starts a worker over the database at url.
func (s *scenario) start(url string, mode mode) *process {
	s.t.Helper()
	config, err := json.Marshal(childConfig{Store: s.store.name, Database: url, NATS: s.nats, Stream: s.name, Mode: mode})
	s.check(err)
	p := &process{s: s, cmd: exec.CommandContext(s.t.Context(), os.Args[0]), lines: make(chan string, 100)}
	p.cmd.Env = append(os.Environ(), childVariable+"=scenario", childConfigVariable+"="+string(config))
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	s.check(err)
	out, err := p.cmd.StdoutPipe()
	s.check(err)
	s.check(p.cmd.Start())
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	s.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.kill()
		}
	})
	return p
}

// say lets the handler go on.
func (p *process) say(line string) {
	p.s.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	p.s.check(err)
}

// wait waits for a line that the process prints, and passes over others.
func (p *process) wait(want string) {
	p.s.t.Helper()
	timeout := time.After(within)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.s.t.Fatalf("the process ended before it printed %q", want)
			}
			if line == want {
				return
			}
		case <-timeout:
			p.s.t.Fatalf("the process has not printed %q within %v", want, within)
		}
	}
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	p.s.t.Helper()
	p.s.check(p.cmd.Process.Kill())
	if err := p.cmd.Wait(); err == nil {
		p.s.t.Error("the process ended by itself before it was killed")
	}
}

// end lets the process shut down.
func (p *process) end() {
	p.s.t.Helper()
	p.s.check(p.in.Close())
	for range p.lines {
	}
	p.s.check(p.cmd.Wait())
}

func TestTwoProcessesGetTheSameMessageAtOnce(t *testing.T) {
	eachStore(t, func(s *scenario) {
		one, two := s.start(s.url, normal), s.start(s.url, normal)
		one.wait("receiving")
		two.wait("receiving") // before one of them keeps SQLite to itself
		s.publish()
		s.publish()
		one.wait("received")
		two.wait("received")
		// One of them has the claim, and holds it open; the other waits for it.
		first, second := one, two
		select {
		case line := <-one.lines:
			if line != "handling" {
				t.Fatalf("unexpected: %q", line)
			}
		case line := <-two.lines:
			if line != "handling" {
				t.Fatalf("unexpected: %q", line)
			}
			first, second = two, one
		case <-time.After(within):
			t.Fatal("neither process came to its handler")
		}
		s.expect(100, 0)
		first.say("go on")
		first.wait("applied")
		second.wait("duplicate")
		first.wait("acknowledged")
		second.wait("acknowledged")
		s.expect(99, 1)
		s.expectAllAcknowledged()
		first.end()
		second.end()
	})
}

func TestKilledBeforeCommit(t *testing.T) {
	eachStore(t, func(s *scenario) {
		s.publish()
		atCommit, url, cut := s.beforeCommit()
		p := s.start(url, stopBeforeCommit)
		p.wait("handling")
		armed := atCommit(p)
		p.say("go on")
		armed()
		p.kill()
		cut()
		s.expect(100, 0)

		p = s.start(s.url, normal)
		p.wait("handling")
		p.say("go on")
		p.wait("applied")
		p.wait("acknowledged")
		p.end()
		s.expect(99, 1)
		s.expectAllAcknowledged()
	})
}

// beforeCommit returns what to wait for so that the process stands exactly
// before COMMIT: SQLite's commit hook in the process itself, or a proxy that
// has received the COMMIT and kept it.
func (s *scenario) beforeCommit() (arm func(*process) (wait func()), url string, cut func()) {
	if s.store.hooked {
		return func(p *process) func() {
			return func() { p.wait(string(stopBeforeCommit)) }
		}, s.url, func() {}
	}
	wire := proxy.Start(s.t, s.url)
	return func(*process) func() {
		fault := wire.Arm(proxy.Fault{On: proxy.Commit, Do: proxy.SilentBefore})
		return func() {
			ctx, cancel := context.WithTimeout(s.t.Context(), within)
			defer cancel()
			s.check(fault.Wait(ctx))
		}
	}, wire.URL(), wire.CutAll
}

func TestKilledAfterCommitBeforeTheAcknowledgement(t *testing.T) {
	eachStore(t, func(s *scenario) {
		s.publish()
		p := s.start(s.url, stopBeforeAck)
		p.wait("handling")
		p.say("go on")
		p.wait(string(stopBeforeAck))
		p.kill()
		s.expect(99, 1)

		p = s.start(s.url, normal)
		p.wait("duplicate")
		p.wait("acknowledged")
		p.end()
		s.expect(99, 1)
		s.expectAllAcknowledged()
	})
}

// The wrong consumer that these tests must catch makes the change and the claim
// in two transactions: killed in between, it takes stock twice.
func TestTheScenariosCatchAConsumerWithTwoTransactions(t *testing.T) {
	eachStore(t, func(s *scenario) {
		s.publish()
		p := s.start(s.url, stopBetween)
		p.wait(string(stopBetween))
		p.kill()
		p = s.start(s.url, twin)
		p.wait("acknowledged")
		p.end()
		s.expect(98, 1)
	})
}
