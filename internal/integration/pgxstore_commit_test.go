package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/proxy"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
)

// takeOneStatement is takeOne for AttemptStatements.
var takeOneStatement = [][]yekbar.Statement{{{SQL: "UPDATE stock SET units = units - 1 WHERE sku = 'tea'", MinRows: 1}}}

type attemptWay func(context.Context, *shop, string) ([]yekbar.Claimed, error)

// attemptWays are the ways to apply a message.
var attemptWays = map[string]attemptWay{
	"handler": func(ctx context.Context, s *shop, id string) ([]yekbar.Claimed, error) {
		return s.store.Attempt(ctx, shopClaim(id), takeOne)
	},
	"queue": func(ctx context.Context, s *shop, id string) ([]yekbar.Claimed, error) {
		return s.store.Attempt(ctx, shopClaim(id), func(ctx context.Context, tx pgx.Tx, _ []int) error {
			return pgxstore.Queue(ctx, tx, takeOneStatement[0][0])
		})
	},
	"statements": func(ctx context.Context, s *shop, id string) ([]yekbar.Claimed, error) {
		return s.store.AttemptStatements(ctx, shopClaim(id), takeOneStatement)
	},
}

// applyAgain is the next delivery: it finds the claim or applies the message,
// and either way it took effect once.
func (s *shop) applyAgain(way attemptWay, id string, wantFresh bool) {
	s.Helper()
	got, err := way(s.Context(), s, id)
	if err != nil || got[0].Fresh != wantFresh {
		s.Errorf("the next delivery: %+v, %v; want fresh: %v", got, err, wantFresh)
	}
	s.wantStored(1)
}

// The connection is cut, or falls silent, around COMMIT.
func TestPgxStoreCommitCut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     proxy.Action
		stored bool
	}{
		"before":        {proxy.CutBefore, false},
		"after":         {proxy.CutAfterReply, true},
		"silent before": {proxy.SilentBefore, false},
		"silent after":  {proxy.SilentAfterReply, true},
	} {
		for way, attempt := range attemptWays {
			silent := strings.HasPrefix(name, "silent")
			if silent && way == "queue" {
				continue // 15 s each; the handler's way is the same
			}
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				url := servers.PostgreSQL(t)
				p := proxy.Start(t, url)
				s := openShop(t, url, p.URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
				fault := p.Arm(proxy.Fault{On: proxy.Commit, Do: c.do})
				ctx := t.Context()
				if silent {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
					defer cancel()
				}
				_, err := attempt(ctx, s, "m-1")
				wantIs(t, err, yekbar.ErrCommitUnknown)
				if yekbar.CountsAsAttempt(err) {
					t.Error("an unknown COMMIT counts as an attempt")
				}
				if err := fault.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if silent && !c.stored && way == "handler" && s.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND backend_xid IS NOT NULL AND datname = current_database()") != 1 {
					t.Error("the old backend does not hold the claim; the test shows nothing")
				}
				s.applyAgain(attempt, "m-1", !c.stored)
			})
		}
	}
}

// dawdle holds COMMIT up after a change of stock.
const dawdle = `CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER dawdle AFTER UPDATE ON stock DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle()`

const asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"

// The server is killed while it commits.
func TestPgxStoreServerKilledAtCommit(t *testing.T) {
	t.Parallel()
	for way, attempt := range attemptWays {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			server := servers.StartPostgreSQL(t, servers.Options{})
			s := openShop(t, server.NewDatabase(t), "", nil)
			s.exec(dawdle)
			done := make(chan error, 1)
			go func() { _, err := attempt(t.Context(), s, "m-1"); done <- err }()
			s.waitFor(asleep, 1)
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			wantIs(t, <-done, yekbar.ErrCommitUnknown)
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			s.beside.Reset()
			s.exec("DROP TRIGGER dawdle ON stock")
			s.pool.Reset()
			s.applyAgain(attempt, "m-1", true)
		})
	}
}

