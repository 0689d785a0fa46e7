package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// A lab has one broker, one database, and processes that can be killed.
type lab struct {
	t     *testing.T
	b     *membroker.Broker
	store *memstore.Store
	// wrong makes every store a wrong one.
	wrong func(*database)
}

func newLab(t *testing.T, change func(*broker.Capabilities)) *lab {
	caps := membroker.Typical()
	if change != nil {
		change(&caps)
	}
	return &lab{t: t, b: membroker.New(membroker.Config{Capabilities: caps}), store: memstore.New()}
}

// A process is one worker.
type process struct {
	w    *worker.Worker
	db   *database
	dead *atomic.Bool
	stop func() error
}

// kill ends the process as SIGKILL does: nothing that it does from now on
// reaches the database or the broker, and its leases run out.
func (p *process) kill() {
	p.dead.Store(true)
	go func() { _ = p.stop() }() // what it returns concerns nobody
}

type handler = yekbar.Handler[*memstore.Tx]

// start starts a process; those that were killed are to be stopped too.
func (l *lab) start(h handler, yc yekbar.Config, wc worker.Config) *process {
	l.t.Helper()
	p, err := l.open(h, yc, wc)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.w.Run(ctx) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	l.t.Cleanup(func() { _ = p.stop() }) // a test that failed has said so
	return p
}

func (l *lab) open(h handler, yc yekbar.Config, wc worker.Config) (*process, error) {
	p := &process{dead: new(atomic.Bool)}
	p.db = &database{Store: l.store, dead: p.dead}
	if l.wrong != nil {
		l.wrong(p.db)
	}
	consumer, err := yekbar.NewConsumer("inventory", p.db, h, yc)
	if err != nil {
		return nil, err
	}
	if wc.Logger == nil {
		wc.Logger = slog.New(slog.DiscardHandler)
	}
	p.w, err = worker.New(&mortalSource{l.b.Source(topic), p.dead}, consumer, wc)
	return p, err
}

