package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/database"
)

// A ConfigError says what is wrong with flags, URLs and files. Nothing was
// done.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ConfigError) Unwrap() error { return e.Err }

const (
	// tick is how often the broker is asked how far the workers are.
	tick = 100 * time.Millisecond
	// stalled is how long nothing may come out while there is work.
	stalled = 60 * time.Second
	// lookTimeout bounds reading the stock in the end.
	lookTimeout = 2 * time.Minute
)

// Run runs the demo. When ctx ends it stops, and reports what was reached,
// with the error of ctx. It leaves no process and no temporary file.
func Run(ctx context.Context, c Config) (report *Report, err error) {
	if err := c.Validate(); err != nil {
		return nil, &ConfigError{err}
	}
	r := &run{config: c, progress: &progress{w: c.Stderr, columns: c.Columns}}
	defer func() {
		r.progress.end()
		if e := r.cleanUp(); e != nil {
			err = errors.Join(err, e)
		}
	}()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	if err := r.work(ctx); err != nil {
		return nil, err
	}
	interrupted := ctx.Err() != nil
	if report, err = r.report(ctx, interrupted); err != nil {
		return nil, err
	}
	if interrupted {
		return report, context.Cause(ctx)
	}
	return report, r.totals.write(report)
}

// A run is everything that a run has open.
type run struct {
	config   Config
	progress *progress
	undo     []func() error // in reverse order

	input    *input
	totals   *totalsFile
	database *database.Database
	dir      string
	tables   *tables
	channel  *channel
	ledger   *ledger
	shop     *shop
	crew     *crew

	ahead   atomic.Uint64 // messages that were not delivered yet
	backlog backlog
	began   time.Time
	took    time.Duration
}

func (r *run) later(f func() error) { r.undo = append(r.undo, f) }

func (r *run) cleanUp() error {
	var errs []error
	for i := len(r.undo) - 1; i >= 0; i-- {
		errs = append(errs, r.undo[i]())
	}
	return errors.Join(errs...)
}