// A backend is terminated: in the handler that is an outage, at COMMIT nobody
// knows.
func TestPgxStoreBackendTerminated(t *testing.T) {
	t.Parallel()
	const end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "
	s := newShop(t)
	for _, hide := range []bool{false, true} {
		_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
			if s.number(end+"state = 'idle in transaction'") != 1 {
				return errors.New("no backend was ended")
			}
			if err := takeOne(ctx, tx, nil); err == nil || !hide {
				return err
			}
			return nil
		})
		wantIs(t, err, yekbar.ErrUnavailable)
		if hide {
			wantIs(t, err, yekbar.ErrRolledBack)
		}
	}
	s.wantStored(0)
	s.exec(dawdle)
	done := make(chan error, 1)
	go func() { _, err := s.store.Attempt(t.Context(), shopClaim("m-1"), takeOne); done <- err }()
	s.waitFor(asleep, 1)
	s.number(end + "wait_event = 'PgSleep'")
	wantIs(t, <-done, yekbar.ErrCommitUnknown)
	s.exec("DROP TRIGGER dawdle ON stock")
	s.applyAgain(attemptWays["handler"], "m-1", true)
}

// Whoever cancels the wait for a synchronous standby gets a success with a
// warning; we don't know, and the next delivery finds the claim.
func TestPgxStoreSynchronousWaitCancelled(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgreSQL(t, servers.Options{
		Settings: map[string]string{"synchronous_standby_names": "nobody", "synchronous_commit": "local"},
	})
	for _, mode := range pgxModes {
		for way, attempt := range attemptWays {
			t.Run(mode.String()+", "+way, func(t *testing.T) {
				// Only the store's own pool waits for the standby, which
				// isn't there.
				s := openShop(t, server.NewDatabase(t), "", func(c *pgxpool.Config) {
					c.ConnConfig.DefaultQueryExecMode = mode
					c.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
				})
				done := make(chan error, 1)
				go func() { _, err := attempt(t.Context(), s, "m-1"); done <- err }()
				s.waitFor("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()", 1)
				s.number("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()")
				wantIs(t, <-done, yekbar.ErrCommitUnknown)
				s.applyAgain(attempt, "m-1", false)
			})
		}
	}
}

// The caller goes away at a random moment, many times: nothing is ever stored
// by half, and what reports the caller's end is not stored at all.
func TestPgxStoreCancelledAnyMoment(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const rounds = 300
	stored, cancelled := 0, 0
	ways := []string{"handler", "queue", "statements"}
	for i := range rounds {
		way, id := ways[i%3], fmt.Sprintf("m-%d", i)
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(rand.N(8*time.Millisecond), cancel)
		got, err := attemptWays[way](ctx, s, id)
		timer.Stop()
		cancel()
		n := s.number("SELECT count(*) FROM yekbar.processed_messages WHERE message_id = $1", id)
		switch {
		case err == nil && got[0].Fresh && n == 1:
			stored++
		case errors.Is(err, context.Canceled) && !errors.Is(err, yekbar.ErrCommitUnknown) && n == 0:
			cancelled++
		default:
			t.Errorf("%s: %+v, %v, and %d rows", way, got, err, n)
		}
	}
	t.Logf("%d stored, %d cancelled", stored, cancelled)
	s.wantStored(stored)
}