// effects returns how often a message took effect.
func (l *lab) effects(id string) int {
	v, ok := l.store.Get(id)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(string(v))
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// apply counts the message's effects.
func apply(tx *memstore.Tx, m *yekbar.Message) error {
	n := 0
	if v, ok := tx.Get(m.ID); ok {
		var err error
		if n, err = strconv.Atoi(string(v)); err != nil {
			return err
		}
	}
	return tx.Put(m.ID, []byte(strconv.Itoa(n+1)))
}

// appliedOnce says what is wrong unless each of the messages took effect once.
func (l *lab) appliedOnce(ids ...string) error {
	var errs []error
	for _, id := range ids {
		if n := l.effects(id); n != 1 {
			errs = append(errs, fmt.Errorf("%s took effect %d times", id, n))
		}
	}
	return errors.Join(errs...)
}

func ids(ms []*yekbar.Message) (all []string) {
	for _, m := range ms {
		all = append(all, m.ID)
	}
	return all
}

// A database is a process's connection to the store. It may be wrong.
type database struct {
	*memstore.Store
	dead *atomic.Bool
	down atomic.Bool

	forgetsStarts bool // Start records nothing
	knowsAll      bool // Claim finds every message
	knowsNothing  bool // Claim finds none
	writes        atomic.Int64
	commit        atomic.Int64 // how long COMMIT takes
}

func (d *database) gone() error {
	if d.dead.Load() || d.down.Load() {
		return fmt.Errorf("%w: connection refused", yekbar.ErrUnavailable)
	}
	return nil
}

func (d *database) Attempt(ctx context.Context, cs []yekbar.Claim, fn func(context.Context, *memstore.Tx, []int) error) ([]yekbar.Claimed, error) {
	d.writes.Add(1)
	if err := d.gone(); err != nil {
		return nil, err
	}
	claimed, err := d.Store.Attempt(ctx, cs, func(ctx context.Context, tx *memstore.Tx, fresh []int) error {
		return errors.Join(fn(ctx, tx, fresh), d.gone())
	})
	if err == nil {
		pass(time.Duration(d.commit.Load()))
	}
	return claimed, err
}

func (d *database) Hold(ctx context.Context, h *yekbar.HeldMessage) (bool, error) {
	if err := d.gone(); err != nil {
		return false, err
	}
	return d.Store.Hold(ctx, h)
}

func (d *database) TakeDue(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
	if err := d.gone(); err != nil {
		return nil, err
	}
	return d.Store.TakeDue(ctx, consumer, limit, lease)
}

func (d *database) HeldKeys(ctx context.Context, consumer string) ([]string, error) {
	if err := d.gone(); err != nil {
		return nil, err
	}
	return d.Store.HeldKeys(ctx, consumer)
}

func (d *database) AddFailure(ctx context.Context, consumer, id, failure string) (yekbar.Attempts, error) {
	if err := d.gone(); err != nil {
		return yekbar.Attempts{}, err
	}
	return d.Store.AddFailure(ctx, consumer, id, failure)
}

func (d *database) Start(ctx context.Context, consumer, id string, within time.Duration) (yekbar.Attempts, error) {
	if err := d.gone(); err != nil || d.forgetsStarts {
		return yekbar.Attempts{}, err
	}
	return d.Store.Start(ctx, consumer, id, within)
}

func (d *database) ClearStart(ctx context.Context, consumer, id string) error {
	if err := d.gone(); err != nil {
		return err
	}
	return d.Store.ClearStart(ctx, consumer, id)
}

func (d *database) ClearAttempts(ctx context.Context, consumer, id string) error {
	if err := d.gone(); err != nil {
		return err
	}
	return d.Store.ClearAttempts(ctx, consumer, id)
}

func (d *database) Claim(ctx context.Context, consumer, id string) (yekbar.Claimed, error) {
	if err := d.gone(); err != nil || d.knowsAll {
		return yekbar.Claimed{}, err
	}
	if d.knowsNothing {
		return yekbar.Claimed{}, yekbar.ErrNoClaim
	}
	return d.Store.Claim(ctx, consumer, id)
}

func (d *database) Paused(ctx context.Context, consumer string) (yekbar.Actor, bool, error) {
	if err := d.gone(); err != nil {
		return yekbar.Actor{}, false, err
	}
	return d.Store.Paused(ctx, consumer)
}

func (d *database) Watermark(ctx context.Context, consumer string, retention time.Duration) (yekbar.Window, error) {
	if err := d.gone(); err != nil {
		return yekbar.Window{}, err
	}
	return d.Store.Watermark(ctx, consumer, retention)
}

func (d *database) SavePositions(ctx context.Context, consumer string, positions map[string]string) error {
	if err := d.gone(); err != nil {
		return err
	}
	return d.Store.SavePositions(ctx, consumer, positions)
}

// A mortalSource does nothing more once its process is dead.
type mortalSource struct {
	broker.Source
	dead *atomic.Bool
}

func (s *mortalSource) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	ds, err := s.Source.Receive(ctx, limit)
	for i, d := range ds {
		ds[i] = &mortal{d, s.dead}
	}
	return ds, err
}

func (s *mortalSource) Close(ctx context.Context) error {
	if s.dead.Load() {
		return nil
	}
	return s.Source.Close(ctx)
}

type mortal struct {
	broker.Delivery
	dead *atomic.Bool
}

func (d *mortal) ReceivedAt() time.Time {
	return d.Delivery.(broker.Stamped).ReceivedAt()
}

func (d *mortal) gone() error {
	if d.dead.Load() {
		return broker.ErrOutage
	}
	return nil
}

func (d *mortal) Ack(ctx context.Context) error {
	if err := d.gone(); err != nil {
		return err
	}
	return d.Delivery.Ack(ctx)
}

func (d *mortal) Nack(ctx context.Context, delay time.Duration) error {
	if err := d.gone(); err != nil {
		return err
	}
	return d.Delivery.Nack(ctx, delay)
}

func (d *mortal) Extend(ctx context.Context) error {
	if err := d.gone(); err != nil {
		return err
	}
	return d.Delivery.Extend(ctx)
}

func logTo(b *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// A guarantee holds, and its twin, which has one thing wrong, is caught.
type guarantee struct {
	name string
	test func(t *testing.T, twin bool) error
}

func prove(t *testing.T, gs []guarantee) {
	for _, g := range gs {
		t.Run(g.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := g.test(t, false); err != nil {
					t.Error(err)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				if g.test(t, true) == nil {
					t.Error("the twin passes")
				}
			})
		})
	}
}
