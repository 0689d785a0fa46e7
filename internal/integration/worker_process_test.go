package integration

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// A plant is one database and one subscription for worker processes.
type plant struct {
	t     *testing.T
	child workerChild
	db    *sql.DB
	store *sqlstore.Store // over db, whatever the children use
	s     *natsSubscription
	hand  *hand // the last one that was started
}

// eachPlant runs a test on each database: PostgreSQL through both stores.
func eachPlant(t *testing.T, lease time.Duration, test func(p *plant)) {
	for _, name := range []string{"pgxstore", "pgx", "mysql", "modernc"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := driverNamed(t, strings.Replace(name, "pgxstore", "pgx", 1))
			if name == "pgxstore" {
				d.name = name
			}
			p := &plant{t: t, s: subscribeNATS(t, servers.NATS(t), lease)}
			p.child = workerChild{Driver: name, DSN: d.dsn(t), NATS: servers.NATS(t), Source: p.s.config, Timeout: time.Second}
			p.db = d.open(t, p.child.DSN, true)
			p.store = sqlstore.New(p.db, d.dialect, sqlstore.Config{})
			p.check(p.store.Migrate(t.Context()))
			_, err := p.db.ExecContext(t.Context(), "CREATE TABLE effects (id VARCHAR(40) NOT NULL)")
			p.check(err)
			test(p)
		})
	}
}

func (p *plant) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *plant) publish(ms ...*yekbar.Message) {
	p.t.Helper()
	publisher, err := natsbroker.NewPublisher(p.s.js, natsbroker.PublisherConfig{})
	p.check(err)
	for _, m := range ms {
		m.Topic = p.s.subject
		p.check(publisher.Publish(p.t.Context(), []*yekbar.Message{m}))
	}
}

// effects returns how often each message took effect.
func (p *plant) effects() map[string]int {
	p.t.Helper()
	rows, err := p.db.QueryContext(p.t.Context(), "SELECT id, count(*) FROM effects GROUP BY id")
	p.check(err)
	defer func() { _ = rows.Close() }()
	all := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		p.check(rows.Scan(&id, &n))
		all[id] = n
	}
	p.check(rows.Err())
	return all
}

func (p *plant) held() (all []*yekbar.HeldMessage) {
	p.t.Helper()
	for h, err := range p.store.Held(p.t.Context(), yekbar.HeldFilter{}) {
		p.check(err)
		all = append(all, h)
	}
	return all
}

// A hand is one worker process.
type hand struct {
	p     *plant
	cmd   *exec.Cmd
	lines chan string
	ended chan error
}

func (p *plant) start() *hand {
	p.t.Helper()
	config, err := json.Marshal(p.child)
	p.check(err)
	h := &hand{p: p, cmd: exec.CommandContext(context.WithoutCancel(p.t.Context()), os.Args[0]), lines: make(chan string, 1000), ended: make(chan error, 1)}
	h.cmd.Env = append(os.Environ(), childVariable+"=worker", childConfigVariable+"="+string(config))
	if testing.Verbose() {
		h.cmd.Stderr = os.Stderr
	}
	in, err := h.cmd.StdinPipe() // ends with this process
	p.check(err)
	out, err := h.cmd.StdoutPipe()
	p.check(err)
	p.check(h.cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(h.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			h.lines <- scan.Text()
		}
	}()
	go func() {
		<-done
		h.ended <- h.cmd.Wait()
		close(h.ended)
		_ = in.Close()
	}()
	p.t.Cleanup(func() {
		_ = h.cmd.Process.Kill() // it may have ended
		<-h.ended                //nolint:errcheck // it was killed, or its end was looked at
	})
	p.hand = h
	return h
}

// terminate sends SIGTERM, and returns how the process ended.
func (h *hand) terminate() error {
	h.p.t.Helper()
	h.p.check(h.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-h.ended:
		return err
	case <-time.After(within):
		return fmt.Errorf("still there %v after SIGTERM", within)
	}
}

// wait waits for a line.
func (h *hand) wait(want string) {
	h.p.t.Helper()
	timeout := time.After(within)
	for {
		select {
		case line, ok := <-h.lines:
			if !ok {
				h.p.t.Fatalf("the process ended before it printed %q", want)
			}
			if line == want {
				return
			}
		case <-timeout:
			h.p.t.Fatalf("the process has not printed %q within %v", want, within)
		}
	}
}

