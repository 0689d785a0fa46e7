package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// settleGrace is how long, after the last handler has ended, acknowledgements
// and give-backs may still take, and then how long closing the source may.
const settleGrace = 10 * time.Second

// commitGrace is how long a handler that was cancelled may take to end, for
// nothing cancels a COMMIT.
const commitGrace = 30 * time.Second

// A Worker runs one consumer over one source.
type Worker struct {
	source     broker.Source
	caps       broker.Capabilities
	positioner broker.Positioner // nil when the source is none
	p          Processor
	config     Config
	order      Order
	within     time.Duration // a suspect, or a message taken from the parked ones, ends within
	log        *slog.Logger

	// What the store can do; each is nil when it can't.
	holding   yekbar.HoldingStore
	attempts  yekbar.AttemptStore
	operator  yekbar.OperatorStore
	counter   yekbar.HeldCounter
	claims    yekbar.RetentionStore
	registry  yekbar.RegistryStore
	positions yekbar.PositionStore

	begun         atomic.Bool
	stopping      chan struct{} // closed when fetching has ended
	queue         queue         // received, not yet running
	jobs          jobs
	gate          gate
	keys          heldKeys
	poller        poller
	environment   environment
	batch         batchSize
	window        window
	paused        pauser
	health        health
	counters      counters
	stored        atomic.Pointer[yekbar.ConsumerStatus]
	staying       atomic.Int64   // jobs that wait here for their next attempt
	handlers      sync.WaitGroup // goroutines of runner
	processing    context.Context
	settling      sync.WaitGroup
	settleContext context.Context
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
	c.FormerNames = slices.Clone(c.FormerNames)
	w := &Worker{
		source:      src,
		caps:        src.Capabilities(),
		p:           p,
		config:      c,
		order:       c.Order,
		log:         c.Logger.With("consumer", p.Name()),
		stopping:    make(chan struct{}),
		queue:       newQueue(),
		jobs:        newJobs(),
		gate:        newGate(),
		keys:        newHeldKeys(),
		poller:      newPoller(c.Concurrency / 2),
		environment: newEnvironment(c.EnvironmentLimit),
		window:      newWindow(),
		paused:      newPauser(),
		health:      newHealth(),
	}
	w.batch.most = int64(c.Batch)
	w.batch.now.Store(int64(c.Batch))
	w.positioner, _ = src.(broker.Positioner)
	w.findAbilities()
	if err := w.mismatches(); err != nil {
		return nil, err
	}
	if w.order == OrderAuto {
		w.order = Unordered
		if w.holding != nil && (w.caps.KeyAffinity || c.SingleProcess) {
			w.order = ByKey
		}
	}
	return w, nil
}

// findAbilities looks for what store and consumer can do beyond the least.
func (w *Worker) findAbilities() {
	store := w.p.Unwrap()
	w.holding, _ = yekbar.Find[yekbar.HoldingStore](store)
	w.attempts, _ = yekbar.Find[yekbar.AttemptStore](store)
	w.operator, _ = yekbar.Find[yekbar.OperatorStore](store)
	w.counter, _ = yekbar.Find[yekbar.HeldCounter](store)
	w.registry, _ = yekbar.Find[yekbar.RegistryStore](store)
	w.positions, _ = yekbar.Find[yekbar.PositionStore](store)
	w.claims, _ = yekbar.Find[yekbar.RetentionStore](store)
	w.within = 3*w.p.Timeout() + recordTimeout
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
	if w.begun.Swap(true) {
		return errors.New("yekbar/worker: Run may be called once; make a new Worker")
	}
	err := w.prepare(ctx)
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

func (w *Worker) run(ctx context.Context) error {
	// Handlers and settling outlive ctx; each is ended by its own grace time.
	processing, cancelProcessing := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelProcessing(nil)
	settling, cancelSettling := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelSettling()
	w.processing, w.settleContext = processing, settling

	w.log.Info("consuming", "subscription", w.caps.Subscription, "order", w.order, "concurrency", w.config.Concurrency, "batch", w.config.Batch)
	stopExtending := w.startExtending(settling)
	defer stopExtending()
	stopLoops := w.startLoops(ctx)
	for range w.config.Concurrency {
		w.handlers.Go(w.runner)
	}

	err := w.fetch(ctx)
	close(w.stopping)
	for _, j := range w.queue.close() {
		w.finish(j, w.notBegun(j))
	}
	stopLoops()

	err = errors.Join(err, w.endHandlers(cancelProcessing))

	last := time.AfterFunc(settleGrace, cancelSettling)
	w.settling.Wait()
	last.Stop()
	if w.positioner != nil && w.positions != nil && w.gate.shut() == nil {
		w.savePosition(context.WithoutCancel(ctx), nil)
	}

	if n := w.counters.abandoned.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("yekbar/worker: consumer %q: %d deliveries could not be settled before the end; the broker delivers them again: %w",
			w.p.Name(), n, w.counters.lastSettleError()))
	}
	return err
}

// runner handles what the queue hands out, until that is closed.
func (w *Worker) runner() {
	for {
		js, alone := w.queue.take(w.batch.size())
		if len(js) == 0 || !w.handle(w.processing, &run{w: w, alone: alone, open: js}) {
			return
		}
	}
}

// startLoops starts what runs beside the messages, until the returned function
// is called, which waits.
func (w *Worker) startLoops(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	for _, loop := range []struct {
		able bool
		run  func(context.Context)
	}{
		{w.holding != nil, w.poll},
		{w.claims != nil, w.prune},
		{w.operator != nil, w.watchPaused},
		{w.counter != nil, w.watchHeld},
		{w.positioner != nil && w.positions != nil, w.savePositions},
	} {
		if loop.able {
			loops.Go(func() { loop.run(ctx) })
		}
	}
	return func() {
		cancel()
		loops.Wait()
	}
}

// endHandlers lets the running finish within the grace time, then cancels
// them. Of those that ignore that, it does not wait for the end.
func (w *Worker) endHandlers(cancel context.CancelCauseFunc) error {
	ended := make(chan struct{})
	go func() {
		w.handlers.Wait()
		close(ended)
	}()
	grace := time.NewTimer(w.config.Grace)
	defer grace.Stop()
	select {
	case <-ended:
		return nil
	case <-grace.C:
	}
	w.log.Warn("cancelling the handlers that still run", "grace", w.config.Grace)
	cancel(errShutdown)
	grace.Reset(commitGrace)
	select {
	case <-ended:
		return nil
	case <-grace.C:
		return fmt.Errorf("yekbar/worker: consumer %q: %w, also at the end; nothing that they still do is committed", w.p.Name(), errStuck)
	}
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
