package pgxstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

type registryStatements struct {
	ensure    string // consumer
	lock      string // consumer
	subscribe string // consumer, subscription
	rename    string // former name, name
	pauseFrom string // name, former name
}

func newRegistryStatements(r *strings.Replacer) registryStatements {
	return registryStatements{
		ensure:    r.Replace(`INSERT INTO {consumers} (consumer_name) VALUES ($1::text) ON CONFLICT (consumer_name) DO NOTHING`),
		lock:      r.Replace(`SELECT coalesce(c.subscription, ''), coalesce(c.renamed_to, ''), ` + pruningRead + ` FROM {consumers} c WHERE c.consumer_name = $1::text FOR UPDATE`),
		subscribe: r.Replace(`UPDATE {consumers} SET subscription = $2::text WHERE consumer_name = $1::text`),
		rename:    r.Replace(`UPDATE {consumers} SET renamed_to = $2::text WHERE consumer_name = $1::text OR renamed_to = $1::text`),
		pauseFrom: r.Replace(`UPDATE {consumers} c SET (paused, paused_by, paused_reason, paused_at) = (f.paused, f.paused_by, f.paused_reason, f.paused_at)
FROM {consumers} f WHERE c.consumer_name = $1::text AND f.consumer_name = $2::text AND f.paused AND NOT c.paused`),
	}
}

// A consumerRow is a row of consumers, which is locked.
type consumerRow struct {
	subscription string
	renamedTo    string
	pruning      schema.Pruning
	now          time.Time
}

// lockConsumer makes the row of a consumer where there is none, and reads it
// and then the clock.
func (s *Store) lockConsumer(ctx context.Context, tx pgx.Tx, name string) (consumerRow, error) {
	var c consumerRow
	var p pruningRow
	if err := queue(ctx, tx, s.sql.registry.ensure, name); err != nil {
		return c, err
	}
	err := tx.QueryRow(ctx, s.sql.registry.lock, name).Scan(append([]any{(*encoded)(&c.subscription), &c.renamedTo}, p.columns()...)...)
	if err != nil {
		return c, err
	}
	c.pruning = p.pruning()
	err = tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&c.now)
	return c, err
}

// Register implements yekbar.RegistryStore. The former names are refused from
// its first transaction on; what it had not moved when it was interrupted, the
// next start moves.
func (s *Store) Register(ctx context.Context, r yekbar.Registration) error {
	var former []string
	err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.register(ctx, tx, r); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, s.sql.renames.former, r.Consumer)
		if err != nil {
			return err
		}
		former, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	for i := 0; err == nil && i < len(former); i++ {
		err = s.moveAll(ctx, former[i], r.Consumer)
	}
	if err != nil {
		return fmt.Errorf("pgxstore: register consumer %q: %w", r.Consumer, err)
	}
	return nil
}

func (s *Store) register(ctx context.Context, tx pgx.Tx, r yekbar.Registration) error {
	names := append([]string{r.Consumer}, r.FormerNames...)
	slices.Sort(names) // all lock in this order
	names = slices.Compact(names)
	locked := map[string]consumerRow{}
	for _, name := range names {
		c, err := s.lockConsumer(ctx, tx, name)
		if err != nil {
			return err
		}
		locked[name] = c
	}
	c := locked[r.Consumer]
	switch {
	case c.renamedTo != "":
		return &yekbar.RenamedError{Consumer: r.Consumer, Now: c.renamedTo}
	case c.subscription != "" && r.Subscription != "" && c.subscription != r.Subscription:
		return &yekbar.SubscriptionError{Consumer: r.Consumer, Stored: c.subscription, Subscription: r.Subscription}
	}
	for _, former := range r.FormerNames {
		if to := locked[former].renamedTo; to != "" && to != r.Consumer && !slices.Contains(r.FormerNames, to) {
			return &yekbar.RenamedError{Consumer: former, Now: to}
		}
	}
	if r.Subscription != "" && c.subscription == "" {
		if err := queue(ctx, tx, s.sql.registry.subscribe, r.Consumer, schema.EncodeText(r.Subscription)); err != nil {
			return err
		}
	}
	pruning := c.pruning
	for _, name := range names {
		f := locked[name]
		if name == r.Consumer || f.renamedTo != "" {
			continue
		}
		pruning = pruning.Merge(f.pruning)
		if err := queue(ctx, tx, s.sql.registry.pauseFrom, r.Consumer, name); err != nil {
			return err
		}
		if err := queue(ctx, tx, s.sql.registry.rename, name, r.Consumer); err != nil {
			return err
		}
	}
	return s.queuePruning(ctx, tx, r.Consumer, pruning)
}

// ConfirmSubscription implements yekbar.RegistryStore.
func (s *Store) ConfirmSubscription(ctx context.Context, consumer, subscription string, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	err := s.own(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := queue(ctx, tx, s.sql.registry.ensure, consumer); err != nil {
			return err
		}
		if err := queue(ctx, tx, s.sql.registry.subscribe, consumer, schema.EncodeText(subscription)); err != nil {
			return err
		}
		return s.queueAudit(ctx, tx, &yekbar.AuditEntry{Action: "confirm", Consumer: consumer, By: by})
	})
	if err != nil {
		return fmt.Errorf("pgxstore: confirm the subscription of consumer %q: %w", consumer, err)
	}
	return nil
}