// open looks at all that the flags name, and changes nothing.
func (r *run) open(ctx context.Context) (err error) {
	wrong := func(err error) error { return &ConfigError{err} }
	if r.config.Broker != "" {
		if _, err := parseBroker(r.config.Broker); err != nil {
			return wrong(err)
		}
	}
	if r.config.Database != "" {
		if r.database, err = database.Parse(r.config.Database); err != nil {
			return wrong(fmt.Errorf("--database: %w", err))
		}
	}
	if r.totals, err = openTotals(r.config.Totals); err != nil {
		return wrong(err)
	}
	r.later(r.totals.discard)
	if r.input, err = openInput(r.config); err != nil {
		return wrong(err)
	}
	r.later(r.input.close)
	if r.dir, err = os.MkdirTemp("", "yekbar-demo-"); err != nil {
		return err
	}
	r.later(func() error { return os.RemoveAll(r.dir) })
	if r.database == nil {
		r.config.Database = "sqlite:" + filepath.Join(r.dir, "shop.db")
		if r.database, err = database.Parse(r.config.Database); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// temporary reports whether the database goes with the run.
func (r *run) temporary() bool { return filepath.Dir(r.database.File) == r.dir }

// setUp makes tables and stream.
func (r *run) setUp(ctx context.Context) (err error) {
	pool := r.database.Open(nil)
	r.later(pool.Close)
	r.tables = newTables(r.database, pool)
	if err := r.tables.create(ctx); err != nil {
		return err
	}
	alive, rest := context.WithCancel(context.WithoutCancel(ctx))
	var beating sync.WaitGroup
	beating.Go(func() { r.tables.keepAlive(alive) })
	r.later(func() error {
		rest()
		beating.Wait()
		return r.tables.release(ctx)
	})
	r.channel, err = openChannel(ctx, r.config.Broker, filepath.Join(r.dir, "broker"))
	if err != nil {
		return err
	}
	r.later(r.channel.close)
	where := r.database.String() + ", " + r.tables.where() + " (an earlier demo's are replaced)"
	if r.temporary() {
		where = "a temporary SQLite file"
	}
	r.progress.say("yekbar demo: stock in %s; orders through %s", where, r.channel.name)
	return nil
}

// work publishes and has the workers consume until everything is settled.
func (r *run) work(ctx context.Context) (err error) {
	c := r.config
	r.ledger = newLedger()
	r.shop = &shop{
		source: r.input, duplicates: c.Duplicates,
		random:  rand.New(rand.NewPCG(c.Seed, 0x73686f70)),
		channel: r.channel, ledger: r.ledger, stock: r.tables.stock,
		complain: r.progress.say, ahead: r.ahead.Load, spool: r.dir,
	}
	expected := int(float64(r.input.count) * (1 + c.Duplicates/100))
	r.crew = newCrew(c, workerConfig{
		Database: c.Database, Broker: r.channel.url, Stream: r.channel.stream, Naive: c.Naive, Seed: c.Seed,
	}, newKiller(c.Kills, expected, c.Seed), r.progress.say)
	r.began = time.Now()
	defer func() {
		r.took = time.Since(r.began)
		err = errors.Join(err, r.crew.stop())
	}()
	for n := range c.Workers {
		if err := r.crew.start(n + 1); err != nil {
			return err
		}
	}
	if err := r.until(ctx, r.shop.run); err != nil {
		return err
	}
	if r.shop.conflicts == 0 || ctx.Err() != nil {
		return nil
	}
	return r.until(ctx, r.shop.publishConflicts)
}

// until runs publish beside the workers, and returns when it has ended and
// all it published is settled, or when ctx ends, which is no error here.
func (r *run) until(ctx context.Context, publish func(context.Context) error) error {
	shopping, stop := context.WithCancel(ctx)
	published := make(chan error, 1)
	var shop sync.WaitGroup
	shop.Go(func() { published <- publish(shopping) })
	defer shop.Wait()
	defer stop()
	publishing := true
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	watch := stall{since: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-r.crew.notices:
			if err := r.crew.take(n); err != nil {
				return err
			}
		case err := <-published:
			publishing = false
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-ticks.C:
			settled, err := r.look(ctx)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if settled && !publishing {
				if r.crew.finished() {
					return nil
				}
				r.crew.killer.finish(r.crew.workers)
			}
			if err := watch.check(r, settled); err != nil {
				return err
			}
		}
	}
}

// look asks the broker, shows where the run is, and reports whether the
// workers have done all that there is.
func (r *run) look(ctx context.Context) (settled bool, err error) {
	if r.backlog, err = r.channel.backlog(ctx); err != nil {
		return false, err
	}
	r.ahead.Store(r.backlog.Waiting)
	seconds := max(time.Since(r.began).Seconds(), 0.001)
	r.progress.show(fmt.Sprintf("orders %s of %s  deliveries %s  duplicates caught %s  kills %d of %d  %s orders/s",
		group(r.crew.applied), group(max(int64(r.input.count), r.shop.orders.Load())), group(int64(r.backlog.Deliveries)),
		group(r.crew.duplicates), r.crew.killer.count(), r.config.Kills, group(int64(float64(r.crew.applied)/seconds))))
	return r.backlog.Waiting == 0 && r.backlog.Unsettled == 0, nil
}

// A stall is found when nothing comes out for long.
type stall struct {
	since   time.Time
	results int
	kills   int
}

func (s *stall) check(r *run, settled bool) error {
	results, kills := r.crew.results, r.crew.killer.count()
	if settled || results != s.results || kills != s.kills {
		s.since, s.results, s.kills = time.Now(), results, kills
		return nil
	}
	if time.Since(s.since) < stalled {
		return nil
	}
	last := r.crew.lastError
	if last == "" {
		last = "no worker reported an error"
	}
	return fmt.Errorf("nothing has come out for %v: %s messages wait, %d are unsettled; the last error: %s",
		stalled, group(int64(r.backlog.Waiting)), r.backlog.Unsettled, last)
}

// report compares what the database has with what was published.
func (r *run) report(ctx context.Context, interrupted bool) (*Report, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	f, err := r.tables.look(ctx)
	if err != nil {
		return nil, err
	}
	if b, err := r.channel.backlog(ctx); err == nil {
		r.backlog = b
	} else if !interrupted {
		return nil, err
	}
	l, c := r.ledger, r.config
	p := &Report{
		Naive: c.Naive, Database: r.database.String(), Broker: r.channel.name, Tables: r.tables.where(),
		Kept: !r.temporary(), Seed: c.Seed, Workers: c.Workers,
		Orders: int64(len(l.orders)), Messages: r.shop.messages.Load(), Twice: r.shop.twice,
		Deliveries: int64(r.backlog.Deliveries), Applied: f.applied, Duplicates: r.crew.duplicates,
		Conflicts: int64(len(r.crew.conflicts)), Dead: f.dead,
		KillsAsked: c.Kills, Kills: r.crew.killer.done,
		Lost: int64(len(l.orders)) - f.orders, Doubled: f.doubled, Examples: f.examples,
		Articles: len(l.units), Differing: f.differing(l), Expected: l.total(), Found: f.units(),
		BadLines: r.shop.badLines, Interrupted: interrupted, Took: r.took,
		Attribution: attribute(l), articles: f.articles,
	}
	if r.temporary() {
		p.Database = "SQLite"
	}
	p.Exact = !interrupted && p.Differing == 0 && p.Lost == 0 && p.Doubled == 0 &&
		(c.Naive != "" || f.claims == p.Orders)
	return p, nil
}
