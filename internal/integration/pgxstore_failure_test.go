package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
)

// A server that speaks German: nothing depends on a message's words.
func TestPgxStoreGerman(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgreSQL(t, servers.Options{Language: "de"})
	s := openShop(t, server.NewDatabase(t), "", nil)
	collide := "INSERT INTO stock VALUES ('tea', 1)"
	_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
		_, err := tx.Exec(ctx, collide)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "doppelter Schlüsselwert") || !yekbar.CountsAsAttempt(err) {
		t.Errorf("a unique violation of the business: %v", err)
	}
	if _, err := s.store.AttemptStatements(t.Context(), shopClaim("m-1"), [][]yekbar.Statement{{{SQL: collide}}}); err == nil {
		t.Error("a unique violation of the business, as a statement: no error")
	}
	re := (*yekbar.RowsError)(nil)
	_, err = s.store.AttemptStatements(t.Context(), shopClaim("m-1"), [][]yekbar.Statement{{{SQL: "DELETE FROM stock WHERE sku = 'none'", MinRows: 2}}})
	if !errors.As(err, &re) || re.Rows != 0 {
		t.Errorf("too few rows: %v", err)
	}
	s.wantStored(0)
	for _, way := range attemptWays {
		if _, err := way(t.Context(), s, "m-1"); err != nil {
			t.Error(err)
		}
	}
	s.wantStored(1)
	end, release := s.hold("m-2")
	c := shopClaim("m-2")
	c[0].Wait = 20 * time.Millisecond
	_, err = s.store.Attempt(t.Context(), c, takeOne)
	wantIs(t, err, yekbar.ErrInFlight)
	release <- nil
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// hold keeps an attempt of id open until something is sent to release.
func (s *shop) hold(id string) (end <-chan error, release chan<- error) {
	done, wait, open := make(chan error, 1), make(chan error, 1), make(chan struct{})
	go func() {
		_, err := s.store.Attempt(s.Context(), shopClaim(id), func(ctx context.Context, tx pgx.Tx, _ []int) error {
			close(open)
			return errors.Join(<-wait, takeOne(ctx, tx, nil))
		})
		done <- err
	}()
	<-open
	return done, wait
}

// What COMMIT itself refuses leaves nothing, and is what it is.
func TestPgxStoreCommitRefused(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shop) {
		s.exec("CREATE TABLE slots (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO slots VALUES (1)")
		for name, attempt := range map[string]func() error{
			"handler": func() error {
				_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
					_, err := tx.Exec(ctx, "INSERT INTO slots VALUES (1)")
					return err
				})
				return err
			},
			"statements": func() error {
				_, err := s.store.AttemptStatements(t.Context(), shopClaim("m-1"), [][]yekbar.Statement{{{SQL: "INSERT INTO slots VALUES (1)"}}})
				return err
			},
		} {
			err := attempt()
			pgErr := (*pgconn.PgError)(nil)
			if !errors.As(err, &pgErr) || pgErr.Code != "23505" || !yekbar.CountsAsAttempt(err) || errors.Is(err, yekbar.ErrTransient) {
				t.Errorf("%s: a deferred constraint: %v", name, err)
			}
			s.wantStored(0)
		}
	})
}

// Two transactions that read what the other writes: one can't commit.
func TestPgxStoreSerializationFailureAtCommit(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	store := pgxstore.New(s.pool, pgxstore.Config{Isolation: pgx.Serializable})
	s.exec("INSERT INTO stock VALUES ('salt', 1)")
	skew := func(from, to string) func(context.Context, pgx.Tx, []int) error {
		return func(ctx context.Context, tx pgx.Tx, _ []int) error {
			_, err := tx.Exec(ctx, "UPDATE stock SET units = (SELECT units FROM stock WHERE sku = $1) WHERE sku = $2", from, to)
			return err
		}
	}
	inner := error(nil)
	_, err := store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
		if err := skew("tea", "salt")(ctx, tx, nil); err != nil {
			return err
		}
		_, inner = store.Attempt(ctx, shopClaim("m-2"), skew("salt", "tea"))
		return nil
	})
	if inner != nil {
		t.Fatal(inner)
	}
	wantIs(t, err, yekbar.ErrTransient)
	if errors.Is(err, yekbar.ErrRolledBack) {
		t.Errorf("a failure at COMMIT is taken for a swallowed error: %v", err)
	}
	if n := s.number("SELECT count(*) FROM yekbar.processed_messages"); n != 1 {
		t.Errorf("%d claims", n)
	}
}

