package worker

import (
	"context"
	"errors"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

const (
	// settleTry bounds one try to acknowledge or give back.
	settleTry = 5 * time.Second
	// settleFor bounds all of them; the broker then delivers again.
	settleFor = time.Minute
)

var settleBackoff = yekbar.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}

// over reports whether there is nothing left to settle.
func over(err error) bool {
	return errors.Is(err, broker.ErrLost) || errors.Is(err, broker.ErrSettled) || errors.Is(err, broker.ErrClosed)
}

// settle carries out a verdict and frees the delivery's slot. It runs after
// COMMIT, on a context that a shutdown ends only after a grace time. There are
// never more of them than Config.Prefetch.
func (w *Worker) settle(ctx context.Context, j *job, v verdict) {
	defer func() {
		w.jobs.remove(j)
		<-w.slots
	}()
	if v.drop {
		w.counters.lost.Add(1)
		return
	}
	if !v.ack && v.delay > 0 && !w.caps.NackDelay {
		w.delay(j, v.delay)
		v.delay = 0
	}
	end := func(yekbar.OperationEnd) {}
	if o := w.config.Observer; o != nil {
		n, _ := j.d.Attempt()
		opCtx, e := o.Observe(ctx, yekbar.Operation{Name: "settle", Consumer: w.p.Name(), Messages: j.messages(), Attempt: n})
		ctx = opCtx
		if e != nil {
			end = e
		}
	}
	err := w.settleTries(ctx, j, v)
	end(yekbar.OperationEnd{Err: err})
	w.settled(j, v, err)
}

// delay keeps a delivery here for the time that the broker can't keep it.
func (w *Worker) delay(j *job, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.stopping:
	case <-j.d.Lost():
	}
}

func (w *Worker) settleTries(ctx context.Context, j *job, v verdict) error {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	for failures := 1; ; failures++ {
		err := func() error {
			try, cancel := context.WithTimeout(ctx, settleTry)
			defer cancel()
			if v.ack {
				return j.d.Ack(try)
			}
			return j.d.Nack(try, v.delay)
		}()
		j.ending.Store(err != nil)
		if err == nil || over(err) || !pause(ctx, settleBackoff.Pause(failures)) {
			return err
		}
	}
}

func (w *Worker) settled(j *job, v verdict, err error) {
	switch {
	case err == nil && v.ack:
		w.counters.acked.Add(1)
	case err == nil:
		w.counters.givenBack.Add(1)
	case over(err):
		// The broker delivers it again, and the claim answers.
		w.counters.lost.Add(1)
		w.log.Debug("the delivery was not ours any more when it was settled", "message", j.id(), "error", err)
	default:
		w.counters.abandon(err)
		w.log.Warn("the delivery could not be settled; the broker delivers it again", "message", j.id(), "acknowledge", v.ack, "error", err)
	}
}
