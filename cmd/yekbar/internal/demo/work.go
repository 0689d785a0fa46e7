package demo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/database"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/failpoint"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
	"github.com/yekbar-go/yekbar/worker"
)

// concurrency is how many orders a worker process has in hand at once.
const concurrency = 4

// Work is a worker process: it takes its configuration and its orders from in,
// says what it does on out, and logs to log. It returns when it was told to
// stop; when its parent is gone, or it was told to die, it kills itself.
func Work(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	lines := json.NewDecoder(in)
	var c workerConfig
	if err := lines.Decode(&c); err != nil {
		return fmt.Errorf("a demo's worker is started by yekbar demo, not by hand: no configuration on standard input: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &reporter{w: out}
	d := &doom{reporter: r, log: log}
	go obey(lines, stop, d)

	db, err := database.Parse(c.Database)
	if err != nil {
		return err
	}
	pool := db.Open(d.wrap)
	defer pool.Close()
	t := newTables(db, pool)
	source, closeSource, err := openSource(ctx, c)
	if err != nil {
		return err
	}
	defer closeSource()
	source = newForgetful(source, c)
	if c.Naive != "" {
		return (&naive{kind: c.Naive, tables: t, source: source, reporter: r, log: log}).run(ctx)
	}
	return consume(ctx, t, source, r, log)
}

// attemptTimeout is also how long a message whose worker was killed while it
// ran alone is believed to be running still.
const attemptTimeout = 2 * time.Second

// consume is a consumer as any user of Yekbar writes one, but that it also
// reports what came out.
func consume(ctx context.Context, t *tables, source broker.Source, r *reporter, log *slog.Logger) error {
	takeStock := func(ctx context.Context, tx *sql.Tx, m *yekbar.Message) error {
		o, err := orders.Parse(m.Payload)
		if err != nil {
			return yekbar.Permanent(err)
		}
		return t.take(ctx, tx, o)
	}
	consumer, err := yekbar.NewConsumer(consumerName, t.store, takeStock, yekbar.Config{
		ID:      yekbar.IDFromHeader(invoiceHeader),
		Timeout: attemptTimeout,
	})
	if err != nil {
		return err
	}
	w, err := worker.New(source, &reporting{consumer, r}, worker.Config{
		Concurrency: concurrency,
		Backoff:     yekbar.Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second},
		Grace:       5 * time.Second,
		MaxCrashes:  1000, // it is we who kill, not the messages
		Logger:      log,
	})
	if err != nil {
		return err
	}
	if err := r.report(event{Kind: eventReady}); err != nil {
		return err
	}
	return w.Run(ctx)
}

// reporting tells the parent what became of each message.
type reporting struct {
	*yekbar.Consumer[*sql.Tx]
	reporter *reporter
}

func (r *reporting) Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error) {
	result, err := r.Consumer.Process(ctx, m)
	e := event{Invoice: m.Header.Get(invoiceHeader)}
	var conflict *yekbar.ConflictError
	switch {
	case errors.As(err, &conflict):
		e.Kind = eventConflict
	case err != nil && ctx.Err() != nil:
		return result, err // it is being stopped
	case errors.Is(err, yekbar.ErrInFlight):
		e.Kind = eventGivenBack // its copy is being handled; no news
	case err != nil:
		e.Kind, e.Error = eventGivenBack, short(err)
	case result.Outcome == yekbar.Duplicate:
		e.Kind = eventDuplicate
	default:
		e.Kind = eventApplied
	}
	return result, errors.Join(err, r.reporter.report(e))
}

// short keeps an event to one write that a pipe takes whole.
func short(err error) string {
	const most = 1000
	s := err.Error()
	return s[:min(most, len(s))]
}

// doom is the end that the parent has planned for this process.
type doom struct {
	reporter *reporter
	log      *slog.Logger
	at       atomic.Pointer[failpoint.Point]
}

// wrap puts the fail points under everything.
func (d *doom) wrap(c driver.Connector) driver.Connector {
	return failpoint.Wrap(c, isChange, d.reached)
}

// reached kills the process when this is the point where it was told to die.
func (d *doom) reached(p failpoint.Point) {
	at := d.at.Load()
	if at == nil || *at != p || !d.at.CompareAndSwap(at, nil) {
		return
	}
	if err := d.reporter.report(event{Kind: eventDying, Point: p}); err != nil {
		d.log.Error("can't announce the end", "error", err)
	}
	die()
}

// obey follows commands until they end, which without a stop before it means
// that the parent is gone.
func obey(lines *json.Decoder, stop func(), d *doom) {
	for {
		var c command
		if err := lines.Decode(&c); err != nil {
			die()
		}
		if c.Stop {
			stop()
			return
		}
		d.at.Store(&c.DieAt)
	}
}

// die is SIGKILL to oneself: no deferred function runs, nothing is flushed.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err) // whatever happens, nothing more is done
	}
	select {}
}
