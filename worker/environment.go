package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

// unfitPause is the delay of a message for which the database is not fit,
// while it is for others.
const unfitPause = 30 * time.Second

// An environment counts the different messages in a row for which the
// database was not fit.
type environment struct {
	limit int

	mu     *sync.Mutex
	class  string
	failed map[string]struct{}
	paused bool
}

func newEnvironment(limit int) environment {
	return environment{limit: limit, mu: new(sync.Mutex), failed: map[string]struct{}{}}
}

// met reports whether so many different messages failed in this class that it
// is wrong for all, and whether that is new.
func (e *environment) met(class, id string) (everybodys, now bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.paused {
		return true, false
	}
	if e.class != class {
		e.class = class
		clear(e.failed)
	}
	e.failed[id] = struct{}{}
	e.paused = len(e.failed) >= e.limit
	return e.paused, e.paused
}

// served: a message took effect.
func (e *environment) served() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.failed)
}

// over ends the pause.
func (e *environment) over() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = false
	clear(e.failed)
}

func (e *environment) pausing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.paused
}

// unfit judges an error of the environment. It costs no attempt. It may be
// this message's alone (the table of one type is missing): then it is parked
// and others get their try. When it is everybody's, the consumer pauses; each
// message that probes is parked after it failed, so that the next one probes.
func (w *Worker) unfit(ctx context.Context, j *job, err error) answer {
	everybodys, now := w.environment.pausing(), false
	if j.held == nil { // one that was parked has been counted
		everybodys, now = w.environment.met(class(err), j.name())
	}
	if now {
		w.counters.pauses.Add(1)
		w.log.Error("the database is not fit for this consumer; it pauses itself", "messages", w.config.EnvironmentLimit, "error", err)
	}
	all := fmt.Errorf("the last %d messages failed alike: %w", w.config.EnvironmentLimit, err)
	if now || everybodys && (w.order == Strict || w.holding == nil || j.id() == "") {
		return answer{outage: all}
	}
	delay := min(unfitPause, w.config.Backoff.Max)
	w.log.Warn("the database is not fit for this message", "message", j.name(), "again_in", delay, "error", err)
	switch {
	case w.order == Strict:
		return answer{v: stay(delay)}
	case w.holding == nil || j.id() == "":
		return answer{v: w.aside(j, delay)}
	}
	var a yekbar.Attempts
	if j.held != nil {
		a.Failed, a.Errors = j.held.Attempts, j.held.Errors
	}
	parked := w.park(ctx, j, yekbar.ReasonDelayed, delay, a)
	parked.s = unclear // no good sign, and no outage
	if everybodys {
		if parked.s, parked.unfit = away, all; parked.v != acknowledge {
			return answer{outage: all} // the database is read-only, or full
		}
	}
	return parked
}

// class tells environments apart: by SQLSTATE, where the driver's error has
// one.
func class(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}
