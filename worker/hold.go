package worker

import (
	"context"
	"errors"
	"time"

	"github.com/yekbar-go/yekbar"
)

// holdTimeout bounds taking a message over, which the end of the handlers'
// grace time does not interrupt.
const holdTimeout = 15 * time.Second

// setAside takes a message over from the broker as a dead one. Only when that
// is committed is it acknowledged.
func (w *Worker) setAside(ctx context.Context, j *job, reason string, why error) (verdict, service, error) {
	n, _ := j.d.Attempt()
	if w.holding == nil {
		delay := w.config.Backoff.Max
		w.log.Error("the message can't be handled, and the store can't hold it; it is given back", "message", j.id(),
			"reason", reason, "attempt", n, "again_in", delay, "error", why)
		return giveBack(delay), unclear, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTimeout)
	defer cancel()
	kept, err := w.holding.Hold(ctx, w.heldMessage(j, reason, why))
	switch {
	case err != nil && held(err):
		return verdict{}, away, err
	case err != nil:
		delay := w.config.Backoff.Pause(max(n, 1))
		w.log.Error("the message can't be handled, and could not be set aside; it is given back", "message", j.id(),
			"reason", reason, "again_in", delay, "error", errors.Join(why, err))
		return giveBack(delay), unclear, nil
	case kept:
		w.counters.setAside.Add(1)
		w.log.Error("the message was set aside", "message", j.id(), "reason", reason, "attempt", n, "error", why)
	default:
		w.log.Warn("the message failed, but had been applied by another copy", "message", j.id(), "error", why)
	}
	return acknowledge, serves, nil
}

// heldMessage describes a dead message. One without an identity of its own is
// held under the broker's coordinates, or else its raw bytes, so that a
// redelivery meets the first copy; and so is one in conflict, for its identity
// is taken by the message that was applied.
func (w *Worker) heldMessage(j *job, reason string, why error) *yekbar.HeldMessage {
	n, _ := j.d.Attempt()
	h := &yekbar.HeldMessage{
		Consumer: w.p.Name(),
		State:    yekbar.StateDead,
		Reason:   reason,
		Errors:   []string{why.Error()},
		Attempts: n,
	}
	if j.m != nil {
		h.Message = *j.m
	}
	if id, ok := w.p.(identifier); ok && j.m != nil && reason != yekbar.ReasonConflict {
		if claim, err := id.Identify(j.m); err == nil {
			h.MessageID, h.Fingerprint = claim.MessageID, claim.Fingerprint
			return h
		}
	}
	h.Raw = j.d.Raw()
	place := h.Raw
	if at := j.d.Coordinates(); w.caps.StableID && at != "" {
		place = []byte(at)
	}
	h.MessageID = yekbar.HeldID(place)
	if c := (*yekbar.ConflictError)(nil); errors.As(why, &c) {
		h.Fingerprint = c.Received
	}
	return h
}
