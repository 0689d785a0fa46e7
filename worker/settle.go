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

// finish carries out a verdict. What takes time runs in the background, so
// that the broker's answer doesn't hold up the next message; there are never
// more of those than deliveries are held.
func (w *Worker) finish(j *job, v verdict) {
	if v.fate == staying && !w.stopped() {
		w.staying.Add(1)
		w.settling.Go(func() { w.stay(j, v.delay) })
		return
	}
	w.queue.free(j)
	if j.held != nil {
		w.poller.release(j.id())
		return
	}
	if v.fate == staying {
		v = giveBack(0)
	}
	w.settling.Go(func() { w.settle(w.settleContext, j, v) })
}

// stay keeps a job, and its key's turn, until its next attempt.
func (w *Worker) stay(j *job, delay time.Duration) {
	due := w.wait(j, delay)
	w.staying.Add(-1)
	if !due || !w.queue.again(j) {
		w.finish(j, w.notBegun(j))
	}
}

// wait reports whether d went by, before the end or the lease's loss.
func (w *Worker) wait(j *job, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.stopping:
	case <-j.gone:
	}
	return false
}

// settle tells the broker, after COMMIT, on a context that a shutdown ends
// only after a grace time.
func (w *Worker) settle(ctx context.Context, j *job, v verdict) {
	defer w.jobs.remove(j)
	if v.fate == dropped {
		w.counters.lost.Add(1)
		return
	}
	if v.fate == givenBack && v.delay > 0 && !w.caps.NackDelay {
		w.wait(j, v.delay) // the broker can't
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

func (w *Worker) settleTries(ctx context.Context, j *job, v verdict) error {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	for failures := 1; ; failures++ {
		err := func() error {
			try, cancel := context.WithTimeout(ctx, settleTry)
			defer cancel()
			if v.fate == acknowledged {
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
	case err == nil && v.fate == acknowledged:
		w.counters.acked.Add(1)
	case err == nil:
		w.counters.givenBack.Add(1)
	case over(err):
		// The broker delivers it again, and the claim answers.
		w.counters.lost.Add(1)
		w.log.Debug("the delivery was not ours any more when it was settled", "message", j.name(), "error", err)
	default:
		w.counters.abandon(err)
		w.log.Warn("the delivery could not be settled; the broker delivers it again", "message", j.name(), "acknowledge", v.fate == acknowledged, "error", err)
	}
}
