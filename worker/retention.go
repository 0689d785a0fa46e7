package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

const (
	// pruneEvery is how often old claims are looked for.
	pruneEvery = time.Minute
	// pruneBatch is how many are deleted in one transaction.
	pruneBatch = 500
	// pruneShare bounds the share of time that deleting takes: one in ten.
	pruneShare = 10
	// prunePause is the shortest pause between two batches.
	prunePause = 50 * time.Millisecond
)

// A window is the deduplication window as last seen.
type window struct {
	mu    *sync.Mutex
	last  yekbar.Window
	asked time.Time // by our clock
}

func newWindow() window { return window{mu: new(sync.Mutex)} }

func (x *window) set(v yekbar.Window) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last, x.asked = v, time.Now()
}

// now returns the watermark as last seen, and about what time the database
// has; false: never seen.
func (x *window) now() (watermark, now time.Time, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last.Watermark, x.last.Now.Add(time.Since(x.asked)), !x.asked.IsZero()
}

// publishWindow publishes the watermark, and learns which is in force.
func (w *Worker) publishWindow(ctx context.Context) error {
	v, err := w.claims.Watermark(ctx, w.p.Name(), w.p.Retention())
	if err == nil {
		w.window.set(v)
	}
	return err
}

// beyond sets a message aside that the broker received before the watermark,
// unless it has a claim: whether it was applied can't be known any more. Young
// messages, which all are in good times, cost nothing.
func (w *Worker) beyond(ctx context.Context, j *job) (a answer, done bool) {
	stamped, ok := j.d.(broker.Stamped)
	if !ok || w.claims == nil || w.operator == nil {
		return answer{}, false
	}
	received, keep := stamped.ReceivedAt(), w.p.Retention()
	watermark, now, ok := w.window.now()
	if received.IsZero() || ok && !received.Before(watermark) && (keep == yekbar.KeepForever || now.Sub(received) <= keep/2) {
		return answer{}, false
	}
	if j.id() == "" {
		return answer{}, false
	}
	asking, cancel := recording(ctx)
	defer cancel()
	err := w.publishWindow(asking)
	if err == nil {
		if watermark, _, _ = w.window.now(); !received.Before(watermark) {
			return answer{}, false
		}
		var known bool
		if known, err = w.claimed(ctx, j.id()); known {
			return answer{}, false
		}
	}
	switch {
	case err != nil && absent(err):
		return answer{outage: err}, true
	case err != nil:
		w.log.Error("whether an old message was applied can't be asked", "message", j.name(), "error", err)
		return answer{v: w.aside(j, w.config.Backoff.Min)}, true
	}
	why := fmt.Errorf("yekbar/worker: the broker received it at %s; claims from before %s may be deleted, so whether it took effect is unknown: look, then replay or discard it",
		received.UTC().Format(time.RFC3339), watermark.UTC().Format(time.RFC3339))
	return w.setAside(ctx, j, yekbar.ReasonBeyond, why, yekbar.Attempts{}), true
}

// prune publishes the watermark and deletes claims that are past it, until ctx
// ends.
func (w *Worker) prune(ctx context.Context) {
	for {
		if w.gate.shut() == nil {
			w.notePruning(ctx, w.pruneAll(ctx))
		}
		if !pause(ctx, pruneEvery) {
			return
		}
	}
}

func (w *Worker) notePruning(ctx context.Context, err error) {
	switch {
	case err == nil:
		w.health.clear("prune")
	case ctx.Err() == nil && !absent(err) && w.health.set("prune", err):
		w.log.Error("old claims can't be deleted", "error", err)
	}
}

// pruneAll deletes in small batches with pauses that are longer than they
// took, so that messages don't feel it.
func (w *Worker) pruneAll(ctx context.Context) error {
	if err := w.publishWindow(ctx); err != nil || w.p.Retention() == yekbar.KeepForever {
		return err
	}
	for {
		began := time.Now()
		n, more, err := w.claims.Prune(ctx, w.p.Name(), pruneBatch)
		w.counters.pruned.Add(int64(n))
		if err != nil || !more {
			return err
		}
		if !pause(ctx, max(prunePause, (pruneShare-1)*time.Since(began))) {
			return nil
		}
	}
}
