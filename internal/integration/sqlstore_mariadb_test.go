package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

func mariaTest(t testing.TB, f sqlFixture) *sqlTest { return newSQLTest(t, driverNamed(t, "mysql"), f) }

// unguarded is the broken twin: the same store over a plain *sql.DB.
var unguarded = sqlFixture{unguarded: true, config: sqlstore.Config{AllowUnguarded: "it shows what the guard is for"}}

func wantNumber(t testing.TB, err error, number uint16) {
	t.Helper()
	var e *mysql.MySQLError
	if !errors.As(err, &e) || e.Number != number {
		t.Errorf("error %v, want number %d", err, number)
	}
}

// A 1062 of a business table whose message reads like a claim's is the
// message's own error.
func TestMariaDBForeignDuplicate(t *testing.T) {
	t.Parallel()
	s := mariaTest(t, sqlFixture{})
	s.outside("CREATE TABLE yekbar_processed_messages_2 (consumer_name VARBINARY(255), message_id VARBINARY(512), PRIMARY KEY (consumer_name, message_id))")
	s.outside("INSERT INTO yekbar_processed_messages_2 VALUES ('test', 'm-1')")
	for _, swallow := range []bool{false, true} {
		_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
			err := s.exec(tx, "INSERT INTO yekbar_processed_messages_2 VALUES ('test', 'm-1')")
			wantNumber(t, err, 1062)
			if swallow {
				return nil
			}
			return err
		})
		wantNumber(t, err, 1062)
		if swallow {
			s.wantError(err, yekbar.ErrRolledBack)
		}
		s.want("m-1", 0, 0)
	}
	if !s.settle("m-1") {
		t.Error("the message was taken for a duplicate")
	}
}

// deadlock makes the handler of the message "victim" one of a deadlock, lets
// it swallow that, and go on.
func deadlock(t *testing.T, s *sqlTest) (refused, err error) {
	t.Helper()
	s.outside("CREATE TABLE weight (n INT)")
	for _, key := range []string{"a", "b", "c"} {
		s.outside("INSERT INTO storetest_counters VALUES ('" + key + "', 0)")
	}
	other, err := s.beside.BeginTx(s.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }() // after its end, it has none
	// InnoDB rolls back the transaction that changed fewer rows.
	if err := s.exec(other, "INSERT INTO weight SELECT seq FROM seq_1_to_100"); err != nil {
		t.Fatal(err)
	}
	if err := s.exec(other, "UPDATE storetest_counters SET n = n + 100 WHERE name = 'a'"); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	_, err = s.attempt(s.ctx, "victim", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.exec(tx, "UPDATE storetest_counters SET n = n + 1 WHERE name = 'b'"); err != nil {
			return err
		}
		wait.Go(func() {
			if err := s.exec(other, "UPDATE storetest_counters SET n = n + 100 WHERE name = 'b'"); err != nil {
				t.Errorf("the other one: %v", err)
			}
		})
		if err := s.Blocked(s.ctx, 1); err != nil {
			return err
		}
		wantNumber(t, s.exec(tx, "UPDATE storetest_counters SET n = n + 1 WHERE name = 'a'"), 1213)
		wait.Wait()
		refused = s.exec(tx, "UPDATE storetest_counters SET n = n + 1 WHERE name = 'c'")
		return nil
	})
	return refused, err
}

// After 1213 the whole transaction is gone, and what follows would autocommit.
func TestMariaDBNothingAfterDeadlock(t *testing.T) {
	t.Parallel()
	s := mariaTest(t, sqlFixture{})
	refused, err := deadlock(t, s)
	if refused == nil {
		t.Error("a statement after the deadlock was executed")
	}
	s.wantError(err, yekbar.ErrTransient, yekbar.ErrRolledBack)
	wantNumber(t, err, 1213)
	s.want("c", 0, 0)
}

func TestMariaDBNothingAfterDeadlockTwin(t *testing.T) {
	t.Parallel()
	s := mariaTest(t, unguarded)
	if refused, err := deadlock(t, s); refused != nil || err != nil {
		t.Errorf("the statement: %v, the attempt: %v", refused, err)
	}
	s.want("c", 0, 1) // half of the change, and no claim
}

