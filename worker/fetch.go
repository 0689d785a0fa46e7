package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// behindFactor bounds the deliveries that wait behind another one of their
// ordering key, in multiples of Config.Prefetch.
const behindFactor = 8

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
		receiving, cancel := w.paused.receiving(ctx)
		ds, err := w.source.Receive(receiving, limit)
		cut := receiving.Err() != nil
		cancel()
		if len(ds) > limit {
			err = errors.Join(err, fmt.Errorf("the source returned %d deliveries, %d were asked for", len(ds), limit))
		}
		for _, d := range ds {
			j := w.arrived(d)
			w.jobs.add(j)
			w.counters.received.Add(1)
			if !w.queue.add(j) {
				w.finish(j, w.notBegun(j))
			}
		}
		switch {
		case err == nil:
			if failures > 0 {
				w.health.clear("broker")
				w.log.Info("the broker is back", "failures", failures)
			}
			failures = 0
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx is what Run waits for
		case errors.Is(err, broker.ErrOutage):
			failures++
			w.health.set("broker", err)
			if failures == 1 {
				w.log.Error("the broker is unreachable; trying again", "error", err)
			}
			if !pause(ctx, receiveBackoff.Pause(failures)) {
				return nil
			}
		case cut: // by a pause
		default:
			return fmt.Errorf("yekbar/worker: consumer %q: receiving: %w", w.p.Name(), err)
		}
	}
}

// room waits until something may be fetched and returns how much, or 0 when
// ctx ended. While the database is away that is one, and only when nothing is
// held that could probe.
func (w *Worker) room(ctx context.Context) int {
	for ctx.Err() == nil {
		reopened := w.gate.shut()
		held := w.jobs.len()
		n := min(w.config.Prefetch-(held-w.queue.waitingBehind()), (1+behindFactor)*w.config.Prefetch-held)
		switch {
		case w.paused.now():
			n = 0
		case reopened != nil && held+w.poller.holding() > 0:
			n = 0
		case reopened != nil:
			n = min(n, 1)
		}
		if n > 0 {
			return n
		}
		select {
		case <-w.jobs.freed:
		case <-reopened:
		case <-ctx.Done():
		}
	}
	return 0
}
