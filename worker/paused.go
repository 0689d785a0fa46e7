package worker

import (
	"context"
	"sync"
	"time"
)

// pausedEvery is how often a worker asks whether its consumer is paused.
const pausedEvery = 2 * time.Second

// A pauser knows whether a person paused the consumer.
type pauser struct {
	mu      *sync.Mutex
	paused  bool
	receive context.CancelFunc // ends the Receive that is under way
}

func newPauser() pauser { return pauser{mu: new(sync.Mutex), receive: func() {}} }

func (p *pauser) now() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// receiving returns the context for a Receive, which a pause ends.
func (p *pauser) receiving(ctx context.Context) (context.Context, context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	p.receive = cancel
	if p.paused {
		cancel()
	}
	return ctx, cancel
}

func (p *pauser) set(paused bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = p.paused != paused
	if p.paused = paused; paused {
		p.receive()
	}
	return changed
}

// watchPaused asks until ctx ends.
func (w *Worker) watchPaused(ctx context.Context) {
	for pause(ctx, pausedEvery) {
		w.askPaused(ctx)
	}
}

// askPaused asks whether the consumer is paused. When the database has no
// answer, it stays as it was. While it is paused nothing is fetched and
// nothing new begins; what is here is kept, its lease extended.
func (w *Worker) askPaused(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	by, paused, err := w.operator.Paused(ctx, w.p.Name())
	if err != nil {
		if ctx.Err() == nil {
			w.log.Debug("whether the consumer is paused is unknown", "error", err)
		}
		return
	}
	if !w.paused.set(paused) {
		return
	}
	w.queue.pause(paused)
	signal(w.jobs.freed)
	if paused {
		w.counters.pauses.Add(1)
		w.log.Warn("the consumer was paused", "by", by.Name, "reason", by.Reason)
		return
	}
	signal(w.poller.wake)
	w.log.Info("the consumer was resumed")
}

// heldEvery is how often a worker asks how many messages are held.
const heldEvery = 30 * time.Second

// watchHeld keeps what Stats says of held messages, until ctx ends.
func (w *Worker) watchHeld(ctx context.Context) {
	for {
		w.countHeld(ctx)
		if !pause(ctx, heldEvery) {
			return
		}
	}
}

func (w *Worker) countHeld(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	now, err := w.counter.CountHeld(ctx, w.p.Name())
	switch {
	case err == nil:
		w.stored.Store(&now)
	case ctx.Err() == nil:
		w.log.Debug("how many messages are held is unknown", "error", err)
	}
}