// until waits until done says so; a process that ends meanwhile is replaced,
// at most so many times.
func (p *plant) until(longest time.Duration, replacements int, done func() bool) (replaced int) {
	p.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(longest)
	for !done() {
		select {
		case <-tick.C:
		case <-p.hand.ended: //nolint:errcheck // that it ended is what counts
			if replaced == replacements {
				p.t.Fatalf("%d processes ended: effects are %v, held %d", replaced+1, p.effects(), len(p.held()))
			}
			replaced++
			p.start()
		case <-timeout:
			p.t.Fatalf("after %v, effects are %v, held %d", longest, p.effects(), len(p.held()))
		}
	}
	return replaced
}

// TestWorkerOnePoisonAmongGoodMessages: it kills each process that handles it,
// until it is set aside; the others take effect once.
func TestWorkerOnePoisonAmongGoodMessages(t *testing.T) {
	eachPlant(t, time.Second, func(p *plant) {
		for i := range 16 {
			m := &yekbar.Message{ID: fmt.Sprintf("m-%d", i+1), Payload: []byte("20ms")}
			if i == 4 {
				m.Payload = []byte("poison")
			}
			p.publish(m)
		}
		p.start()
		kills := p.until(4*time.Minute, 10, func() bool {
			return len(p.effects()) == 15 && len(p.held()) == 1
		})
		if err := p.hand.terminate(); err != nil {
			p.t.Errorf("the last process: %v", err)
		}
		if held := p.held()[0]; held.MessageID != "m-5" || held.Reason != yekbar.ReasonCrash || held.State != yekbar.StateDead {
			p.t.Errorf("held is %+v", held)
		}
		for id, n := range p.effects() {
			if n != 1 {
				p.t.Errorf("%s took effect %d times", id, n)
			}
		}
		if kills < 3 || kills > 5 {
			p.t.Errorf("it killed %d processes", kills)
		}
		if held, waiting := unacknowledged(p.t, p.s); held != 0 || waiting != 0 {
			p.t.Errorf("%d are unacknowledged and %d wait", held, waiting)
		}
	})
}

// TestWorkerRollingRestarts stops a worker with SIGTERM in the middle of a
// handler that is longer than its grace time, more often than any limit: no
// attempt is counted.
func TestWorkerRollingRestarts(t *testing.T) {
	eachPlant(t, 5*time.Second, func(p *plant) {
		p.child.Timeout = 10 * time.Second
		p.child.Worker.Grace = 100 * time.Millisecond
		p.publish(&yekbar.Message{ID: "long", Payload: []byte("2s")})
		for range 12 {
			h := p.start()
			h.wait("handling long")
			if err := h.terminate(); err != nil {
				p.t.Fatalf("after SIGTERM: %v", err)
			}
		}
		p.start()
		p.until(within, 0, func() bool { return p.effects()["long"] == 1 })
		if err := p.hand.terminate(); err != nil {
			p.t.Errorf("after SIGTERM: %v", err)
		}
		if held := p.held(); len(held) > 0 {
			p.t.Errorf("held is %+v", held[0])
		}
	})
}

// TestWorkerKilledKeepsTheCount kills workers between the attempts of a
// message that never works: it has ten attempts in all, over all processes.
func TestWorkerKilledKeepsTheCount(t *testing.T) {
	eachPlant(t, time.Second, func(p *plant) {
		p.publish(&yekbar.Message{ID: "never", Payload: []byte("fail")})
		p.start()
		kills := 0
		p.until(2*time.Minute, 20, func() bool {
			held := p.held()
			if len(held) == 1 && held[0].State == yekbar.StateDead {
				return true
			}
			if kills < 3 && p.attempts() > kills*2 {
				kills++
				p.check(p.hand.cmd.Process.Kill())
			}
			return false
		})
		if err := p.hand.terminate(); err != nil {
			p.t.Errorf("after SIGTERM: %v", err)
		}
		if held := p.held()[0]; held.Reason != yekbar.ReasonAttempts || held.Attempts != 10 || len(held.Errors) != 10 {
			p.t.Errorf("held is %+v", held)
		}
		if len(p.effects()) != 0 {
			p.t.Errorf("effects are %v", p.effects())
		}
	})
}

// attempts returns how many failures are recorded.
func (p *plant) attempts() (n int) {
	p.t.Helper()
	table := "yekbar_attempts"
	if strings.HasPrefix(p.child.Driver, "pgx") {
		table = "yekbar.attempts"
	}
	p.check(p.db.QueryRowContext(p.t.Context(), "SELECT coalesce(max(failed), 0) FROM "+table).Scan(&n))
	return n
}
