package servers_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	os.Exit(servers.Main(m))
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func open(t *testing.T, url string) *sql.DB {
	t.Helper()
	config, err := servers.MariaDBConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgreSQLGivesEachTestAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	for _, leave := range []string{
		"CREATE TABLE item (id int PRIMARY KEY)",
		"CREATE SCHEMA \"Msg-1\"; CREATE TABLE \"Msg-1\".item (id int)",
		"CREATE COLLATION odd (provider = icu, locale = 'und', deterministic = false)",
		"SELECT lo_create(0)",
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = 12345', current_database()); END $$",
		"SELECT 1",
	} {
		t.Run("holds a transaction open at its end", func(t *testing.T) {
			conn := connect(t, servers.PostgreSQL(t))
			var things int
			var memory string
			ok(t, conn.QueryRow(t.Context(), `SELECT
  (SELECT count(*) FROM pg_class WHERE oid >= 16384 AND relnamespace <> 'pg_toast'::regnamespace)
  + (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public'))
  + (SELECT count(*) FROM pg_collation WHERE oid >= 16384) + (SELECT count(*) FROM pg_largeobject_metadata), current_setting('work_mem')`).Scan(&things, &memory))
			if things != 0 || memory == "12345kB" {
				t.Errorf("%d things, work_mem %s, in a database that should be empty", things, memory)
			}
			execute(t, conn, leave)
			execute(t, conn, "CREATE TABLE held (id int)")
			execute(t, conn, "BEGIN")
			execute(t, conn, "INSERT INTO held VALUES (1)")
		})
	}
}

func TestPostgreSQLSettings(t *testing.T) {
	t.Parallel()
	conn := connect(t, servers.PostgreSQL(t))
	for name, want := range map[string]string{"max_connections": "200", "max_prepared_transactions": "0"} {
		var got string
		ok(t, conn.QueryRow(t.Context(), "SHOW "+name).Scan(&got))
		if got != want && os.Getenv(servers.KindPostgreSQL.Variable()) == "" {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

func TestPgBouncerPoolsByTransaction(t *testing.T) {
	t.Parallel()
	// Two idle clients share one backend. Without prepared statements, which
	// collide there for that reason.
	url := servers.PgBouncer(t) + "&default_query_exec_mode=simple_protocol"
	first := connect(t, url)
	var pid, other int
	ok(t, first.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	second := connect(t, url)
	ok(t, second.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&other))
	if pid != other {
		t.Errorf("two idle clients got backends %d and %d: the pool is not in transaction mode", pid, other)
	}
}

func TestMariaDBGivesEachTestADatabaseAndDropsIt(t *testing.T) {
	t.Parallel()
	var gone string
	t.Run("holds a transaction open at its end", func(t *testing.T) {
		gone = servers.MariaDB(t)
		conn, err := open(t, gone).Conn(t.Context())
		ok(t, err)
		for _, statement := range []string{"CREATE TABLE item (id int PRIMARY KEY)", "BEGIN", "INSERT INTO item VALUES (1)"} {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		t.Cleanup(func() { conn.Close() })
	})
	err := open(t, gone).PingContext(t.Context())
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) || refused.Number != 1049 {
		t.Errorf("a dropped database: got %v, want error 1049", err)
	}
}

func TestNATSHasJetStream(t *testing.T) {
	t.Parallel()
	conn, err := nats.Connect(servers.NATS(t))
	ok(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	ok(t, err)
	name := servers.UniqueName("s")
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage})
	ok(t, err)
	ack, err := js.Publish(t.Context(), name+".one", []byte("1"))
	ok(t, err)
	if ack.Sequence != 1 {
		t.Errorf("the first message got sequence %d", ack.Sequence)
	}
	ok(t, js.DeleteStream(t.Context(), name))
}

func TestPostgreSQLKillKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgreSQL(t, servers.Options{Fsync: true})
	url := server.NewDatabase(t)
	conn := connect(t, url)
	execute(t, conn, "CREATE TABLE item (id int PRIMARY KEY)")
	execute(t, conn, "INSERT INTO item VALUES (1)")
	execute(t, conn, "BEGIN")
	execute(t, conn, "INSERT INTO item VALUES (2)")
	killed := server.PID()
	ok(t, server.Kill())
	if err := syscall.Kill(killed, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the killed server is still there: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("a killed server committed")
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("a killed server took a connection")
	}
	ok(t, server.Restart())
	var sum int
	ok(t, connect(t, url).QueryRow(t.Context(), "SELECT sum(id) FROM item").Scan(&sum))
	if sum != 1 {
		t.Errorf("after the crash the rows add up to %d, want the committed 1", sum)
	}
	ok(t, server.Stop())
	ok(t, server.Stop())
	ok(t, server.Restart())
	ok(t, connect(t, url).Ping(t.Context()))
}

func TestMariaDBKillKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.Options{Fsync: true})
	db := open(t, server.NewDatabase(t))
	for _, statement := range []string{"CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	ok(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO item VALUES (2)")
	ok(t, err)
	ok(t, server.Kill())
	if err := tx.Commit(); err == nil {
		t.Error("a killed server committed")
	}
	ok(t, server.Restart())
	var sum int
	ok(t, db.QueryRowContext(t.Context(), "SELECT sum(id) FROM item").Scan(&sum))
	if sum != 1 {
		t.Errorf("after the crash the rows add up to %d, want the committed 1", sum)
	}
}

