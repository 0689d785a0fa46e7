package worker

import (
	"context"
	"errors"
	"time"

	"github.com/yekbar-go/yekbar"
)

// setAside takes a message over from the broker as a dead one. Only when that
// is committed is it acknowledged.
func (w *Worker) setAside(ctx context.Context, j *job, reason string, why error, a yekbar.Attempts) answer {
	if w.holding == nil {
		delay := w.config.Backoff.Max
		w.log.Error("the message can't be handled, and the store can't hold it; it is given back", "message", j.name(),
			"reason", reason, "attempt", a.Failed, "again_in", delay, "error", why)
		return answer{v: giveBack(delay)}
	}
	h := w.heldMessage(j, reason, why)
	h.State, h.Attempts = yekbar.StateDead, a.Failed
	if h.Errors = a.Errors; len(h.Errors) == 0 {
		h.Errors = []string{why.Error()}
	}
	h.Ordered = w.config.DeadKeys == HoldKey && w.ordered(j)
	kept, failed := w.hold(ctx, j, h)
	switch {
	case failed != nil:
		return *failed
	case !kept:
		w.log.Warn("the message failed, but had been applied by another copy", "message", j.name(), "error", why)
		return answer{v: acknowledge, s: serves}
	}
	w.counters.setAside.Add(1)
	w.log.Error("the message was set aside", "message", j.name(), "reason", reason, "attempt", a.Failed, "error", why)
	if w.ordered(j) && !h.Ordered {
		w.log.Warn("later messages of its ordering key go on without it (Config.DeadKeys)", "message", j.name())
	}
	return answer{v: acknowledge, s: serves}
}

// park lets the database keep a message until its next attempt.
func (w *Worker) park(ctx context.Context, j *job, reason string, delay time.Duration, a yekbar.Attempts) answer {
	h := w.heldMessage(j, reason, nil)
	h.State, h.Delay, h.Attempts, h.Errors = yekbar.StateParked, delay, a.Failed, a.Errors
	h.Ordered = w.ordered(j)
	_, failed := w.hold(ctx, j, h)
	if failed != nil {
		return *failed
	}
	w.counters.parked.Add(1)
	w.poller.nudge(delay)
	return answer{v: acknowledge, s: serves}
}

// hold has a message taken over. When that fails it is kept or given back,
// and never acknowledged.
func (w *Worker) hold(ctx context.Context, j *job, h *yekbar.HeldMessage) (kept bool, failed *answer) {
	ctx, cancel := recording(ctx)
	defer cancel()
	if h.Ordered {
		// Before, so that no refresh misses it; and after, so that none that
		// read in between forgets it.
		w.keys.add(h.Message.OrderingKey)
		defer w.keys.add(h.Message.OrderingKey)
	}
	kept, err := w.holding.Hold(ctx, h)
	switch {
	case err == nil:
		w.health.clear("hold")
		j.started = false
		return kept, nil
	case absent(err):
		return false, &answer{outage: err}
	}
	delay := w.config.Backoff.Pause(h.Attempts)
	w.health.set("hold", err)
	w.log.Error("the message could not be taken over from the broker; it is kept", "message", j.name(),
		"reason", h.Reason, "again_in", delay, "error", err)
	if j.key != "" || j.held != nil || w.mayStay() {
		return false, &answer{v: stay(delay)}
	}
	return false, &answer{v: giveBack(delay)}
}

// ordered reports whether messages of its key wait for this one.
func (w *Worker) ordered(j *job) bool {
	if j.held != nil {
		return j.held.Ordered
	}
	return w.order == ByKey && j.key != ""
}

// heldMessage describes a message that is taken over. One without an identity
// of its own is held under the broker's coordinates, or else its raw bytes, so
// that a redelivery meets the first copy; and so is one in conflict, for its
// identity is taken by the message that was applied.
func (w *Worker) heldMessage(j *job, reason string, why error) *yekbar.HeldMessage {
	if j.held != nil {
		h := *j.held
		h.Reason, h.Delay, h.Due = reason, 0, time.Time{}
		return &h
	}
	h := &yekbar.HeldMessage{Consumer: w.p.Name(), MessageID: j.id(), Fingerprint: j.stored().Fingerprint, Reason: reason}
	if j.m != nil {
		h.Message = *j.m
	}
	if j.id() == "" || reason == yekbar.ReasonConflict {
		h.Raw = j.d.Raw()
		place := h.Raw
		if at := j.d.Coordinates(); w.caps.StableID && at != "" {
			place = []byte(at)
		}
		h.MessageID, h.Fingerprint = yekbar.HeldID(place), nil
	}
	if c := (*yekbar.ConflictError)(nil); errors.As(why, &c) {
		h.Fingerprint = c.Received
	}
	return h
}