// The claim's lock timeout is the claim's alone, and the session's own setting
// comes back, wherever it was set.
func TestPgxStoreLockTimeoutComesBack(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*pgxpool.Config){
		"default": func(*pgxpool.Config) {},
		"startup": func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "77777" },
		"SET": func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SET lock_timeout = 77777")
				return err
			}
		},
	} {
		for _, mode := range pgxModes {
			t.Run(name+", "+mode.String(), func(t *testing.T) {
				t.Parallel()
				s := openShop(t, servers.PostgreSQL(t), "", func(c *pgxpool.Config) {
					set(c)
					c.ConnConfig.DefaultQueryExecMode = mode
				})
				want := "77777ms"
				if name == "default" {
					want = "0"
				}
				look := func(ctx context.Context, tx pgx.Tx) error {
					var got string
					if err := tx.QueryRow(ctx, "SELECT current_setting('lock_timeout')").Scan(&got); err != nil {
						return err
					}
					if got != want {
						t.Errorf("lock_timeout is %s, want %s", got, want)
					}
					return nil
				}
				claims := append(shopClaim("a"), shopClaim("b")...)
				for _, cs := range [][]yekbar.Claim{claims[:1], claims, shopClaim("c")} {
					_, err := s.store.Attempt(t.Context(), cs, func(ctx context.Context, tx pgx.Tx, _ []int) error {
						if err := look(ctx, tx); err != nil {
							return err
						}
						session, err := s.store.Bind(tx)
						if err != nil {
							return err
						}
						for range 2 { // a claim, then a repeat
							if _, err := session.Claim(ctx, shopClaim("bound to " + cs[len(cs)-1].MessageID)[0]); err != nil {
								return err
							}
							if err := look(ctx, tx); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
				_, err := s.store.AttemptStatements(t.Context(), shopClaim("d"), [][]yekbar.Statement{{{SQL: "CREATE TABLE setting AS SELECT current_setting('lock_timeout') AS s"}}})
				if err != nil {
					t.Error(err)
				}
				if s.number("SELECT count(*) FROM setting WHERE s = $1", want) != 1 {
					t.Error("a statement inherited the claim's lock timeout")
				}
			})
		}
	}
}

// A business lock that the handler waits for longer than Claim.Wait is waited
// for; its own timeouts are its own.
func TestPgxStoreBusinessLocksAndTimeouts(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	locked, err := s.beside.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locked.Exec(t.Context(), "UPDATE stock SET units = units"); err != nil {
		t.Fatal(err)
	}
	c := shopClaim("m-1")
	c[0].Wait = time.Millisecond
	for sql, want := range map[string]error{
		"SET LOCAL lock_timeout = '10ms'":      yekbar.ErrTransient,
		"SET LOCAL statement_timeout = '10ms'": nil,
	} {
		_, err := s.store.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx, _ []int) error {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
			return takeOne(ctx, tx, nil)
		})
		if err == nil || errors.Is(err, yekbar.ErrInFlight) || errors.Is(err, yekbar.ErrTransient) != (want != nil) || !yekbar.CountsAsAttempt(err) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	done := make(chan error, 1)
	go func() { _, err := s.store.Attempt(t.Context(), c, takeOne); done <- err }()
	s.waitFor("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()", 1)
	if err := locked.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.wantStored(1)
}

// A statement_timeout of the session that is shorter than the wait for a copy
// in flight ends the wait, and says nothing about the message.
func TestPgxStoreStatementTimeoutInTheClaim(t *testing.T) {
	t.Parallel()
	s := openShop(t, servers.PostgreSQL(t), "", func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["statement_timeout"] = "50" })
	end, release := s.hold("m-1")
	for _, attempt := range attemptWays {
		_, err := attempt(t.Context(), s, "m-1")
		wantIs(t, err, yekbar.ErrInFlight)
	}
	release <- nil
	if err := <-end; err != nil {
		t.Error(err)
	}
	s.wantStored(1)
}

// A session that idles longer than anybody can be there is ended by the
// server, unless it has a bound of its own.
func TestPgxStoreIdleBound(t *testing.T) {
	t.Parallel()
	for own, want := range map[string]string{"": "40s", "7s": "7s"} {
		t.Run("own "+own, func(t *testing.T) {
			s := openShop(t, servers.PostgreSQL(t), "", func(c *pgxpool.Config) {
				if own != "" {
					c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = own
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := s.store.Attempt(ctx, shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
				var got time.Duration
				if err := tx.QueryRow(ctx, "SELECT extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval)::bigint * 1000000000").Scan(&got); err != nil {
					return err
				}
				if bound, err := time.ParseDuration(want); err != nil || got > bound || got < bound-2*time.Second {
					t.Errorf("idle_in_transaction_session_timeout is %v, want about %v, %v", got, bound, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			var after string
			if err := s.pool.QueryRow(t.Context(), "SELECT current_setting('idle_in_transaction_session_timeout')").Scan(&after); err != nil || (own == "") != (after == "0") {
				t.Errorf("after the attempt it is %s, %v", after, err)
			}
		})
	}
}

// A message that fails costs no connection.
func TestPgxStoreFailureKeepsTheConnection(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shop) {
		fail := []yekbar.Statement{{SQL: "INSERT INTO stock VALUES ('tea', 1)"}}
		for range 3 {
			_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
				_, err := tx.Exec(ctx, fail[0].SQL)
				return err
			})
			if err == nil {
				t.Error("no error")
			}
			if _, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
				return pgxstore.Queue(ctx, tx, fail[0])
			}); err == nil {
				t.Error("queued: no error")
			}
			if _, err := s.store.AttemptStatements(t.Context(), shopClaim("m-1"), [][]yekbar.Statement{fail}); err == nil {
				t.Error("statements: no error")
			}
			for _, attempt := range attemptWays { // fresh, then repeats
				if _, err := attempt(t.Context(), s, "m-2"); err != nil {
					t.Error(err)
				}
			}
		}
		if n := s.pool.Stat().NewConnsCount(); n != 1 {
			t.Errorf("%d connections were opened, one after the other; want 1", n)
		}
		s.wantStored(1)
	})
}