func TestNATSKillKeepsTheStream(t *testing.T) {
	t.Parallel()
	server := servers.StartNATS(t, servers.Options{Fsync: true})
	conn, err := nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	ok(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	ok(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "kept", Subjects: []string{"kept"}})
	ok(t, err)
	_, err = js.Publish(t.Context(), "kept", nil)
	ok(t, err)
	ok(t, server.Kill())
	ok(t, server.Restart())
	again, err := nats.Connect(server.URL())
	ok(t, err)
	defer again.Close()
	js, err = jetstream.New(again)
	ok(t, err)
	stream, err := js.Stream(t.Context(), "kept")
	ok(t, err)
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the stream holds %d messages after the crash, want 1", n)
	}
}

func TestPauseFreezesTheWholeServer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, servers.Options) *servers.Server{
		"PostgreSQL": servers.StartPostgreSQL, "MariaDB": servers.StartMariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, servers.Options{})
			ask := func(ctx context.Context) error {
				if server.Kind() == servers.KindMariaDB {
					return open(t, server.URL()).PingContext(ctx)
				}
				conn, err := pgx.Connect(ctx, server.URL())
				if err != nil {
					return err
				}
				return conn.Close(ctx)
			}
			ok(t, ask(t.Context()))
			ok(t, server.Pause())
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := ask(ctx); err == nil {
				t.Error("a paused server answered")
			}
			ok(t, server.Resume())
			ok(t, ask(t.Context()))
			ok(t, server.Pause()) // the test's end must manage a paused one
		})
	}
}

func TestServersSpeakGerman(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		server := servers.StartPostgreSQL(t, servers.Options{Language: "de"})
		_, err := connect(t, server.URL()).Exec(t.Context(), "SELECT * FROM nowhere")
		if err == nil || !strings.Contains(err.Error(), "existiert nicht") {
			t.Errorf("not German: %v", err)
		}
	})
	t.Run("MariaDB", func(t *testing.T) {
		server := servers.StartMariaDB(t, servers.Options{Language: "de"})
		_, err := open(t, server.URL()).ExecContext(t.Context(), "SELECT * FROM nowhere")
		if err == nil || !strings.Contains(err.Error(), "existiert nicht") {
			t.Errorf("not German: %v", err)
		}
	})
}

func TestAServerThatDiesByItselfIsReported(t *testing.T) {
	t.Parallel()
	server, err := servers.Start(t.Context(), servers.KindNATS, servers.Options{})
	ok(t, err)
	dead := server.PID()
	ok(t, syscall.Kill(dead, syscall.SIGKILL))
	deadline := time.After(10 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); server.PID() != 0; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the killed server still counts as running after 10 s")
		}
	}
	if err := server.Close(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("Close said %v, want that the server ended by itself", err)
	}
}

func TestAServerThatCannotStartShowsItsLog(t *testing.T) {
	t.Parallel()
	_, err := servers.Start(t.Context(), servers.KindPostgreSQL, servers.Options{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("the error lacks the server's own words: %v", err)
	}
	if err != nil && strings.Contains(err.Error(), "60s") {
		t.Errorf("it waited for a dead server: %v", err)
	}
}