// A swallowed CHECK failure leaves half of a change on MariaDB itself.
func TestMariaDBSwallowedFailure(t *testing.T) {
	t.Parallel()
	for _, f := range []sqlFixture{{}, unguarded} {
		s := mariaTest(t, f)
		_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
			wantNumber(t, s.exec(tx, "INSERT INTO storetest_counters VALUES ('x', 1000000)"), 4025)
			return nil
		})
		if f.unguarded {
			if err != nil {
				t.Errorf("the twin: %v", err)
			}
			s.want("m-1", 1, 1)
			continue
		}
		s.wantError(err, yekbar.ErrRolledBack)
		s.want("m-1", 0, 0)
	}
}

// What commits inside a procedure can't be refused, but is found out, and the
// claim ends dead.
func TestMariaDBProcedureThatCommits(t *testing.T) {
	t.Parallel()
	calls := map[string]string{
		"call":      "CALL storetest_commit()",
		"goes on":   "CALL goes_on()",
		"fails":     "CALL fails()",
		"begins":    "CALL begins()",
		"immediate": "EXECUTE IMMEDIATE 'COMMIT'",
	}
	for name, call := range calls {
		for _, swallow := range []bool{true, false} {
			s := mariaTest(t, sqlFixture{})
			s.outside("CREATE PROCEDURE goes_on() BEGIN COMMIT; UPDATE storetest_counters SET n = n + 1; END")
			s.outside("CREATE PROCEDURE fails() BEGIN COMMIT; SIGNAL SQLSTATE '45000'; END")
			s.outside("CREATE PROCEDURE begins() BEGIN COMMIT; START TRANSACTION; END")
			consumer, err := yekbar.NewConsumer("test", s.Store, func(ctx context.Context, tx *sql.Tx, m *yekbar.Message) error {
				if err := s.Add(ctx, tx, m.ID, 1); err != nil {
					return err
				}
				if err := s.exec(tx, call); err != nil && !swallow {
					return err
				}
				if err := s.exec(tx, "UPDATE storetest_counters SET n = n + 10"); err == nil {
					t.Errorf("%s: a statement after it was executed", name)
				}
				return nil
			}, yekbar.Config{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = consumer.Process(s.ctx, &yekbar.Message{ID: "m-1"})
			var b *yekbar.BoundaryError
			if !errors.As(err, &b) || !b.Escaped {
				t.Errorf("%s: error %v, want an escaped boundary", name, err)
			}
			var state string
			if err := s.beside.QueryRow("SELECT state FROM yekbar_processed_messages").Scan(&state); err != nil || state != "dead" {
				t.Errorf("%s: the claim is %q, %v; want it dead", name, state, err)
			}
			if n, err := s.Held(s.ctx); n != 1 || err != nil {
				t.Errorf("%s: %d held, %v", name, n, err)
			}
		}
	}
}

// What doesn't commit may be called.
func TestMariaDBHarmlessProcedures(t *testing.T) {
	t.Parallel()
	s := mariaTest(t, sqlFixture{})
	s.outside("CREATE PROCEDURE adds() BEGIN UPDATE storetest_counters SET n = n + 1; SELECT n FROM storetest_counters; END")
	s.outside("CREATE PROCEDURE fails() BEGIN UPDATE storetest_counters SET n = n + 1; SIGNAL SQLSTATE '45000'; END")
	_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.exec(tx, "CALL adds()"); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRowContext(ctx, "CALL adds()").Scan(&n); err != nil {
			return err
		}
		if err := s.exec(tx, "CREATE TEMPORARY TABLE tmp (n INT)"); err != nil {
			return err
		}
		err := sqlstore.Savepoint(ctx, tx, func(ctx context.Context) error { return s.exec(tx, "CALL fails()") })
		wantNumber(t, err, 1644)
		return s.exec(tx, "DROP TEMPORARY TABLE tmp")
	})
	if err != nil {
		t.Error(err)
	}
	s.want("m-1", 1, 3)
}