// Cancelled at each step of an attempt, exactly.
func TestPgxStoreCancelledAtEachStep(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	cancelAsleep := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			s.waitFor(asleep, 1)
			cancel()
		}()
		return ctx, cancel
	}
	for _, sql := range []string{"SELECT pg_sleep(60)", "UPDATE stock SET units = 0 WHERE pg_sleep(60) IS NOT NULL"} {
		for _, hide := range []bool{false, true} {
			ctx, cancel := cancelAsleep()
			_, err := s.store.Attempt(ctx, shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
				if _, err := tx.Exec(ctx, sql); !hide {
					return err
				}
				return nil
			})
			cancel()
			wantIs(t, err, context.Canceled)
			if errors.Is(err, yekbar.ErrUnavailable) {
				t.Errorf("the caller's end is taken for an outage: %v", err)
			}
			s.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()")
			s.waitFor(asleep, 0)
		}
	}
	// In statements the server is asked to stop, and says so.
	ctx, cancel := cancelAsleep()
	_, err := s.store.AttemptStatements(ctx, shopClaim("m-1"), [][]yekbar.Statement{{{SQL: "SELECT pg_sleep(60)"}}})
	cancel()
	wantIs(t, err, context.Canceled)
	if errors.Is(err, yekbar.ErrCommitUnknown) {
		t.Error(err)
	}
	// Between the handler's return and COMMIT.
	ctx, cancel = context.WithCancel(t.Context())
	_, err = s.store.Attempt(ctx, shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
		err := takeOne(ctx, tx, nil)
		cancel()
		return err
	})
	wantIs(t, err, context.Canceled)
	s.wantStored(0)
}

// Five at once on a pool of one connection: one applies.
func TestPgxStoreOneConnectionFiveWaiters(t *testing.T) {
	t.Parallel()
	for way, attempt := range attemptWays {
		s := openShop(t, servers.PostgreSQL(t), "", func(c *pgxpool.Config) { c.MaxConns = 1 })
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := attempt(t.Context(), s, "m-1"); err != nil {
					t.Errorf("%s: %v", way, err)
				}
			})
		}
		all.Wait()
		s.wantStored(1)
	}
}

// Without the guard a ROLLBACK and BEGIN through Conn loses the message: the
// attempt reports success and stores nothing. A server on which every
// transaction has the same id shows that the guard is what notices.
func TestPgxStoreGuardIsWhatNotices(t *testing.T) {
	t.Parallel()
	escape := func(ctx context.Context, tx pgx.Tx, _ []int) error {
		_, err := tx.Conn().Exec(ctx, "ROLLBACK; BEGIN")
		return errors.Join(err, takeOne(ctx, tx, nil))
	}
	s := newShop(t)
	_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), escape)
	boundary := (*yekbar.BoundaryError)(nil)
	if !errors.As(err, &boundary) || !boundary.Escaped {
		t.Errorf("with the guard: %v", err)
	}
	s.wantStored(0)

	twin := openShop(t, servers.PostgreSQL(t), "", func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "twin, pg_catalog, public"
	})
	twin.exec("CREATE SCHEMA twin; CREATE FUNCTION twin.pg_current_xact_id_if_assigned() RETURNS xid8 LANGUAGE sql AS $$ SELECT '7'::xid8 $$")
	if got, err := twin.store.Attempt(t.Context(), shopClaim("m-1"), escape); err != nil || !got[0].Fresh {
		t.Fatalf("without the guard: %+v, %v; the twin is not broken, and shows nothing", got, err)
	}
	if twin.number("SELECT count(*) FROM yekbar.processed_messages") != 0 {
		t.Error("without the guard the claim is there; the twin shows nothing")
	}
}

// A COMMIT behind the store's back whose handler then fails must not be called
// rolled back.
func TestPgxStoreEscapedAndFailed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, sql := range []string{"COMMIT", "COMMIT; BEGIN", "COMMIT AND CHAIN", "COMMIT; BEGIN; SAVEPOINT a"} {
		for _, fail := range []string{"", "SELECT 1/0"} {
			_, err := s.store.Attempt(t.Context(), shopClaim(sql+fail), func(ctx context.Context, tx pgx.Tx, _ []int) error {
				err := takeOne(ctx, tx, nil)
				_, connErr := tx.Conn().Exec(ctx, sql)
				if fail != "" {
					_, _ = tx.Conn().Exec(ctx, fail)
				}
				return errors.Join(err, connErr, errors.New("the handler's own"))
			})
			boundary := (*yekbar.BoundaryError)(nil)
			if !errors.As(err, &boundary) || !boundary.Escaped {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	s.wantStored(8)
}
