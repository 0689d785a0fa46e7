package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/sqlstore"
	"github.com/yekbar-go/yekbar/worker"
)

// handleFunc is a handler without its transaction, which exec stands for.
type handleFunc func(ctx context.Context, m *yekbar.Message, exec func(string) error) error

// consumer returns the plant's consumer in this process.
func (p *plant) consumer(h handleFunc) worker.Processor {
	p.t.Helper()
	if p.child.Driver == "pgxstore" {
		pool, err := pgxpool.New(p.t.Context(), p.child.DSN)
		p.check(err)
		p.t.Cleanup(pool.Close)
		c, err := yekbar.NewConsumer("inventory", pgxstore.New(pool, pgxstore.Config{}), func(ctx context.Context, tx pgx.Tx, m *yekbar.Message) error {
			return h(ctx, m, func(q string) error { _, err := tx.Exec(ctx, q); return err })
		}, yekbar.Config{})
		p.check(err)
		return c
	}
	d := driverNamed(p.t, p.child.Driver)
	c, err := yekbar.NewConsumer("inventory", sqlstore.New(d.open(p.t, p.child.DSN, true), d.dialect, sqlstore.Config{}), func(ctx context.Context, tx *sql.Tx, m *yekbar.Message) error {
		return h(ctx, m, func(q string) error { _, err := tx.ExecContext(ctx, q); return err })
	}, yekbar.Config{})
	p.check(err)
	return c
}

// await waits until done says so.
func (p *plant) await(what string, done func() bool) {
	p.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); !done(); <-tick.C {
		if time.Now().After(deadline) {
			p.t.Fatalf("after %v, not yet: %s; effects are %v, held %d", within, what, p.effects(), len(p.held()))
		}
	}
}

func insertEffect(m *yekbar.Message) string {
	return "INSERT INTO effects (id) VALUES ('" + m.ID + "')"
}

// TestWorkerKeepsTheOrderOfKeys parks the head of a key: those behind it are
// parked too, in order, and another key goes on.
func TestWorkerKeepsTheOrderOfKeys(t *testing.T) {
	eachPlant(t, 30*time.Second, func(p *plant) {
		const n = 12
		for i := range n {
			for _, key := range []string{"A", "B"} {
				p.publish(&yekbar.Message{ID: fmt.Sprintf("%s-%d", key, i+1), OrderingKey: key})
			}
		}
		var mu sync.Mutex
		began := map[string][]string{} // by key, what came to its end
		tries := 0
		_, stop := startWorker(p.t, p.s.source(p.t), p.consumer(func(_ context.Context, m *yekbar.Message, exec func(string) error) error {
			mu.Lock()
			defer mu.Unlock()
			if m.ID == "A-2" {
				if tries++; tries < 3 {
					return yekbar.RetryAfter(errors.New("later"), 2*time.Second)
				}
			}
			if err := exec(insertEffect(m)); err != nil {
				return err
			}
			began[m.OrderingKey] = append(began[m.OrderingKey], m.ID)
			return nil
		}), worker.Config{SingleProcess: true, ParkAfter: time.Second})
		p.await("11 are held", func() bool { return len(p.held()) == n-1 })
		p.await("all took effect", func() bool { return len(p.effects()) == 2*n })
		p.check(stop())
		for _, key := range []string{"A", "B"} {
			for i, id := range began[key] {
				if id != fmt.Sprintf("%s-%d", key, i+1) {
					p.t.Fatalf("messages of %s took effect as %v", key, began[key])
				}
			}
		}
		if held := p.held(); len(held) != 0 {
			p.t.Errorf("%d are held", len(held))
		}
		if n, waiting := unacknowledged(p.t, p.s); n != 0 || waiting != 0 {
			p.t.Errorf("%d are unacknowledged and %d wait", n, waiting)
		}
	})
}

