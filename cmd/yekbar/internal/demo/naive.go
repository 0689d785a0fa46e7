package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
)

// A naive is one of the two consumers that everybody writes first. They are
// wrong, and here to show how.
type naive struct {
	kind     string
	tables   *tables
	source   broker.Source
	reporter *reporter
	log      *slog.Logger
}

const (
	naivePause  = 200 * time.Millisecond
	naiveSettle = 10 * time.Second
)

func (n *naive) run(ctx context.Context) error {
	if err := n.reporter.report(event{Kind: eventReady}); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, concurrency)
	for i := range concurrency {
		wg.Go(func() { errs[i] = n.loop(ctx) })
	}
	wg.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), naiveSettle)
	defer cancel()
	return errors.Join(errors.Join(errs...), n.source.Close(end))
}

func (n *naive) loop(ctx context.Context) error {
	for {
		ds, err := n.source.Receive(ctx, 1)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		if err != nil && !errors.Is(err, broker.ErrOutage) {
			return err
		}
		if err != nil {
			select {
			case <-time.After(naivePause):
			case <-ctx.Done():
			}
		}
		for _, d := range ds {
			// What has begun is finished; a stop is no failure.
			if err := n.handle(context.WithoutCancel(ctx), d); err != nil {
				return err
			}
		}
	}
}

// handle returns an error only when it can't report.
func (n *naive) handle(ctx context.Context, d broker.Delivery) error {
	m, err := d.Message()
	if err != nil {
		return err
	}
	o, err := orders.Parse(m.Payload)
	if err != nil {
		return err
	}
	e := event{Invoice: o.Invoice}
	if n.kind == AckFirst {
		e.Kind, err = n.ackFirst(ctx, d, o)
	} else {
		e.Kind, err = n.existsCheck(ctx, d, o)
	}
	if err != nil {
		e.Error = short(err)
		n.log.Warn("the order failed", "order", o.Invoice, "error", err)
	}
	return n.reporter.report(e)
}

// ackFirst is safe from repeats of what it has acknowledged, and loses what it
// had not done yet when it dies. What the producer sends twice, it does twice.
func (n *naive) ackFirst(ctx context.Context, d broker.Delivery, o *orders.Order) (eventKind, error) {
	if err := d.Ack(ctx); err != nil {
		return eventGivenBack, err
	}
	if err := n.change(ctx, o); err != nil {
		return eventFailed, err
	}
	return eventApplied, nil
}

// existsCheck lets two workers look at the same moment, and both see nothing;
// and when it dies between the change and the mark, nothing says that the
// change was made.
func (n *naive) existsCheck(ctx context.Context, d broker.Delivery, o *orders.Order) (eventKind, error) {
	kind, err := n.lookThenChange(ctx, o)
	if err != nil {
		return eventGivenBack, errors.Join(err, d.Nack(ctx, naivePause))
	}
	return kind, d.Ack(ctx)
}

func (n *naive) lookThenChange(ctx context.Context, o *orders.Order) (eventKind, error) {
	t := n.tables
	var marks int
	err := t.db.QueryRowContext(ctx, t.bind("SELECT COUNT(*) FROM "+t.table(handledTable)+" WHERE invoice = ?"), o.Invoice).Scan(&marks)
	if err != nil {
		return "", fmt.Errorf("look whether order %s was handled: %w", o.Invoice, err)
	}
	if marks > 0 {
		return eventDuplicate, nil
	}
	if err := n.change(ctx, o); err != nil {
		return "", err
	}
	_, err = t.db.ExecContext(ctx, t.bind("INSERT INTO "+t.table(handledTable)+" (invoice, mark) VALUES (?, ?)"), o.Invoice, nuid.Next())
	if err != nil {
		return "", fmt.Errorf("mark order %s as handled: %w", o.Invoice, err)
	}
	return eventApplied, nil
}

// change is the same as the right consumer's, in a transaction of its own.
func (n *naive) change(ctx context.Context, o *orders.Order) error {
	tx, err := n.tables.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("order %s: %w", o.Invoice, err)
	}
	if err := n.tables.take(ctx, tx, o); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("order %s: %w", o.Invoice, err)
	}
	return nil
}
