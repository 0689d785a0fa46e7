package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// receiveBackoff is the pause between calls of Receive while the broker is
// away.
var receiveBackoff = yekbar.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second}

// fetch receives until ctx ends (nil) or the source does.
func (w *Worker) fetch(ctx context.Context) error {
	failures := 0
	for {
		limit := w.room(ctx)
		if limit == 0 {
			return nil
		}
		ds, err := w.source.Receive(ctx, limit)
		if len(ds) > limit {
			err = errors.Join(err, fmt.Errorf("the source returned %d deliveries, %d were asked for", len(ds), limit))
		}
		for i, d := range ds {
			if i >= limit {
				w.slots <- struct{}{} // the adapter's fault; wait rather than hold more
			}
			j := &job{d: d}
			w.jobs.add(j)
			w.counters.received.Add(1)
			w.queue <- j
		}
		for range limit - len(ds) {
			<-w.slots
		}
		switch {
		case err == nil:
			if failures > 0 {
				w.log.Info("the broker is back", "failures", failures)
			}
			failures = 0
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx is what Run waits for
		case errors.Is(err, broker.ErrOutage):
			failures++
			if failures == 1 {
				w.log.Error("the broker is unreachable; trying again", "error", err)
			}
			if !pause(ctx, receiveBackoff.Pause(failures)) {
				return nil
			}
		default:
			return fmt.Errorf("yekbar/worker: consumer %q: receiving: %w", w.p.Name(), err)
		}
	}
}

// room waits until something may be fetched, takes the slots for it and
// returns their number, or 0 when ctx ended. While the database is away that
// is one, and only when nothing is held that could probe.
func (w *Worker) room(ctx context.Context) int {
	for {
		reopened := w.gate.shut()
		if reopened == nil || w.jobs.len() == 0 {
			break
		}
		select {
		case <-reopened:
		case <-w.jobs.idle:
		case <-ctx.Done():
			return 0
		}
	}
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	n := 1
	if ctx.Err() != nil {
		<-w.slots
		return 0
	}
	if w.gate.shut() != nil {
		return n
	}
	for {
		select {
		case w.slots <- struct{}{}:
			n++
			continue
		default:
		}
		return n
	}
}
