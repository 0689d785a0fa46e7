package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
)

// runningPause is the delay of a suspect that may still be running elsewhere.
const runningPause = 5 * time.Second

// start records that a message begins that was delivered, or parked, before:
// when this process ends with it, the next one knows. A message is a suspect
// when it was delivered again and nothing says why; it runs alone, so that it
// is the only one that can be blamed. A parked message becomes one after its
// first start without an end.
func (w *Worker) start(ctx context.Context, r *run, j *job) (a answer, done bool) {
	if w.attempts == nil || !j.suspect && j.held == nil || j.id() == "" {
		return answer{}, false
	}
	w.clearStart(ctx, j) // of an attempt that an outage ended
	if j.started {
		return answer{v: stay(w.config.Backoff.Min)}, true
	}
	recordCtx, cancel := recording(ctx)
	defer cancel()
	was, err := w.attempts.Start(recordCtx, w.p.Name(), j.id(), w.within)
	limit := w.config.MaxCrashes
	if j.held != nil {
		limit++ // the first start was in company
		was.Failed, was.Errors = j.held.Attempts, j.held.Errors
	}
	switch {
	case err != nil && absent(err):
		return answer{outage: err}, true
	case err != nil:
		w.log.Error("the start of a message can't be recorded", "message", j.name(), "error", err)
		return answer{v: w.aside(j, w.config.Backoff.Min)}, true
	case was.Running:
		return answer{v: w.aside(j, runningPause), s: serves}, true
	case was.Crashed >= limit:
		why := fmt.Errorf("yekbar/worker: %d times a process ended while it handled this message alone", was.Crashed)
		was.Failed += was.Crashed
		was.Errors = lastErrors(was.Errors, why)
		return w.setAside(ctx, j, yekbar.ReasonCrash, why, was), true
	case was.Failed >= w.config.MaxAttempts:
		why := fmt.Errorf("yekbar/worker: it failed %d times", was.Failed)
		return w.setAside(ctx, j, yekbar.ReasonAttempts, why, was), true
	}
	j.again, j.started = true, true
	if was.Crashed > 0 && !r.alone {
		j.suspect = true
		w.clearStart(ctx, j)
		return answer{v: stay(0), s: serves}, true
	}
	return answer{}, false
}

// clearStart says that a start ended without a failure.
func (w *Worker) clearStart(ctx context.Context, j *job) {
	if !j.started {
		return
	}
	ctx, cancel := recording(ctx)
	defer cancel()
	if err := w.attempts.ClearStart(ctx, w.p.Name(), j.id()); err != nil {
		w.log.Warn("the end of a start can't be recorded; it will count as a crash", "message", j.name(), "error", err)
		return
	}
	j.started = false
}

// forget clears what is recorded of a message that took effect.
func (w *Worker) forget(ctx context.Context, j *job) {
	if w.attempts == nil || !j.again || j.id() == "" {
		return
	}
	ctx, cancel := recording(ctx)
	defer cancel()
	if err := w.attempts.ClearAttempts(ctx, w.p.Name(), j.id()); err != nil {
		w.log.Debug("the record of a message that took effect stays", "message", j.name(), "error", err)
		return
	}
	j.started = false
}
