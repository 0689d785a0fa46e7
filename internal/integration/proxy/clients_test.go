package proxy_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

var clients = map[string]client{
	"PostgreSQL simple protocol":  postgresql(simple),
	"PostgreSQL one pipeline":     postgresql(pipeline),
	"PostgreSQL prepared COMMIT":  postgresql(prepared),
	"PostgreSQL byte by byte":     postgresql(byteByByte),
	"MariaDB text protocol":       mariadb(false),
	"MariaDB prepared statements": mariadb(true),
}

var tables = map[string]func(*testing.T, string) error{
	"postgres": func(t *testing.T, url string) error {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(t.Context(), "CREATE TABLE item (id int PRIMARY KEY)")
		return errors.Join(err, conn.Close(t.Context()))
	},
	"mysql": func(t *testing.T, url string) error {
		_, err := openMariaDB(t, url, false).ExecContext(t.Context(), "CREATE TABLE item (id int PRIMARY KEY)")
		return err
	},
}

// pgMode is a way of sending a transaction.
type pgMode int

const (
	simple pgMode = iota
	pipeline
	prepared
	byteByByte
)

type pgSession struct {
	t    *testing.T
	conn *pgx.Conn
	mode pgMode
}

func postgresql(mode pgMode) client {
	return client{
		url: func(t testing.TB) string { return servers.PostgreSQL(t) },
		dial: func(t *testing.T, url string) session {
			config, err := pgx.ParseConfig(url)
			ok(t, err)
			if mode == simple {
				config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			}
			if mode == byteByByte {
				dial := config.DialFunc
				config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					return slowConn{conn}, err
				}
			}
			conn, err := pgx.ConnectConfig(t.Context(), config)
			ok(t, err)
			if mode == prepared {
				_, err := conn.Prepare(t.Context(), "finish", "commit")
				ok(t, err)
			}
			return &pgSession{t: t, conn: conn, mode: mode}
		},
		rows: func(t *testing.T, url string) (n int) {
			conn, err := pgx.Connect(t.Context(), url)
			ok(t, err)
			defer conn.Close(t.Context())
			ok(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM item").Scan(&n))
			return n
		},
	}
}

func (s *pgSession) insert(ctx context.Context, id int) error {
	const insert = "INSERT INTO item VALUES ($1)"
	if s.mode == pipeline {
		batch := &pgx.Batch{}
		batch.Queue("begin")
		batch.Queue(insert, id)
		batch.Queue("commit")
		return s.conn.SendBatch(ctx, batch).Close()
	}
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insert, id); err != nil {
		return err
	}
	if s.mode == prepared {
		_, err := s.conn.Exec(ctx, "finish")
		return err
	}
	return tx.Commit(ctx)
}

func (s *pgSession) close() { s.conn.Close(context.Background()) }

// slowConn sends every byte in a packet of its own.
type slowConn struct{ net.Conn }

func (c slowConn) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

type mariadbSession struct {
	db *sql.DB
}

func mariadb(prepare bool) client {
	return client{
		url: func(t testing.TB) string { return servers.MariaDB(t) },
		dial: func(t *testing.T, url string) session {
			return &mariadbSession{openMariaDB(t, url, prepare)}
		},
		rows: func(t *testing.T, url string) (n int) {
			ok(t, openMariaDB(t, url, false).QueryRowContext(t.Context(), "SELECT count(*) FROM item").Scan(&n))
			return n
		},
	}
}

func openMariaDB(t *testing.T, url string, prepare bool) *sql.DB {
	t.Helper()
	config, err := servers.MariaDBConfig(url)
	ok(t, err)
	config.InterpolateParams = !prepare
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	ok(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func (s *mariadbSession) insert(ctx context.Context, id int) error {
	tx, err := s.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (?)", id); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	// database/sql's Commit takes no context: COMMIT as a statement does.
	_, err = tx.ExecContext(ctx, "COMMIT")
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (s *mariadbSession) close() { s.db.Close() }

// echo is a server that answers PING as NATS does, and hangs up at QUIT.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	ok(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if lines.Text() == "QUIT" {
						return
					}
					if _, err := conn.Write([]byte("PONG\r\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "nats://" + l.Addr().String()
}

// ask sends a PING and returns the answer, "timeout" or "ended".
func ask(t *testing.T, conn net.Conn) string {
	t.Helper()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return "ended"
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case err != nil:
		return "ended"
	}
	return answer
}

// backends counts the database's sessions in a state.
func backends(t *testing.T, url, state string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	defer conn.Close(t.Context())
	ok(t, conn.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = $1", state).Scan(&n))
	return n
}

func untilNoBackend(t *testing.T, url, state string) {
	t.Helper()
	ctx := within(t, bound)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for backends(t, url, state) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("a session is still %s", state)
		}
	}
}
