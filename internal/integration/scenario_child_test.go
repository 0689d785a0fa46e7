package integration

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/mattn/go-sqlite3"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"modernc.org/sqlite"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/sqlstore"
	"github.com/yekbar-go/yekbar/worker"
)

func init() { children["scenario"] = runScenarioChild }

const childConfigVariable = "YEKBAR_TEST_CHILD_CONFIG"

type childConfig struct {
	Store, Database, NATS, Stream string
	Mode                          mode
}

// A mode is how a process works, and where it stops for good, so that it can
// be killed there.
type mode string

const (
	normal           mode = ""
	stopBeforeCommit mode = "before COMMIT"
	stopBeforeAck    mode = "before the acknowledgement"
	// The broken twin, and its stop between the change and the claim.
	twin        mode = "twin"
	stopBetween mode = "between the change and the claim"
)

func say(line string) { fmt.Println(line) }

// stop says where the process is, and stays there.
func stop(at mode) {
	say(string(at))
	select {}
}

// A scenarioStore is a way to keep claims.
type scenarioStore struct {
	name     string
	dialect  sqlstore.Dialect
	database func(testing.TB) string
	// open returns a pool; committing, where the driver has a hook for it, is
	// called in front of every COMMIT.
	open   func(url string, committing func()) (*sql.DB, error)
	hooked bool
	pgx    bool // handled by pgxstore
	claims string
}

var scenarioStores = []scenarioStore{
	{name: "pgxstore", dialect: sqlstore.PostgreSQL, database: servers.PostgreSQL, open: named("pgx"), pgx: true, claims: "yekbar.processed_messages"},
	{name: "sqlstore pgx", dialect: sqlstore.PostgreSQL, database: servers.PostgreSQL, open: named("pgx"), claims: "yekbar.processed_messages"},
	{name: "sqlstore pq", dialect: sqlstore.PostgreSQL, database: servers.PostgreSQL, open: named("postgres"), claims: "yekbar.processed_messages"},
	{name: "sqlstore MariaDB", dialect: sqlstore.MariaDB, database: servers.MariaDB, open: openMariaDB, claims: "yekbar_processed_messages"},
	{name: "sqlstore modernc", dialect: sqlstore.SQLite, database: sqliteFile, open: openModernc, hooked: true, claims: "yekbar_processed_messages"},
	{name: "sqlstore mattn", dialect: sqlstore.SQLite, database: sqliteFile, open: openMattn, hooked: true, claims: "yekbar_processed_messages"},
}

func named(driver string) func(string, func()) (*sql.DB, error) {
	return func(url string, _ func()) (*sql.DB, error) { return sqlstore.Open(driver, url) }
}

func sqliteFile(t testing.TB) string { return filepath.Join(t.TempDir(), "stock.db") }

func openMariaDB(url string, _ func()) (*sql.DB, error) {
	c, err := servers.MariaDBConfig(url)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(sqlstore.Guard(connector)), nil
}

func openModernc(path string, committing func()) (*sql.DB, error) {
	if committing != nil {
		sqlite.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error {
			c.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { committing(); return 0 })
			return nil
		})
	}
	return sqlstore.Open("sqlite", path)
}

func openMattn(path string, committing func()) (*sql.DB, error) {
	if committing == nil {
		return sqlstore.Open("sqlite3", path)
	}
	sql.Register("sqlite3 with a hook", &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		c.RegisterCommitHook(func() int { committing(); return 0 })
		return nil
	}})
	return sqlstore.Open("sqlite3 with a hook", path)
}

func (s scenarioStore) migrate(ctx context.Context, db *sql.DB) error {
	return sqlstore.New(db, s.dialect, sqlstore.Config{}).Migrate(ctx)
}

// runScenarioChild is the process: a consumer as a user writes one, until
// standard input ends.
func runScenarioChild() (err error) {
	var c childConfig
	if err = json.Unmarshal([]byte(os.Getenv(childConfigVariable)), &c); err != nil {
		return err
	}
	var store scenarioStore
	for _, s := range scenarioStores {
		if s.name == c.Store {
			store = s
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	input := make(chan struct{})
	go func() {
		defer cancel()
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
			input <- struct{}{}
		}
	}()

	nc, err := nats.Connect(c.NATS)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	source, err := natsbroker.NewSource(ctx, js, natsbroker.SourceConfig{Stream: c.Stream, Durable: c.Stream})
	if err != nil {
		return err
	}

	var handled atomic.Bool
	db, err := store.open(c.Database, func() {
		if handled.Load() && c.Mode == stopBeforeCommit {
			stop(stopBeforeCommit)
		}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	take := func(exec func(string) error) error {
		if err := exec("UPDATE stock SET units = units - 1"); err != nil {
			return err
		}
		say("handling")
		select {
		case <-input:
		case <-ctx.Done():
		}
		handled.Store(true)
		return ctx.Err()
	}
	var p worker.Processor
	switch {
	case c.Mode == twin || c.Mode == stopBetween:
		p = &brokenTwin{mode: c.Mode, db: db, claims: store.claims}
	case store.pgx:
		pool, err := pgxpool.New(ctx, c.Database)
		if err != nil {
			return err
		}
		defer pool.Close()
		p, err = yekbar.NewConsumer("inventory", pgxstore.New(pool, pgxstore.Config{}), func(ctx context.Context, tx pgx.Tx, _ *yekbar.Message) error {
			return take(func(q string) error { _, err := tx.Exec(ctx, q); return err })
		}, yekbar.Config{Timeout: time.Minute})
		if err != nil {
			return err
		}
	default:
		p, err = yekbar.NewConsumer("inventory", sqlstore.New(db, store.dialect, sqlstore.Config{}), func(ctx context.Context, tx *sql.Tx, _ *yekbar.Message) error {
			return take(func(q string) error { _, err := tx.ExecContext(ctx, q); return err })
		}, yekbar.Config{Timeout: time.Minute})
		if err != nil {
			return err
		}
	}
	w, err := worker.New(told{source, c.Mode}, reporting{p}, worker.Config{Concurrency: 1, Prefetch: 1})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// reporting says what Process found out.
type reporting struct{ worker.Processor }

func (r reporting) Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error) {
	result, err := r.Processor.Process(ctx, m)
	if err != nil {
		say("error: " + err.Error())
	} else {
		say(result.Outcome.String())
	}
	return result, err
}

// told says what comes and goes.
type told struct {
	broker.Source
	mode mode
}

func (s told) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	say("receiving")
	ds, err := s.Source.Receive(ctx, limit)
	for i := range ds {
		say("received")
		ds[i] = toldDelivery{ds[i], s.mode}
	}
	return ds, err
}

type toldDelivery struct {
	broker.Delivery
	mode mode
}

func (d toldDelivery) Ack(ctx context.Context) error {
	if d.mode == stopBeforeAck {
		stop(stopBeforeAck)
	}
	err := d.Delivery.Ack(ctx)
	if err == nil {
		say("acknowledged")
	}
	return err
}

// brokenTwin makes the change in one transaction and the claim in another.
type brokenTwin struct {
	plain
	mode   mode
	db     *sql.DB
	claims string
}

func (b *brokenTwin) Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error) {
	if _, err := b.db.ExecContext(ctx, "UPDATE stock SET units = units - 1"); err != nil {
		return yekbar.Result{}, err
	}
	if b.mode == stopBetween {
		stop(stopBetween)
	}
	_, err := b.db.ExecContext(ctx, "INSERT INTO "+b.claims+" (consumer_name, message_id, state) VALUES ('twin', 'order-1', 'applied')")
	return yekbar.Result{Outcome: yekbar.Applied}, err
}
