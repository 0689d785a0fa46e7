package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// prepare does what must come before the first message. While the database or
// the broker is away it waits, as it would later.
func (w *Worker) prepare(ctx context.Context) error {
	steps := []func(context.Context) error{w.checkStore, w.register, w.checkPositions, w.firstWindow, w.firstKeys}
	for _, step := range steps {
		if err := w.whenServed(ctx, step); err != nil || ctx.Err() != nil {
			return err
		}
	}
	if w.operator != nil {
		w.askPaused(ctx)
	}
	return nil
}

// outage reports whether err says that the database or the broker is away.
func outage(err error) bool {
	return errors.Is(err, yekbar.ErrUnavailable) || errors.Is(err, broker.ErrOutage)
}

// whenServed repeats a step until it was answered. It returns nil when ctx
// ended.
func (w *Worker) whenServed(ctx context.Context, step func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := step(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			w.health.clear("database")
			return nil //nolint:nilerr // the worker is to stop: what a step missed doesn't matter
		case !outage(err):
			return fmt.Errorf("yekbar/worker: consumer %q: %w", w.p.Name(), err)
		case w.health.set("database", err):
			w.log.Error("the database, or the broker, is unavailable; waiting for it before the first message", "error", err)
		}
		if !pause(ctx, probeBackoff.Pause(failures)) {
			return nil
		}
	}
}

// checkStore asks the store to check itself.
func (w *Worker) checkStore(ctx context.Context) error {
	if c, ok := yekbar.Find[yekbar.Checker](w.p.Unwrap()); ok {
		return c.Check(ctx)
	}
	return nil
}

// register says who consumes what, and takes claims of former names along.
func (w *Worker) register(ctx context.Context) error {
	if w.registry == nil {
		return nil
	}
	return w.registry.Register(ctx, yekbar.Registration{
		Consumer: w.p.Name(), Subscription: w.caps.Subscription, FormerNames: w.config.FormerNames,
	})
}

func (w *Worker) firstWindow(ctx context.Context) error {
	if w.claims == nil {
		return nil
	}
	return w.publishWindow(ctx)
}

func (w *Worker) firstKeys(ctx context.Context) error {
	if w.order != ByKey {
		return nil
	}
	keys, err := w.holding.HeldKeys(ctx, w.p.Name())
	w.keys.refresh(keys, w.keys.now())
	return err
}
