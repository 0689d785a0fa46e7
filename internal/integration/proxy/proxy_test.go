package proxy_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar/internal/integration/proxy"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// bound is for what should happen at once; short for what must not happen.
const (
	bound = 20 * time.Second
	short = 200 * time.Millisecond
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// session is one client's connection, which inserts a row in a transaction.
type session interface {
	// insert runs BEGIN, INSERT, COMMIT and returns the error of COMMIT.
	insert(ctx context.Context, id int) error
	close()
}

// client is one database and driver mode.
type client struct {
	url  func(testing.TB) string
	dial func(t *testing.T, url string) session
	rows func(t *testing.T, url string) int
}

// TestFaults runs every action at COMMIT, on every database and driver mode,
// and looks at the server's side by the direct way.
func TestFaults(t *testing.T) {
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, test := range []struct {
				name      string
				do        proxy.Action
				silent    bool
				committed int
			}{
				{"cut before", proxy.CutBefore, false, 0},
				{"cut after the reply", proxy.CutAfterReply, false, 1},
				{"silent before", proxy.SilentBefore, true, 0},
				{"silent after the reply", proxy.SilentAfterReply, true, 1},
			} {
				t.Run(test.name, func(t *testing.T) {
					direct := c.url(t)
					p := proxy.Start(t, direct)
					ok(t, prepare(t, c, direct))
					s := c.dial(t, p.URL())
					defer s.close()
					ok(t, s.insert(within(t, bound), 1)) // nothing is armed: it works
					fault := p.Arm(proxy.Fault{On: proxy.Commit, Do: test.do})
					ctx := within(t, bound)
					if test.silent {
						ctx = within(t, short)
					}
					err := s.insert(ctx, 2)
					if err == nil {
						t.Fatal("COMMIT succeeded for the client")
					}
					if timedOut := errors.Is(err, context.DeadlineExceeded) || isTimeout(err); timedOut != test.silent {
						t.Errorf("the client saw %v; a timeout is wanted: %v", err, test.silent)
					}
					ok(t, fault.Wait(within(t, bound)))
					if got := c.rows(t, direct); got != 1+test.committed {
						t.Errorf("%d rows, want %d", got, 1+test.committed)
					}
				})
			}
			t.Run("delay", func(t *testing.T) {
				direct := c.url(t)
				p := proxy.Start(t, direct)
				ok(t, prepare(t, c, direct))
				s := c.dial(t, p.URL())
				defer s.close()
				fault := p.Arm(proxy.Fault{On: proxy.Commit, Do: proxy.Delay, Delay: short})
				begin := time.Now()
				ok(t, s.insert(within(t, bound), 1))
				if took := time.Since(begin); took < short {
					t.Errorf("COMMIT came after %v, want a delay of %v", took, short)
				}
				ok(t, fault.Wait(within(t, bound)))
			})
			t.Run("the second match", func(t *testing.T) {
				direct := c.url(t)
				p := proxy.Start(t, direct)
				ok(t, prepare(t, c, direct))
				s := c.dial(t, p.URL())
				defer s.close()
				fault := p.Arm(proxy.Fault{On: proxy.Contains("insert into item"), Pass: 1, Do: proxy.CutBefore})
				ok(t, s.insert(within(t, bound), 1))
				if err := s.insert(within(t, bound), 2); err == nil {
					t.Error("the second INSERT went through")
				}
				ok(t, fault.Wait(within(t, bound)))
				if got := c.rows(t, direct); got != 1 {
					t.Errorf("%d rows, want 1", got)
				}
			})
		})
	}
}

// prepare makes the table.
func prepare(t *testing.T, c client, direct string) error {
	return tables[mustParse(t, direct).Scheme](t, direct)
}

func mustParse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	ok(t, err)
	return u
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestRefuseAndAccept(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, echo(t))
	address := mustParse(t, p.URL()).Host
	ok(t, p.Refuse())
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a refusing proxy: %v, want connection refused", err)
	}
	ok(t, p.Accept())
	ok(t, p.Accept())
	conn, err := net.Dial("tcp", address)
	ok(t, err)
	defer conn.Close()
	if got := ask(t, conn); got != "PONG\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestSilenceCutAllAndSpeak(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, echo(t))
	address := mustParse(t, p.URL()).Host
	before, err := net.Dial("tcp", address)
	ok(t, err)
	defer before.Close()
	if got := ask(t, before); got != "PONG\r\n" {
		t.Errorf("got %q", got)
	}
	p.Silence()
	after, err := net.Dial("tcp", address)
	ok(t, err)
	defer after.Close()
	for _, conn := range []net.Conn{before, after} {
		ok(t, conn.SetDeadline(time.Now().Add(short)))
		if got := ask(t, conn); got != "timeout" {
			t.Errorf("a silent connection answered %q", got)
		}
		ok(t, conn.SetDeadline(time.Now().Add(bound)))
	}
	p.CutAll()
	if got := ask(t, before); got != "ended" {
		t.Errorf("a cut connection: %q", got)
	}
	p.Speak()
	again, err := net.Dial("tcp", address)
	ok(t, err)
	defer again.Close()
	if got := ask(t, again); got != "PONG\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestNewRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "http://127.0.0.1:1", "postgres://user:secret@127.0.0.1", "postgres://user:secret@127.0.0.1:x"} {
		p, err := proxy.New(bad)
		if err == nil {
			t.Errorf("%q was taken", bad)
			ok(t, p.Close())
			continue
		}
		if text := err.Error(); len(text) == 0 || contains(text, "secret") {
			t.Errorf("%q: the error shows the password: %v", bad, err)
		}
	}
}

func TestAWaitThatNeverFiresEnds(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, echo(t))
	fault := p.Arm(proxy.Fault{Do: proxy.CutBefore})
	if err := fault.Wait(within(t, short)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAReplyThatNeverComesIsSaid(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, echo(t))
	fault := p.Arm(proxy.Fault{On: proxy.Contains("quit"), Do: proxy.CutAfterReply})
	conn, err := net.Dial("tcp", mustParse(t, p.URL()).Host)
	ok(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("QUIT\r\n"))
	ok(t, err)
	if err := fault.Wait(within(t, bound)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server hung up instead of a reply, and the fault says %v", err)
	}
}

func TestASilentClientsTransactionStaysOpenAtTheServer(t *testing.T) {
	t.Parallel()
	c := clients["PostgreSQL simple protocol"]
	direct := c.url(t)
	p := proxy.Start(t, direct)
	ok(t, prepare(t, c, direct))
	s := c.dial(t, p.URL())
	fault := p.Arm(proxy.Fault{On: proxy.Commit, Do: proxy.SilentBefore})
	if err := s.insert(within(t, short), 1); err == nil {
		t.Fatal("COMMIT succeeded for the client")
	}
	ok(t, fault.Wait(within(t, bound)))
	s.close()
	if n := backends(t, direct, "idle in transaction"); n != 1 {
		t.Errorf("%d transactions are open at the server, want the dead client's", n)
	}
	p.CutAll()
	untilNoBackend(t, direct, "idle in transaction")
}
