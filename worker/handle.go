package worker

import (
	"context"
	"errors"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// inFlightPause is the delay of a message whose copy is being handled
// elsewhere: long enough for that to end, too short to matter.
const inFlightPause = time.Second

// A verdict is how a delivery is settled.
type verdict struct {
	ack   bool
	drop  bool // neither: it is not ours any more
	delay time.Duration
}

var (
	acknowledge = verdict{ack: true}
	drop        = verdict{drop: true}
)

func giveBack(delay time.Duration) verdict { return verdict{delay: delay} }

// handle brings one delivery to its verdict, and has it settled in the
// background, so that the broker's answer doesn't hold up the next message.
func (w *Worker) handle(ctx, settling context.Context, j *job) {
	v := w.judge(ctx, j)
	w.settling.Go(func() { w.settle(settling, j, v) })
}

func (w *Worker) judge(ctx context.Context, j *job) verdict {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer cancelWhenLost(j, cancel)()

	for {
		leave, ok := w.gate.enter(w.stopping, j.d.Lost())
		if !ok || w.stopped() || j.lost() {
			leave(unclear)
			return w.notBegun(j)
		}
		v, state, outage := w.attempt(ctx, j)
		if outage != nil {
			state = away
		}
		if changed := leave(state); changed && state == away {
			w.log.Error("the database does not serve; holding what is here, fetching nothing, probing with one message", "error", outage)
		} else if changed {
			w.log.Info("the database serves again")
		}
		if outage == nil {
			return v
		}
		if ctx.Err() != nil {
			return w.notBegun(j)
		}
	}
}

// notBegun is the verdict over a delivery whose message has not begun, or was
// cancelled: it goes back at once, and no attempt of its own was made.
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

// cancelWhenLost cancels the handler when the delivery's lease is lost. The
// returned function ends the watch and waits for it.
func cancelWhenLost(j *job, cancel context.CancelCauseFunc) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-j.d.Lost():
			cancel(broker.ErrLost)
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// attempt processes the message once. A non-nil outage means that it is held
// and tried again when the database serves.
func (w *Worker) attempt(ctx context.Context, j *job) (v verdict, s service, outage error) {
	m, err := j.d.Message()
	if err != nil {
		return w.setAside(ctx, j, yekbar.ReasonUndecodable, err)
	}
	j.m = m
	result, err := w.p.Process(ctx, m)
	if err == nil {
		w.counters.count(result)
		return acknowledge, serves, nil
	}
	if ctx.Err() != nil {
		return w.notBegun(j), unclear, nil //nolint:nilerr // the attempt was cancelled, and counts for nothing
	}
	if held(err) {
		return verdict{}, away, err
	}
	return w.failed(ctx, j, err)
}

// held reports whether err says that the database is away for every message
// alike, so that the message is kept and tried again.
func held(err error) bool {
	return errors.Is(err, yekbar.ErrUnavailable) || errors.Is(err, yekbar.ErrSchema) || errors.Is(err, yekbar.ErrCommitUnknown)
}

// failed judges an error that is not an outage.
func (w *Worker) failed(ctx context.Context, j *job, err error) (verdict, service, error) {
	n, _ := j.d.Attempt()
	delay := w.config.Backoff.Pause(max(n, 1))
	if d, ok := yekbar.RetryPause(err); ok {
		delay = d
	}
	var (
		conflict *yekbar.ConflictError
		identity *yekbar.IdentityError
		boundary *yekbar.BoundaryError
	)
	switch {
	case errors.Is(err, yekbar.ErrInFlight):
		return giveBack(inFlightPause), serves, nil
	case errors.Is(err, yekbar.ErrEnvironment):
		// It may be this message's alone (the table of one type is missing),
		// so others get the next try.
		w.logFailure(j, "the database is not fit for this message", err, delay)
		return giveBack(delay), away, nil
	case errors.As(err, &boundary) && boundary.Escaped:
		// The consumer has turned the claim to dead; the redelivery meets
		// it and rests.
		w.logFailure(j, "the handler left its transaction", err, delay)
		return giveBack(delay), serves, nil
	case errors.As(err, &conflict):
		return w.setAside(ctx, j, yekbar.ReasonConflict, err)
	case errors.As(err, &identity):
		return w.setAside(ctx, j, yekbar.ReasonIdentity, err)
	case yekbar.IsPermanent(err):
		return w.setAside(ctx, j, yekbar.ReasonPermanent, err)
	case yekbar.CountsAsAttempt(err) && n >= w.config.MaxAttempts:
		return w.setAside(ctx, j, yekbar.ReasonAttempts, err)
	}
	w.counters.failed.Add(1)
	w.logFailure(j, "the message failed", err, delay)
	if errors.Is(err, yekbar.ErrTimeout) {
		return giveBack(delay), unclear, nil // a handler that hangs, or a database that does
	}
	return giveBack(delay), serves, nil
}

func (w *Worker) logFailure(j *job, what string, err error, delay time.Duration) {
	n, _ := j.d.Attempt()
	w.log.Warn(what, "message", j.id(), "attempt", n, "again_in", delay, "error", err)
}
