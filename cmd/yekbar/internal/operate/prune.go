package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar"
)

// watermarkEvery is how often the watermark is moved while pruning goes on.
const watermarkEvery = 30 * time.Second

// Pruning is how a consumer is pruned by hand.
type Pruning struct {
	Retention time.Duration // 0: up to the watermark that is in force
	For       time.Duration // how long to go on; 0: once through the claims
	Batch     int           // claims in one transaction
	Rest      time.Duration // between two
}

type pruneJSON struct {
	changed
	Deleted   int        `json:"deleted"`
	Watermark *time.Time `json:"watermark"`
}

// Prune deletes claims of messages that were applied before the watermark.
func (d *Desk) Prune(ctx context.Context, consumer string, p Pruning, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	s, err := find[yekbar.RetentionStore](d, "it can't be pruned")
	if err != nil {
		return err
	}
	c, err := d.Known(ctx, consumer)
	if err != nil {
		return err
	}
	if err := d.Record(ctx, yekbar.AuditEntry{Action: "prune", Consumer: consumer, By: by}); err != nil {
		return err
	}
	r := pruneJSON{changed: changed{Action: "prune", Consumer: consumer, By: by.Name, Reason: by.Reason}, Watermark: when(c.Watermark)}
	var failed error
	for end := time.Now().Add(p.For); ; {
		var n int
		n, failed = d.pruneOnce(ctx, s, consumer, p, &r)
		r.Deleted += n
		if failed != nil || !time.Now().Before(end) {
			break
		}
		if failed = wait(ctx, min(watermarkEvery, time.Until(end))); failed != nil {
			break
		}
	}
	if failed != nil {
		return fmt.Errorf("%s deleted, then: %w", plural(int64(r.Deleted), "claim", "claims"), failed)
	}
	if r.Deleted == 0 {
		r.Warnings = append(r.Warnings, noneDeleted(r.Watermark))
	}
	if d.JSON {
		return d.print(r)
	}
	for _, w := range r.Warnings {
		if err := d.warn("%s", w); err != nil {
			return err
		}
	}
	mark := "there is no watermark yet"
	if r.Watermark != nil {
		mark = "the watermark is " + stamp(*r.Watermark)
	}
	return d.say("%s: %s deleted; %s", ShellQuote(consumer), plural(int64(r.Deleted), "claim", "claims"), mark)
}

func noneDeleted(watermark *time.Time) string {
	if watermark == nil {
		return "no watermark has been published: it begins one retention after the consumer was first seen, and moves with each call, twice as fast as time passes (so call again, or say --for)"
	}
	return "nothing before the watermark, or it is younger than a minute, or another process prunes this consumer right now"
}

// pruneOnce moves the watermark and goes through the claims once.
func (d *Desk) pruneOnce(ctx context.Context, s yekbar.RetentionStore, consumer string, p Pruning, r *pruneJSON) (deleted int, err error) {
	if p.Retention > 0 {
		w, err := s.Watermark(ctx, consumer, p.Retention)
		if err != nil {
			return 0, err
		}
		r.Watermark = when(w.Watermark)
	}
	for {
		n, more, err := s.Prune(ctx, consumer, p.Batch)
		deleted += n
		if err != nil || !more {
			return deleted, err
		}
		if err := wait(ctx, p.Rest); err != nil {
			return deleted, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
