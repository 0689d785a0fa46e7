package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/proxy"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// onServers runs a test over each driver that has a wire.
func onServers(t *testing.T, run func(t *testing.T, d sqlDriver)) {
	for _, name := range []string{"pgx", "pq", "mysql"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, driverNamed(t, name)) })
	}
}

// behindProxy is a store whose connections go through a proxy.
func behindProxy(t *testing.T, d sqlDriver, f sqlFixture) (*sqlTest, *proxy.Proxy) {
	t.Helper()
	var p *proxy.Proxy
	if d.name == "mysql" {
		p = proxy.Start(t, servers.MariaDB(t))
		d.dsn = func(t testing.TB) string { return mariaDSN(t, p.URL()) }
	} else {
		p = proxy.Start(t, servers.PostgreSQL(t))
		d.dsn = func(testing.TB) string { return p.URL() }
	}
	return newSQLTest(t, d, f), p
}

// A connection that breaks at COMMIT says nothing about the outcome; the next
// attempt's claim does.
func TestSQLStoreCutAtCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		do      proxy.Action
		applied bool // by the COMMIT nobody answered
	}{
		{"before it arrives", proxy.CutBefore, false},
		{"after it was done", proxy.CutAfterReply, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			onServers(t, func(t *testing.T, d sqlDriver) {
				s, p := behindProxy(t, d, sqlFixture{})
				fault := p.Arm(proxy.Fault{On: proxy.Commit, Do: c.do})
				fresh, err := s.attempt(s.ctx, "m-1", nil)
				s.wantError(err, yekbar.ErrCommitUnknown)
				if fresh || yekbar.CountsAsAttempt(err) {
					t.Errorf("fresh %v, counts %v", fresh, yekbar.CountsAsAttempt(err))
				}
				if err := fault.Wait(s.ctx); err != nil {
					t.Fatal(err)
				}
				if fresh := s.settle("m-1"); fresh == c.applied {
					t.Errorf("the next attempt is fresh: %v", fresh)
				}
				s.want("m-1", 1, 1)
			})
		})
	}
}

// A connection that goes silent leaves a backend that holds the claim, and
// nobody tells its server. The store ends it before its next transaction.
func TestSQLStoreSilentAtCommit(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, d sqlDriver) {
		s, p := behindProxy(t, d, sqlFixture{})
		fault := p.Arm(proxy.Fault{On: proxy.Commit, Do: proxy.SilentBefore})
		begun := time.Now()
		_, err := s.attempt(s.ctx, "m-1", nil)
		s.wantError(err, yekbar.ErrCommitUnknown)
		if took := time.Since(begun); took > 40*time.Second {
			t.Errorf("COMMIT was waited for %v", took)
		}
		if err := fault.Wait(s.ctx); err != nil {
			t.Fatal(err)
		}
		// A store that doesn't know of the old backend waits for it in vain,
		// as this one would for hours.
		twin := sqlstore.New(d.open(t, s.dsn, true), d.dialect, sqlstore.Config{})
		_, err = twin.Attempt(s.ctx, sqlClaim("m-1"), func(context.Context, *sql.Tx, []int) error { return nil })
		s.wantError(err, yekbar.ErrInFlight)
		if !s.settle("m-1") {
			t.Error("the message was taken for a duplicate")
		}
		s.want("m-1", 1, 1)
	})
}