// TestWorkerOverAMissingTable is code that was deployed before its migration:
// no message is dead, and none is lost.
func TestWorkerOverAMissingTable(t *testing.T) {
	eachPlant(t, 30*time.Second, func(p *plant) {
		const n = 30
		_, err := p.db.ExecContext(p.t.Context(), "DROP TABLE effects")
		p.check(err)
		for i := range n {
			p.publish(&yekbar.Message{ID: fmt.Sprintf("m-%d", i+1)})
		}
		w, stop := startWorker(p.t, p.s.source(p.t), p.consumer(func(_ context.Context, m *yekbar.Message, exec func(string) error) error {
			return exec(insertEffect(m))
		}), worker.Config{Concurrency: 2, Backoff: yekbar.Backoff{Min: 100 * time.Millisecond, Max: time.Second}})
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(within); w.Stats().Pauses == 0; <-tick.C {
			if time.Now().After(deadline) {
				p.t.Fatalf("it does not pause: %+v", w.Stats())
			}
		}
		if err := w.Health(); err == nil {
			p.t.Error("healthy without its table")
		}
		_, err = p.db.ExecContext(p.t.Context(), "CREATE TABLE effects (id VARCHAR(40) NOT NULL)")
		p.check(err)
		p.await("all took effect", func() bool { return len(p.effects()) == n })
		p.check(stop())
		if s := w.Stats(); s.SetAside != 0 || s.Failed != 0 || w.Health() != nil {
			p.t.Errorf("stats are %+v, health %v", s, w.Health())
		}
		if held := p.held(); len(held) != 0 {
			p.t.Errorf("%d are held", len(held))
		}
	})
}

// TestWorkerBatches processes a backlog with a bad message in few
// transactions.
func TestWorkerBatches(t *testing.T) {
	eachPlant(t, 30*time.Second, func(p *plant) {
		const n = 300
		ms := make([]*yekbar.Message, n)
		for i := range ms {
			ms[i] = &yekbar.Message{ID: fmt.Sprintf("m-%d", i+1), Topic: p.s.subject}
		}
		publisher, err := natsbroker.NewPublisher(p.s.js, natsbroker.PublisherConfig{})
		p.check(err)
		p.check(publisher.Publish(p.t.Context(), ms))
		w, stop := startWorker(p.t, p.s.source(p.t), p.consumer(func(_ context.Context, m *yekbar.Message, exec func(string) error) error {
			if m.ID == "m-7" {
				return yekbar.Permanent(errors.New("no such article"))
			}
			return exec(insertEffect(m))
		}), worker.Config{Concurrency: 2, Batch: 100})
		p.await("all but one took effect", func() bool { return len(p.effects()) == n-1 && len(p.held()) == 1 })
		p.check(stop())
		for id, times := range p.effects() {
			if times != 1 {
				p.t.Errorf("%s took effect %d times", id, times)
			}
		}
		if s := w.Stats(); s.Failed != 0 || s.SetAside != 1 {
			p.t.Errorf("stats are %+v", s)
		}
	})
}

// TestWorkerIsPausedByAPerson pauses and resumes through the store.
func TestWorkerIsPausedByAPerson(t *testing.T) {
	eachPlant(t, 30*time.Second, func(p *plant) {
		ada := yekbar.Actor{Name: "ada", Reason: "migration"}
		p.check(p.store.SetPaused(p.t.Context(), "inventory", true, ada))
		p.publish(&yekbar.Message{ID: "m-1"})
		w, stop := startWorker(p.t, p.s.source(p.t), p.consumer(func(_ context.Context, m *yekbar.Message, exec func(string) error) error {
			return exec(insertEffect(m))
		}), worker.Config{})
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 20 {
			<-tick.C
		}
		if s := w.Stats(); s.Received != 0 || s.Pauses != 1 {
			p.t.Errorf("while paused, stats are %+v", s)
		}
		p.check(p.store.SetPaused(p.t.Context(), "inventory", false, ada))
		p.await("it took effect", func() bool { return p.effects()["m-1"] == 1 })
		p.check(stop())
	})
}