// The server speaks German, and rolls back whole transactions on a lock
// timeout.
func TestMariaDBGermanAndRollbackOnTimeout(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.Options{Language: "de", Settings: map[string]string{"innodb-rollback-on-timeout": "ON", "innodb-lock-wait-timeout": "1"}})
	d := driverNamed(t, "mysql")
	d.dsn = func(t testing.TB) string { return mariaDSN(t, server.NewDatabase(t)) }
	s := newSQLTest(t, d, sqlFixture{})
	if !s.settle("m-1") || s.settle("m-1") {
		t.Error("the message was not applied once")
	}
	_, err := s.attempt(s.ctx, "m-2", func(ctx context.Context, tx *sql.Tx) error { return s.exec(tx, "SELECT * FROM gibtsnicht") })
	s.wantError(err, yekbar.ErrEnvironment)
	if !strings.Contains(err.Error(), "existiert nicht") {
		t.Errorf("error %v is not in German", err)
	}

	other, err := s.beside.BeginTx(s.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.exec(other, "UPDATE storetest_counters SET n = 1 WHERE name = 'm-1'"); err != nil {
		t.Fatal(err)
	}
	_, err = s.attempt(s.ctx, "m-3", func(ctx context.Context, tx *sql.Tx) error {
		err := sqlstore.Savepoint(ctx, tx, func(ctx context.Context) error {
			return s.exec(tx, "UPDATE storetest_counters SET n = 2 WHERE name = 'm-1'")
		})
		wantNumber(t, err, 1205)
		if err := s.exec(tx, "UPDATE storetest_counters SET n = n"); err == nil {
			t.Error("forgiven, after the whole transaction was rolled back")
		}
		return nil
	})
	s.wantError(err, yekbar.ErrTransient, yekbar.ErrRolledBack)
	if err := other.Rollback(); err != nil {
		t.Error(err)
	}
	s.want("m-3", 1, 0)
}

// KILL CONNECTION in the handler is an outage that leaves nothing.
func TestMariaDBKilledInHandler(t *testing.T) {
	t.Parallel()
	s := mariaTest(t, sqlFixture{})
	for _, swallow := range []bool{true, false} {
		_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
			var id int
			if err := tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				return err
			}
			s.outside(fmt.Sprintf("KILL CONNECTION %d", id))
			for range 2 {
				if err := s.exec(tx, "UPDATE storetest_counters SET n = n + 1"); err == nil {
					t.Error("a statement on a killed connection was executed")
				} else if !swallow {
					return err
				}
			}
			return nil
		})
		s.wantError(err, yekbar.ErrUnavailable)
		s.want("m-1", 0, 0)
	}
	if !s.settle("m-1") {
		t.Error("not fresh")
	}
	s.want("m-1", 1, 1)
}

// The lock timeout of the claim is not the handler's.
func TestMariaDBLockTimeoutIsTheClaims(t *testing.T) {
	t.Parallel()
	s := mariaTest(t, sqlFixture{})
	var before, inside int
	if err := s.beside.QueryRow("SELECT @@innodb_lock_wait_timeout").Scan(&before); err != nil {
		t.Fatal(err)
	}
	_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT @@innodb_lock_wait_timeout").Scan(&inside)
	})
	if err != nil || before != inside {
		t.Errorf("innodb_lock_wait_timeout is %d, in the handler %d; %v", before, inside, err)
	}
}

// A server that is killed with SIGKILL again and again while messages are
// processed.
func TestMariaDBServerKilled(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.Options{})
	d := driverNamed(t, "mysql")
	url := server.NewDatabase(t)
	d.dsn = func(t testing.TB) string { return mariaDSN(t, url) }
	s := newSQLTest(t, d, sqlFixture{})
	const messages = 1500
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for i := w; i < messages; i += 3 {
				s.settle(fmt.Sprintf("m-%d", i))
			}
		})
	}
	kills := 0
	stop := make(chan struct{})
	go func() { all.Wait(); close(stop) }()
	for running := true; running && kills < 4; kills++ {
		select {
		case <-time.After(150 * time.Millisecond): // any moment is good
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
			if err := server.Restart(); err != nil {
				t.Error(err)
			}
		case <-stop:
			running = false
		}
	}
	<-stop
	t.Logf("%d kills", kills)
	var total int
	if err := s.beside.QueryRow("SELECT SUM(n) FROM storetest_counters WHERE n = 1").Scan(&total); err != nil || total != messages {
		t.Errorf("%d of %d messages had one effect, %v", total, messages, err)
	}
}
