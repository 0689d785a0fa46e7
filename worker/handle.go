package worker

import (
	"context"
	"errors"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// A verdict is what becomes of a job.
type verdict struct {
	fate  fate
	delay time.Duration // of giveBack and stay
}

type fate uint8

const (
	acknowledged fate = iota // it is safe: applied or held
	givenBack                // to the broker
	staying                  // here, its lease extended, until its next attempt
	dropped                  // it is not ours any more
)

var (
	acknowledge = verdict{fate: acknowledged}
	drop        = verdict{fate: dropped}
)

func giveBack(delay time.Duration) verdict { return verdict{givenBack, delay} }
func stay(delay time.Duration) verdict     { return verdict{staying, delay} }

// An answer is what an attempt found out. With an outage there is no verdict:
// the job is kept, and tried again when the database serves.
type answer struct {
	v      verdict
	s      service
	outage error
	unfit  error // why s is away, with a verdict
}

// handle brings the jobs of a run to their verdicts. It reports whether its
// goroutine may go on: not when another took its place, because a handler was
// stuck.
func (w *Worker) handle(ctx context.Context, r *run) bool {
	defer r.end()
	for pending := r.pending(); len(pending) > 0; pending = r.pending() {
		leave, probing, ok := w.gate.enter(w.stopping, lostAlone(pending))
		if !ok || w.stopped() {
			leave(unclear)
			for _, j := range pending {
				r.finish(j, w.notBegun(j))
			}
			break
		}
		if probing {
			pending = pending[:1]
		}
		s, outage := w.attempt(ctx, r, pending)
		w.learned(leave(s), s, outage)
		if ctx.Err() != nil {
			for _, j := range r.pending() {
				r.finish(j, w.notBegun(j))
			}
		}
	}
	return !r.replaced()
}

// learned logs that the gate was shut or opened.
func (w *Worker) learned(changed bool, s service, outage error) {
	switch {
	case !changed:
	case s == away:
		w.health.set("database", outage)
		w.log.Error("the database does not serve; holding what is here, fetching nothing, probing with one message", "error", outage)
	default:
		w.health.clear("database")
		w.environment.over()
		signal(w.jobs.freed)
		w.log.Info("the database serves again")
	}
}

// lostAlone returns a single job's end of lease: several wait, whoever is lost.
func lostAlone(js []*job) <-chan struct{} {
	if len(js) == 1 {
		return js[0].gone
	}
	return nil
}

// notBegun is the verdict over a job that has not begun, or was cancelled: it
// goes back at once, and no attempt of its own was made.
func (w *Worker) notBegun(j *job) verdict {
	if j.lost() {
		return drop
	}
	return giveBack(0)
}

func (w *Worker) stopped() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// attempt makes one attempt of jobs, and finishes those that have a verdict.
func (w *Worker) attempt(ctx context.Context, r *run, js []*job) (s service, outage error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer cancelWhenLost(js, cancel)()
	ctx = r.watched(ctx, cancel)

	note := func(j *job, a answer) {
		switch {
		case a.outage != nil:
			outage, s = a.outage, away
		case r.finish(j, a.v):
			if s = max(s, a.s); outage == nil {
				outage = a.unfit
			}
		}
	}
	var ready []*job
	for _, j := range js {
		if a, done := w.before(ctx, r, j); done {
			note(j, a)
		} else {
			ready = append(ready, j)
		}
	}
	if len(ready) == 0 || s == away || r.replaced() {
		return s, outage
	}
	began := time.Now()
	results := w.process(ctx, ready)
	w.counters.took(len(ready), time.Since(began))
	w.batch.learn(results)
	if r.replaced() {
		return unclear, nil // all has been decided
	}
	for i, j := range ready {
		note(j, w.after(ctx, j, results[i]))
	}
	return s, outage
}

// before says whether a job is decided without its handler.
func (w *Worker) before(ctx context.Context, r *run, j *job) (a answer, done bool) {
	switch {
	case j.lost():
		return answer{v: drop}, true
	case j.bad != nil:
		return w.setAside(ctx, j, yekbar.ReasonUndecodable, j.bad, yekbar.Attempts{Failed: j.deliveries()}), true
	}
	if a, done := w.behind(ctx, j); done {
		return a, true
	}
	if a, done := w.beyond(ctx, j); done {
		return a, true
	}
	return w.start(ctx, r, j)
}

func (w *Worker) process(ctx context.Context, js []*job) []yekbar.BatchResult {
	if len(js) > 1 {
		ms := make([]*yekbar.Message, len(js))
		for i, j := range js {
			ms[i] = j.m
		}
		return w.p.ProcessBatch(ctx, ms)
	}
	var r yekbar.BatchResult
	if js[0].held != nil {
		r.Result, r.Err = w.p.ProcessHeld(ctx, js[0].held)
	} else {
		r.Result, r.Err = w.p.Process(ctx, js[0].m)
	}
	return []yekbar.BatchResult{r}
}

// after judges what a handler's attempt gave.
func (w *Worker) after(ctx context.Context, j *job, r yekbar.BatchResult) answer {
	switch err := r.Err; {
	case err == nil:
		w.counters.count(r.Result)
		w.forget(ctx, j)
		if r.Outcome == yekbar.Duplicate && w.environment.pausing() {
			return answer{v: acknowledge} // no handler ran
		}
		if r.Outcome == yekbar.Applied {
			w.environment.served()
		}
		return answer{v: acknowledge, s: serves}
	case j.held != nil && errors.Is(err, yekbar.ErrNotHeld):
		w.forget(ctx, j)
		return answer{v: acknowledge, s: serves} // a person was faster
	case ctx.Err() != nil:
		if errors.Is(context.Cause(ctx), broker.ErrLost) {
			w.leaseLost(ctx, j)
		} else {
			w.clearStart(ctx, j)
		}
		return answer{v: w.notBegun(j)}
	case absent(err):
		return answer{outage: err}
	default:
		return w.failed(ctx, j, err)
	}
}

// absent reports whether err says that the database is away for every message
// alike, so that the message is kept and tried again.
func absent(err error) bool {
	return errors.Is(err, yekbar.ErrUnavailable) || errors.Is(err, yekbar.ErrSchema) || errors.Is(err, yekbar.ErrCommitUnknown)
}

// cancelWhenLost cancels the handlers when all leases are lost. The returned
// function ends the watch and waits for it.
func cancelWhenLost(js []*job, cancel context.CancelCauseFunc) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for _, j := range js {
			select {
			case <-j.gone:
			case <-done:
				return
			}
		}
		cancel(broker.ErrLost)
	}()
	return func() {
		close(done)
		<-ended
	}
}
