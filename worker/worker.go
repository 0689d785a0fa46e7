package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// settleGrace is how long, after the last handler has ended, acknowledgements
// and give-backs may still take, and then how long closing the source may.
const settleGrace = 10 * time.Second

// A Worker runs one consumer over one source.
type Worker struct {
	source  broker.Source
	caps    broker.Capabilities
	p       Processor
	holding yekbar.HoldingStore // nil when the store has none
	config  Config
	log     *slog.Logger

	started  atomic.Bool
	stopping chan struct{} // closed when fetching has ended
	slots    chan struct{} // one for each delivery that is held
	queue    chan *job     // received, not yet running
	jobs     jobs
	gate     gate
	settling sync.WaitGroup
	counters counters
}

// New checks configuration, capabilities and consumer against each other and
// connects to nothing.
func New(src broker.Source, p Processor, c Config) (*Worker, error) {
	if src == nil || p == nil {
		return nil, errors.New("yekbar/worker: New needs a source and a consumer")
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	caps := src.Capabilities()
	if err := mismatches(caps, p, c); err != nil {
		return nil, err
	}
	holding, _ := yekbar.Find[yekbar.HoldingStore](p.Unwrap())
	return &Worker{
		source:   src,
		caps:     caps,
		p:        p,
		holding:  holding,
		config:   c,
		log:      c.Logger.With("consumer", p.Name()),
		stopping: make(chan struct{}),
		slots:    make(chan struct{}, c.Prefetch),
		queue:    make(chan *job, c.Prefetch),
		jobs:     newJobs(),
		gate:     newGate(),
	}, nil
}

// Run returns nil when ctx ended and everything in flight is settled. When ctx
// ends it stops fetching, gives back what has not begun, lets the running
// finish within Config.Grace, then cancels them and gives them back, and
// closes the source. It may be called once.
//
// It returns an error when the consumer's tables are not fit for it, when the
// source ended by itself, or when something could not be settled, which the
// broker will then deliver again.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("yekbar/worker: Run may be called once; make a new Worker")
	}
	err := w.check(ctx)
	if err == nil && ctx.Err() == nil {
		err = w.run(ctx)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleGrace)
	defer cancel()
	if e := w.source.Close(closing); e != nil {
		err = errors.Join(err, fmt.Errorf("yekbar/worker: consumer %q: closing the source: %w", w.p.Name(), e))
	}
	return err
}

// check asks the store to check itself. While the database is away it waits,
// as it would later.
func (w *Worker) check(ctx context.Context) error {
	c, ok := yekbar.Find[yekbar.Checker](w.p.Unwrap())
	if !ok {
		return nil
	}
	for failures := 1; ; failures++ {
		err := c.Check(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx is no failure
		case !errors.Is(err, yekbar.ErrUnavailable):
			return fmt.Errorf("yekbar/worker: consumer %q: %w", w.p.Name(), err)
		case failures == 1:
			w.log.Error("the database is unavailable; waiting for it before the first message", "error", err)
		}
		if !pause(ctx, probeBackoff.Pause(failures)) {
			return nil
		}
	}
}

func (w *Worker) run(ctx context.Context) error {
	// Handlers and settling outlive ctx; each is ended by its own grace time.
	processing, cancelProcessing := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelProcessing(nil)
	settling, cancelSettling := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelSettling()

	stopExtending := w.startExtending(settling)
	defer stopExtending()

	var handlers sync.WaitGroup
	for range w.config.Concurrency {
		handlers.Go(func() {
			for j := range w.queue {
				w.handle(processing, settling, j)
			}
		})
	}

	err := w.fetch(ctx)
	close(w.stopping)
	close(w.queue)

	grace := time.AfterFunc(w.config.Grace, func() {
		w.log.Warn("cancelling the handlers that still run", "grace", w.config.Grace)
		cancelProcessing(errShutdown)
	})
	handlers.Wait()
	grace.Stop()

	last := time.AfterFunc(settleGrace, cancelSettling)
	w.settling.Wait()
	last.Stop()

	if n := w.counters.abandoned.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("yekbar/worker: consumer %q: %d deliveries could not be settled before the end; the broker delivers them again: %w",
			w.p.Name(), n, w.counters.lastSettleError()))
	}
	return err
}

var errShutdown = errors.New("yekbar/worker: shutting down")

// pause waits for d and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
