package integration

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/sqlstore"
	"github.com/yekbar-go/yekbar/worker"
)

func init() { children["worker"] = runWorkerChild }

// A workerChild is a worker in a process of its own. Its handler counts
// effects; what the message's payload says, it does first: "poison" kills the
// process, "fail" fails, a duration takes that long.
type workerChild struct {
	Driver, DSN string // Driver: one of sqlDrivers, or "pgxstore"
	NATS        string
	Source      natsbroker.SourceConfig
	Timeout     time.Duration // of the handler
	Worker      childWorker
}

// childWorker is what is set of worker.Config.
type childWorker struct {
	Concurrency, Batch int
	Order              worker.Order
	SingleProcess      bool
	Grace              time.Duration
}

// runWorkerChild runs until SIGTERM, or until standard input ends: when the
// test is gone.
func runWorkerChild() (err error) {
	var c workerChild
	if err := json.Unmarshal([]byte(os.Getenv(childConfigVariable)), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
		}
		stop()
	}()
	nc, err := natsbroker.Connect(c.NATS)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	source, err := natsbroker.NewSource(ctx, js, c.Source)
	if err != nil {
		return err
	}
	p, closing, err := c.consumer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	w, err := worker.New(source, p, worker.Config{
		Concurrency: c.Worker.Concurrency, Batch: c.Worker.Batch, Order: c.Worker.Order, SingleProcess: c.Worker.SingleProcess, Grace: c.Worker.Grace,
		Backoff: yekbar.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	say("running")
	return w.Run(ctx)
}

func (c workerChild) consumer(ctx context.Context) (worker.Processor, func() error, error) {
	config := yekbar.Config{Timeout: c.Timeout}
	if c.Driver == "pgxstore" {
		pool, err := pgxpool.New(ctx, c.DSN)
		if err != nil {
			return nil, nil, err
		}
		p, err := yekbar.NewConsumer("inventory", pgxstore.New(pool, pgxstore.Config{}), func(ctx context.Context, tx pgx.Tx, m *yekbar.Message) error {
			return obey(ctx, m, func(q string) error { _, err := tx.Exec(ctx, q); return err })
		}, config)
		return p, func() error { pool.Close(); return nil }, err
	}
	d := sqlDrivers[0]
	for _, one := range sqlDrivers {
		if one.name == c.Driver {
			d = one
		}
	}
	db, err := sqlstore.Open(d.driver, c.DSN)
	if err != nil {
		return nil, nil, err
	}
	p, err := yekbar.NewConsumer("inventory", sqlstore.New(db, d.dialect, sqlstore.Config{}), func(ctx context.Context, tx *sql.Tx, m *yekbar.Message) error {
		return obey(ctx, m, func(q string) error { _, err := tx.ExecContext(ctx, q); return err })
	}, config)
	return p, db.Close, err
}

// obey does what the payload says, then counts the effect.
func obey(ctx context.Context, m *yekbar.Message, exec func(string) error) error {
	what := string(m.Payload)
	switch d, err := time.ParseDuration(what); {
	case what == "poison":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-ctx.Done()
		return ctx.Err()
	case what == "fail":
		return errors.New("as told")
	case err == nil:
		say("handling " + m.ID)
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if strings.ContainsAny(m.ID, "'\\") {
		return fmt.Errorf("the ID %q is no test's", m.ID)
	}
	return exec("INSERT INTO effects (id) VALUES ('" + m.ID + "')")
}
