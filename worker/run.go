package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/handling"
)

// stuckAfter is how long a handler may go on after its context has ended,
// until it counts as stuck.
const stuckAfter = 5 * time.Second

var errStuck = errors.New("yekbar/worker: the handler ignores its context")

// A run is what one goroutine handles together.
type run struct {
	w     *Worker
	alone bool

	mu    sync.Mutex
	open  []*job // without a verdict
	stuck bool   // its jobs were decided without it, and another took its place
}

// pending returns the jobs without a verdict.
func (r *run) pending() []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.open)
}

func (r *run) replaced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stuck
}

// finish carries out a verdict, unless the job has one.
func (r *run) finish(j *job, v verdict) bool {
	if !r.close(j) {
		return false
	}
	r.w.finish(j, v)
	return true
}

func (r *run) close(j *job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.open, j)
	if i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
	return i >= 0
}

// end lets others run.
func (r *run) end() {
	if r.replaced() {
		r.w.counters.stuckNow.Add(-1)
		r.w.health.clearIf("stuck", r.w.counters.stuckNow.Load() == 0)
		r.w.log.Warn("a handler that was stuck has returned; what it did is rolled back")
		return
	}
	r.w.queue.leave(r.alone)
}

// watched lets the run see when a handler does not end.
func (r *run) watched(ctx context.Context, cancel context.CancelCauseFunc) context.Context {
	return handling.WithWatch(ctx, func(message any, limit time.Duration) func() {
		t := time.AfterFunc(limit+stuckAfter, func() {
			if !r.w.stopped() { // else the end sees to it
				cancel(errStuck)
				r.giveUp(ctx, message, limit)
			}
		})
		return func() { t.Stop() }
	})
}

// giveUp decides all that is open, for the handler may never return. It can't
// commit any more: its context has ended. Another goroutine takes its place,
// unless too many are stuck already.
func (r *run) giveUp(ctx context.Context, message any, limit time.Duration) {
	w := r.w
	r.mu.Lock()
	if r.stuck || len(r.open) == 0 {
		r.mu.Unlock()
		return
	}
	r.stuck = true
	open := r.open
	r.open = nil
	w.handlers.Add(1) // the stuck one is still counted
	defer w.handlers.Done()
	r.mu.Unlock()

	n := w.counters.stuckNow.Add(1)
	w.counters.stuck.Add(1)
	err := fmt.Errorf("%w: %w for %v past its %v; it holds a goroutine and a connection until it returns", yekbar.ErrTimeout, errStuck, stuckAfter, limit)
	w.health.set("stuck", fmt.Errorf("%d handlers: %w", n, errStuck))
	ctx = context.WithoutCancel(ctx)
	for _, j := range open {
		j.ending.Store(true)
		v := giveBack(inFlightPause)
		if m, ok := message.(*yekbar.Message); len(open) == 1 || ok && m == j.m {
			w.log.Error("a handler is stuck", "message", j.name(), "error", err)
			if a := w.failed(ctx, j, err); a.outage == nil {
				v = a.v
			}
		}
		w.finish(j, v)
	}
	if int(n) <= w.config.Concurrency {
		w.handlers.Go(w.runner)
	} else {
		w.log.Error("too many handlers are stuck; restart this process", "stuck", n)
	}
	w.queue.leave(r.alone)
}
