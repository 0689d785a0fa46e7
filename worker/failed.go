package worker

import (
	"context"
	"errors"
	"time"

	"github.com/yekbar-go/yekbar"
)

const (
	// inFlightPause is the delay of a message whose copy is being handled
	// elsewhere: long enough for that to end, too short to matter.
	inFlightPause = time.Second
	// recordTimeout bounds what is written about a message, which the end of
	// the handlers' grace time does not interrupt.
	recordTimeout = 15 * time.Second
)

// recording returns a context to write about a message with.
func recording(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
}

// failed judges an error that is not an outage.
func (w *Worker) failed(ctx context.Context, j *job, err error) answer {
	var (
		conflict *yekbar.ConflictError
		identity *yekbar.IdentityError
		boundary *yekbar.BoundaryError
	)
	tried := yekbar.Attempts{Failed: 1, Errors: []string{err.Error()}}
	switch {
	case errors.Is(err, yekbar.ErrInFlight):
		w.clearStart(ctx, j)
		return answer{v: w.aside(j, inFlightPause), s: serves}
	case errors.Is(err, yekbar.ErrEnvironment):
		w.clearStart(ctx, j)
		return w.unfit(ctx, j, err)
	case errors.As(err, &boundary) && boundary.Escaped:
		// The consumer has turned the claim to dead; the redelivery meets
		// it and rests.
		w.logFailure(j, "the handler left its transaction", err, 1, w.config.Backoff.Min)
		return answer{v: giveBack(w.config.Backoff.Min), s: serves}
	case errors.As(err, &conflict):
		return w.setAside(ctx, j, yekbar.ReasonConflict, err, tried)
	case errors.As(err, &identity):
		return w.setAside(ctx, j, yekbar.ReasonIdentity, err, tried)
	}
	a, outage := w.addFailure(ctx, j, err)
	switch {
	case outage != nil:
		return answer{outage: outage}
	case yekbar.IsPermanent(err):
		return w.setAside(ctx, j, yekbar.ReasonPermanent, err, a)
	case yekbar.CountsAsAttempt(err) && a.Failed >= w.config.MaxAttempts:
		return w.setAside(ctx, j, yekbar.ReasonAttempts, err, a)
	}
	delay := w.config.Backoff.Pause(a.Failed)
	if d, ok := yekbar.RetryPause(err); ok {
		delay = d
	}
	w.counters.failed.Add(1)
	w.logFailure(j, "the message failed", err, a.Failed, delay)
	v := w.later(ctx, j, delay, a)
	if v.outage == nil && errors.Is(err, yekbar.ErrTimeout) {
		v.s = unclear // a handler that hangs, or a database that does
	}
	return v
}

// addFailure records a failed attempt and returns all there were. Of a parked
// message the record stands with it, and is written when it is held anew.
func (w *Worker) addFailure(ctx context.Context, j *job, failure error) (a yekbar.Attempts, outage error) {
	if j.held != nil {
		return yekbar.Attempts{Failed: j.held.Attempts + 1, Errors: lastErrors(j.held.Errors, failure)}, nil
	}
	fallback := yekbar.Attempts{Failed: j.deliveries(), Errors: []string{failure.Error()}}
	if w.attempts == nil || j.id() == "" {
		return fallback, nil
	}
	ctx, cancel := recording(ctx)
	defer cancel()
	a, err := w.attempts.AddFailure(ctx, w.p.Name(), j.id(), failure.Error())
	switch {
	case err != nil && absent(err):
		return a, err
	case err != nil:
		w.log.Error("a failed attempt could not be recorded; the broker's count is used", "message", j.name(), "error", err)
		return fallback, nil
	}
	j.again, j.started = true, false
	return a, nil
}

// lastErrors appends a failure's text, and keeps the last ten.
func lastErrors(texts []string, failure error) []string {
	all := append(append([]string(nil), texts...), failure.Error())
	return all[max(0, len(all)-10):]
}

// leaseLost counts an attempt that the end of the lease cancelled, so that
// none is repeated for ever.
func (w *Worker) leaseLost(ctx context.Context, j *job) {
	if j.held != nil {
		return
	}
	if _, err := w.addFailure(ctx, j, errors.New("the lease was lost while the handler ran")); err != nil {
		w.log.Warn("an attempt whose lease was lost could not be recorded", "message", j.name(), "error", err)
	}
}

// later decides where a failed message waits for its next attempt: here, in
// the database, or at the broker.
func (w *Worker) later(ctx context.Context, j *job, delay time.Duration, a yekbar.Attempts) answer {
	switch {
	case w.order == Strict:
		return answer{v: stay(delay), s: serves}
	case w.holding == nil:
		return answer{v: giveBack(delay), s: serves}
	case j.held == nil && delay <= w.config.ParkAfter && w.mayStay():
		return answer{v: stay(delay), s: serves}
	}
	return w.park(ctx, j, yekbar.ReasonDelayed, delay, a)
}

// mayStay reports whether one more message may wait here: those that do hold
// up others.
func (w *Worker) mayStay() bool {
	return !w.stopped() && w.staying.Load() < int64(max(1, w.config.Prefetch/4))
}

// aside keeps a message that was not tried out of the way for a short time.
func (w *Worker) aside(j *job, delay time.Duration) verdict {
	if j.key != "" || j.held != nil || !w.caps.NackDelay {
		return stay(delay) // its turn must not pass to the next
	}
	return giveBack(delay)
}

func (w *Worker) logFailure(j *job, what string, err error, attempt int, delay time.Duration) {
	w.log.Warn(what, "message", j.name(), "attempt", attempt, "again_in", delay, "error", err)
}