// Contexts that end at random moments leave nothing, or all.
func TestSQLStoreCancelledAtRandom(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, d sqlDriver) {
		s := newSQLTest(t, d, sqlFixture{})
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		// The moments spread over as long as an attempt takes here, so that
		// about half of them come too late.
		span := time.Millisecond
		committed, cancelled := 0, 0
		for i := range 1000 {
			id := fmt.Sprintf("m-%d", i)
			ctx, cancel := context.WithTimeout(s.ctx, time.Duration(random.Int64N(int64(span))))
			fresh, err := s.attempt(ctx, id, func(ctx context.Context, tx *sql.Tx) error { return s.Add(ctx, tx, id, 1) })
			cancel()
			switch {
			case fresh:
				committed++
				span = span * 49 / 50
			case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, yekbar.ErrCommitUnknown):
				cancelled++
				span = span * 51 / 50
			default:
				t.Fatalf("attempt %d: fresh %v, %v", i, fresh, err)
			}
		}
		t.Logf("%d committed, %d cancelled", committed, cancelled)
		if committed < 100 || cancelled < 100 {
			t.Error("the moments are not spread over attempts")
		}
		var halves int
		if err := s.beside.QueryRow("SELECT COUNT(*) FROM storetest_counters WHERE name LIKE 'm-%' AND n <> 2").Scan(&halves); err != nil || halves > 0 {
			t.Errorf("%d changes are halves, %v", halves, err)
		}
		s.want("nobody", committed, 0)
	})
}

// database/sql tries again by itself when a driver says ErrBadConn: never a
// claim outside of its transaction. Every idle connection is dead here.
func TestSQLStoreDeadIdleConnections(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, d sqlDriver) {
		s := newSQLTest(t, d, sqlFixture{})
		total := 0
		for round := range 10 {
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() { s.settle(fmt.Sprintf("m-%d-%d", round, i)) })
			}
			all.Wait()
			total += 4
			s.killOthers(d)
			for range 4 { // the reading pool's connections are dead too, and may say so once each
				_, err := s.Read(s.ctx, "m")
				t.Logf("reading: %v", err)
			}
			id := fmt.Sprintf("m-%d", round)
			if fresh, err := s.attempt(s.ctx, id, nil); err == nil && !fresh {
				t.Error("a duplicate of nothing")
			}
			s.settle(id)
			total++
			if _, counter := s.stored(id); counter != 1 {
				t.Errorf("counter %q is %d", id, counter)
			}
		}
		s.want("m-0", total, 1)
	})
}

// killOthers ends all connections to the database but one.
func (s *sqlTest) killOthers(d sqlDriver) {
	s.Helper()
	if d.dialect == sqlstore.PostgreSQL {
		s.outside("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		return
	}
	rows, err := s.beside.QueryContext(s.ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()")
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			s.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		s.Fatal(err)
	}
	for _, id := range ids {
		if _, err := s.beside.ExecContext(s.ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil {
			s.Logf("KILL %d: %v", id, err) // gone by itself
		}
	}
}

// What a handler keeps is of no use after its return.
func TestSQLStoreKeptHandles(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d sqlDriver) {
		for _, fail := range []bool{false, true} {
			s := newSQLTest(t, d, sqlFixture{})
			s.outside("INSERT INTO storetest_counters VALUES ('a', 0), ('b', 0)")
			var (
				kept *sql.Tx
				rows *sql.Rows
				stmt *sql.Stmt
			)
			_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) (err error) {
				kept = tx
				if stmt, err = tx.PrepareContext(ctx, "UPDATE storetest_counters SET n = n + 1 WHERE name = 'a'"); err != nil { //nolint:sqlclosecheck // left open on purpose
					return err
				}
				if rows, err = tx.QueryContext(ctx, "SELECT name FROM storetest_counters"); err != nil { //nolint:rowserrcheck,sqlclosecheck // left open on purpose
					return err
				}
				rows.Next()
				if fail {
					return errors.New("no")
				}
				return nil
			})
			if (err != nil) != fail {
				t.Fatal(err)
			}
			if _, err := stmt.ExecContext(s.ctx); err == nil {
				t.Error("a kept statement was executed")
			}
			if _, err := kept.ExecContext(s.ctx, "UPDATE storetest_counters SET n = n + 1 WHERE name = 'a'"); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("a kept transaction: %v", err)
			}
			if err := kept.Commit(); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("Commit of a kept transaction: %v", err)
			}
			for rows.Next() {
				t.Error("kept rows can be read")
			}
			want := 1
			if fail {
				want = 0
			}
			s.want("a", want, 0)
		}
	})
}
