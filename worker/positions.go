package worker

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/yekbar-go/yekbar"
)

const (
	// positionsEvery is how often it is written down how far the consumer has
	// acknowledged.
	positionsEvery = 5 * time.Second
	// positionsLook is how many acknowledged messages of each partition are
	// looked through at start, at most.
	positionsLook = 1000
)

// checkPositions refuses a database that is behind the broker: one that was
// restored, or failed over, to an earlier moment. Where the broker holds more
// for acknowledged than was written down, each of those messages must have a
// claim.
func (w *Worker) checkPositions(ctx context.Context) error {
	if w.positioner == nil || w.positions == nil || w.operator == nil || w.config.TakesOver != "" {
		return nil
	}
	saved, err := w.positions.Positions(ctx, w.p.Name())
	if err != nil {
		return err
	}
	now, err := w.positioner.Positions(ctx)
	if err != nil {
		return err
	}
	if maps.Equal(saved, now) {
		return nil
	}
	for m, err := range w.positioner.Acknowledged(ctx, saved, positionsLook) {
		if err != nil {
			return err
		}
		claim, err := w.p.Identify(m)
		if err != nil {
			continue // it was set aside under another name
		}
		known, err := w.claimed(ctx, claim.MessageID)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("%w: the broker holds message %q for acknowledged, and it has no claim: was the database restored, or failed over, to an earlier moment? Stop all workers of the consumer and have everything since delivered again, which the claims make safe: yekbar rewind %s --broker URL --reason TEXT (when the consumer took the subscription over from another program instead, say so in Config.TakesOver)",
				yekbar.ErrBehindBroker, claim.MessageID, w.p.Name())
		}
	}
	return nil
}

// savePositions writes down how far the consumer has acknowledged, until ctx
// ends.
func (w *Worker) savePositions(ctx context.Context) {
	var last map[string]string
	for pause(ctx, positionsEvery) {
		if w.gate.shut() == nil {
			last = w.savePosition(ctx, last)
		}
	}
}

// savePosition saves once, when something changed.
func (w *Worker) savePosition(ctx context.Context, last map[string]string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	now, err := w.positioner.Positions(ctx)
	if err == nil && !maps.Equal(now, last) {
		err = w.positions.SavePositions(ctx, w.p.Name(), now)
	}
	switch {
	case err == nil:
		w.health.clear("positions")
		return now
	case ctx.Err() == nil && !outage(err) && w.health.set("positions", err):
		w.log.Error("how far the consumer has acknowledged can't be written down", "error", err)
	}
	return last
}
