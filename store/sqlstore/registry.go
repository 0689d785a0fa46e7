package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// A consumerRow is one of the table of consumers.
type consumerRow struct {
	subscription string
	renamedTo    string
	pruning      schema.Pruning
	pruneAfter   string
	paused       bool
	pausedBy     yekbar.Actor
	pausedAt     time.Time
	now          time.Time // the database's clock
}

// lockConsumer reads a consumer's row, which it makes and locks.
func (t *txn) lockConsumer(name string) (consumerRow, error) {
	if err := checkText("consumer", name, maxConsumer); err != nil {
		return consumerRow{}, err
	}
	if err := t.ensure(schema.Consumers, []string{"consumer_name"}, name); err != nil {
		return consumerRow{}, err
	}
	c, found, err := t.readConsumer(name, "")
	if err == nil && !found {
		err = errGone
	}
	return c, err
}

func (t *txn) readConsumer(name, lock string) (c consumerRow, found bool, err error) {
	d := t.store.dialect
	var firstSeen, watermark, calledAt, published, publishedAt, prunable, pausedAt, now instant
	var renamedTo, after sql.NullString
	found, err = t.one([]any{
		encoded{&c.subscription}, &renamedTo, &firstSeen, &watermark, &calledAt, &published, &publishedAt, &prunable, &after,
		&c.paused, encoded{&c.pausedBy.Name}, encoded{&c.pausedBy.Reason}, &pausedAt, &now,
	}, "SELECT subscription, renamed_to, "+d.micros("first_seen")+", "+d.micros("watermark")+", "+d.micros("watermark_called_at")+", "+
		d.micros("published_watermark")+", "+d.micros("published_at")+", "+d.micros("prunable_watermark")+", prune_after, "+
		"paused, paused_by, paused_reason, "+d.micros("paused_at")+", "+d.micros(d.clock())+" FROM "+t.store.table(schema.Consumers)+ofConsumer+lock, name)
	c.renamedTo, c.pruneAfter, c.pausedAt, c.now = renamedTo.String, after.String, pausedAt.Time, now.Time
	c.pruning = schema.Pruning{
		FirstSeen: firstSeen.Time, Watermark: watermark.Time, CalledAt: calledAt.Time,
		Published: published.Time, PublishedAt: publishedAt.Time, Prunable: prunable.Time,
	}
	return c, found, err
}

// Register implements yekbar.RegistryStore. Former names are marked first, so
// that their workers are refused from then on, and then their rows are moved;
// who is interrupted in that goes on at the next start.
func (s *Store) Register(ctx context.Context, r yekbar.Registration) error {
	failed := func(err error) error { return fmt.Errorf("sqlstore: register consumer %q: %w", r.Consumer, err) }
	if err := s.own(ctx, func(t *txn) (commit bool, err error) { return true, t.register(r) }); err != nil {
		return failed(err)
	}
	var former []string
	err := s.read(ctx, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		former = append(former, name)
		return nil
	}, "SELECT consumer_name FROM "+s.table(schema.Consumers)+" WHERE renamed_to = ?", r.Consumer)
	if err != nil {
		return failed(err)
	}
	for _, name := range former {
		if err := s.moveAll(ctx, name, r.Consumer); err != nil {
			return fmt.Errorf("%w (moving what is stored under its former name %q)", failed(err), name)
		}
	}
	return nil
}

func (t *txn) register(r yekbar.Registration) error {
	names := append([]string{r.Consumer}, r.FormerNames...)
	slices.Sort(names) // who registers the same ones meanwhile locks them in the same order
	names = slices.Compact(names)
	all := make(map[string]consumerRow, len(names))
	for _, name := range names {
		c, err := t.lockConsumer(name)
		if err != nil {
			return err
		}
		all[name] = c
	}
	c := all[r.Consumer]
	switch {
	case c.renamedTo != "":
		return &yekbar.RenamedError{Consumer: r.Consumer, Now: c.renamedTo}
	case c.subscription != "" && r.Subscription != "" && c.subscription != r.Subscription:
		return &yekbar.SubscriptionError{Consumer: r.Consumer, Stored: c.subscription, Subscription: r.Subscription}
	case c.subscription == "" && r.Subscription != "":
		if err := t.setConsumer(r.Consumer, "subscription = ?", schema.EncodeText(r.Subscription)); err != nil {
			return err
		}
	}
	for _, name := range r.FormerNames {
		if to := all[name].renamedTo; to != "" && to != r.Consumer && !slices.Contains(r.FormerNames, to) {
			return &yekbar.RenamedError{Consumer: name, Now: to}
		}
	}
	p, pause := c.pruning, c
	for _, name := range names {
		f := all[name]
		if name == r.Consumer || f.renamedTo != "" {
			continue
		}
		if err := t.rename(name, r.Consumer); err != nil {
			return err
		}
		if p = p.Merge(f.pruning); f.paused && !pause.paused {
			pause = f
		}
	}
	if pause.paused && !c.paused {
		if err := t.pause(r.Consumer, pause.pausedBy, pause.pausedAt); err != nil {
			return err
		}
	}
	if p == c.pruning {
		return nil
	}
	return t.setPruning(r.Consumer, p)
}

// rename marks a former name, and whatever was renamed to it.
func (t *txn) rename(former, name string) error {
	if err := t.exec("UPDATE "+t.store.table(schema.Consumers)+" SET renamed_to = ? WHERE renamed_to = ?", name, former); err != nil {
		return err
	}
	return t.setConsumer(former, "renamed_to = ?", name)
}

func (t *txn) setConsumer(name, set string, args ...any) error {
	return t.exec("UPDATE "+t.store.table(schema.Consumers)+" SET "+set+ofConsumer, append(args, name)...)
}

func (t *txn) pause(name string, by yekbar.Actor, at time.Time) error {
	return t.setConsumer(name, "paused = ?, paused_by = ?, paused_reason = ?, paused_at = ?",
		true, schema.EncodeText(by.Name), schema.EncodeText(by.Reason), t.store.timeValue(at))
}

// ConfirmSubscription implements yekbar.RegistryStore.
func (s *Store) ConfirmSubscription(ctx context.Context, consumer, subscription string, by yekbar.Actor) error {
	return s.act(ctx, yekbar.AuditEntry{Action: "confirm", Consumer: consumer, By: by}, func(t *txn, _ *yekbar.AuditEntry) error {
		if _, err := t.lockConsumer(consumer); err != nil {
			return err
		}
		return t.setConsumer(consumer, "subscription = ?", schema.EncodeText(subscription))
	})
}
