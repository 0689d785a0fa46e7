package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// databaseBound is how long making or dropping a database may take.
const databaseBound = 30 * time.Second

// inMain is set by Main: without it nobody would stop the shared servers.
var inMain atomic.Bool

// Main runs a package's tests and stops the servers that they started, also on
// SIGINT and SIGTERM. Call it from TestMain and exit with its result.
func Main(m *testing.M) int {
	inMain.Store(true)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s := <-signals
		if err := Shutdown(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the test servers:", err)
		}
		os.Exit(128 + int(s.(syscall.Signal))) //nolint:forbidigo // the tests' goroutines can't be told to end
	}()
	code := m.Run()
	if err := Shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test servers:", err)
		return max(code, 1)
	}
	return code
}

// shared is the server that a process's tests have in common.
type shared struct {
	once sync.Once
	url  string
	err  error
}

var sharedServers = map[Kind]*shared{
	KindPostgreSQL: {}, KindMariaDB: {}, KindPgBouncer: {}, KindNATS: {},
}

// sharedURL returns the URL in the kind's variable, or starts a server.
func sharedURL(kind Kind) (string, error) {
	s := sharedServers[kind]
	s.once.Do(func() {
		if s.url = os.Getenv(kind.Variable()); s.url != "" {
			return
		}
		if !inMain.Load() {
			s.err = errors.New("this test package starts servers and has nobody to stop them; add: func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }")
			return
		}
		var o Options
		if kind == KindPgBouncer {
			if o.Upstream, s.err = sharedURL(KindPostgreSQL); s.err != nil {
				return
			}
		}
		var server *Server
		if server, s.err = Start(context.Background(), kind, o); s.err == nil {
			s.url = server.URL()
		}
	})
	return s.url, s.err
}

// need ends the test when there is no server: skipped when it isn't installed
// and not required, failed otherwise.
func need(t testing.TB, err error) {
	t.Helper()
	var missing *MissingError
	switch {
	case err == nil:
	case errors.As(err, &missing) && !Required():
		t.Skip("NOT TESTED: " + err.Error())
	default:
		t.Fatal(err)
	}
}

// PostgreSQL returns the URL (postgres://…) of an empty database in the shared
// server. After the test it is emptied for another one, or dropped, whoever is
// still connected.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	return borrow(t, KindPostgreSQL, recycled)
}

// PgBouncer returns the URL of a fresh database behind a pooler in transaction
// mode.
func PgBouncer(t testing.TB) string {
	t.Helper()
	return borrow(t, KindPgBouncer, fresh(createPostgreSQL))
}

// MariaDB returns the URL (mysql://…) of a fresh database in the shared server,
// which is a MySQL where only that is installed. MariaDBConfig makes the
// driver's configuration of it.
func MariaDB(t testing.TB) string {
	t.Helper()
	return borrow(t, KindMariaDB, fresh(createMariaDB))
}

// NATS returns the URL of the shared server with JetStream. Streams and
// subjects are everybody's: name them with UniqueName.
func NATS(t testing.TB) string {
	t.Helper()
	url, err := sharedURL(KindNATS)
	need(t, err)
	return url
}

// UniqueName returns a name that no other test has: lower-case letters and
// digits, the prefix first, good for databases, streams, subjects and users.
func UniqueName(prefix string) string {
	return prefix + strings.ToLower(rand.Text()[:12])
}

// A create makes a database of that name.
type create func(ctx context.Context, admin, name string) (url string, drop func(context.Context) error, err error)

// A lend returns an empty database, and how to give it back.
type lend func(ctx context.Context, admin string) (url string, giveBack func(context.Context) error, err error)

// fresh lends databases that are made and dropped.
func fresh(c create) lend {
	return func(ctx context.Context, admin string) (string, func(context.Context) error, error) {
		return c(ctx, admin, UniqueName("yekbar_"))
	}
}

// borrow returns the URL of an empty database in the shared server until the
// test ends.
func borrow(t testing.TB, kind Kind, l lend) string {
	t.Helper()
	admin, err := sharedURL(kind)
	need(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), databaseBound)
	defer cancel()
	url, giveBack, err := l(ctx, admin)
	if err != nil {
		t.Fatalf("an empty database in %s: %v", kind, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), databaseBound)
		defer cancel()
		if err := giveBack(ctx); err != nil {
			t.Errorf("empty or drop the test's database in %s: %v", kind, err)
		}
	})
	return url
}

// StartPostgreSQL starts a server of the test's own.
func StartPostgreSQL(t testing.TB, o Options) *Server {
	t.Helper()
	return startFor(t, KindPostgreSQL, o)
}

// StartMariaDB starts a server of the test's own.
func StartMariaDB(t testing.TB, o Options) *Server {
	t.Helper()
	return startFor(t, KindMariaDB, o)
}

// StartPgBouncer starts a pooler of the test's own in front of o.Upstream.
func StartPgBouncer(t testing.TB, o Options) *Server {
	t.Helper()
	return startFor(t, KindPgBouncer, o)
}

// StartNATS starts a server of the test's own.
func StartNATS(t testing.TB, o Options) *Server {
	t.Helper()
	return startFor(t, KindNATS, o)
}

// startFor starts a server that ends with the test. A failed test shows the
// end of its log.
func startFor(t testing.TB, kind Kind, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), kind, o)
	need(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s's log:\n%s", kind, s.Log())
		}
		if err := s.Close(); err != nil {
			t.Errorf("stop %s: %v", kind, err)
		}
	})
	return s
}

// NewDatabase returns the URL of a fresh database in this server, which goes
// with the server.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	create := createPostgreSQL
	switch s.kind {
	case KindMariaDB:
		create = createMariaDB
	case KindNATS:
		t.Fatal("NATS has no databases")
	}
	ctx, cancel := context.WithTimeout(context.Background(), databaseBound)
	defer cancel()
	url, _, err := create(ctx, s.URL(), UniqueName("yekbar_"))
	if err != nil {
		t.Fatalf("a fresh database in %s: %v", s.kind, err)
	}
	return url
}

// SkipWithout skips the test, or fails it where servers are required, when a
// server of the kind can't be started here.
func SkipWithout(t testing.TB, kind Kind) {
	t.Helper()
	need(t, Installed(kind))
}

// UntilGone waits until none of the processes runs, and fails the test when
// one still does after half a minute. A killed child counts as gone before
// anybody has waited for it.
func UntilGone(t testing.TB, pids ...int) {
	t.Helper()
	if err := waitGone(pids, 30*time.Second); err != nil {
		t.Fatal(err)
	}
}
