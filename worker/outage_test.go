package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// unfit is what a handler gets from a database that lacks a table.
func unfit(table string) error {
	return fmt.Errorf("%w: no table %s", yekbar.ErrEnvironment, table)
}

func TestOutages(t *testing.T) {
	prove(t, []guarantee{
		{"60 probes of a database that is away cost no delivery", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			ms := numbered(100)
			// The twin's database says that it is this message's failure.
			var down, wrong atomic.Bool
			wrong.Store(twin)
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if down.Load() && wrong.Load() {
					return errors.New("connection refused")
				}
				return apply(tx, m)
			}, yekbar.Config{Retry: yekbar.Backoff{Tries: 1}}, worker.Config{Concurrency: 4, Prefetch: 8, MaxAttempts: 3})
			down.Store(true)
			await(time.Second)
			p.db.down.Store(!twin)
			publish(t, l.b, ms...)
			await(20 * time.Minute)
			probes := p.db.writes.Load()
			during := l.b.Counts(topic)
			sick := p.w.Health()
			p.db.down.Store(false)
			down.Store(false)
			await(time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			if probes < 60 || during.Deliveries > 8 || during.Acked > 0 {
				return fmt.Errorf("after %d probes, counts were %+v", probes, during)
			}
			if sick == nil || p.w.Health() != nil {
				return fmt.Errorf("health was %v, and then %v", sick, p.w.Health()) //nolint:errorlint // a report, not a cause
			}
			if held := heldBy(t, l.store); len(held) > 0 {
				return fmt.Errorf("%d are held", len(held))
			}
			return l.appliedOnce(ids(ms)...)
		}},
		{"code before its migration leaves no dead letter", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			ms := numbered(200)
			publish(t, l.b, ms...)
			var migrated atomic.Bool
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				switch {
				case migrated.Load():
					return apply(tx, m)
				case twin:
					return errors.New("no table stock") // as who reads no error codes
				}
				return unfit("stock")
			}, yekbar.Config{}, worker.Config{Concurrency: 4, MaxAttempts: 3})
			await(time.Hour)
			during, sick, s := l.b.Counts(topic), p.w.Health(), p.w.Stats()
			migrated.Store(true)
			await(time.Hour)
			if err := p.stop(); err != nil {
				return err
			}
			if s.Pauses != 1 || sick == nil || !strings.Contains(sick.Error(), "no table stock") || p.w.Health() != nil {
				return fmt.Errorf("stats were %+v, health %v, and then %v", s, sick, p.w.Health()) //nolint:errorlint // a report, not a cause
			}
			if during.Deliveries > 200 || during.MostHeld > 8 {
				return fmt.Errorf("in an hour, counts are %+v", during)
			}
			if held := heldBy(t, l.store); len(held) > 0 {
				return fmt.Errorf("%d are held", len(held))
			}
			return l.appliedOnce(ids(ms)...)
		}},
		{"one type of message without its table does not pause the rest", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			ms := numbered(200)
			publish(t, l.b, ms...)
			bad := func(m *yekbar.Message) bool { return strings.HasSuffix(m.ID, "0") }
			if twin {
				bad = func(*yekbar.Message) bool { return true }
			}
			var migrated atomic.Bool
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if bad(m) && !migrated.Load() {
					return unfit("refunds")
				}
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{Concurrency: 2})
			await(time.Minute)
			s := p.w.Stats()
			migrated.Store(true)
			await(time.Hour)
			if err := p.stop(); err != nil {
				return err
			}
			if s.Pauses != 0 || s.Applied != 180 || s.SetAside != 0 {
				return fmt.Errorf("stats were %+v", s)
			}
			return l.appliedOnce(ids(ms)...)
		}},
		{"nothing is taken from a broker for a consumer that is paused", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error { return apply(tx, m) }, yekbar.Config{}, worker.Config{})
			await(time.Second)
			by := yekbar.Actor{Name: "ada", Reason: "migration"}
			if !twin {
				if err := l.store.SetPaused(t.Context(), "inventory", true, by); err != nil {
					return err
				}
			}
			await(5 * time.Second)
			ms := numbered(100)
			publish(t, l.b, ms...)
			await(time.Hour)
			during, health := l.b.Counts(topic), p.w.Health()
			if err := l.store.SetPaused(t.Context(), "inventory", false, by); err != nil {
				return err
			}
			await(5 * time.Second)
			if err := errors.Join(p.stop(), l.appliedOnce(ids(ms)...)); err != nil {
				return err
			}
			if during.Deliveries != 0 || health != nil {
				return fmt.Errorf("while paused, counts were %+v, health %v", during, health) //nolint:errorlint // a report, not a cause
			}
			return nil
		}},
		{"what was fetched before a pause waits, its lease extended", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			ms := numbered(10)
			publish(t, l.b, ms...)
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				pass(3 * time.Second)
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{Concurrency: 1, Prefetch: 10})
			await(time.Second)
			by := yekbar.Actor{Name: "ada", Reason: "migration"}
			if !twin {
				if err := l.store.SetPaused(t.Context(), "inventory", true, by); err != nil {
					return err
				}
			}
			await(time.Hour)
			during := l.b.Counts(topic)
			if err := l.store.SetPaused(t.Context(), "inventory", false, by); err != nil {
				return err
			}
			await(time.Hour)
			if err := errors.Join(p.stop(), l.appliedOnce(ids(ms)...)); err != nil {
				return err
			}
			if after := l.b.Counts(topic); during.Acked != 1 || after.Deliveries != 10 {
				return fmt.Errorf("while paused, counts were %+v, and then %+v", during, after)
			}
			return nil
		}},
	})
}

// TestBatches counts transactions and attempts, not times.
func TestBatches(t *testing.T) {
	prove(t, []guarantee{
		{"a batch is what is there, and a failing one costs its neighbours no attempt", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			ms := numbered(400)
			publish(t, l.b, ms...)
			var mu sync.Mutex
			failures := map[string]int{}
			c := worker.Config{Concurrency: 2, Batch: 100}
			if twin {
				c.Batch = 1
			}
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				mu.Lock()
				defer mu.Unlock()
				if m.ID == "m-7" {
					failures[m.ID]++
					return yekbar.Permanent(errors.New("no such article"))
				}
				return apply(tx, m)
			}, yekbar.Config{}, c)
			await(time.Minute)
			first := p.db.writes.Load()
			publish(t, l.b, &yekbar.Message{ID: "alone"})
			await(0)
			if l.effects("alone") != 1 {
				return errors.New("a message waited for company")
			}
			if err := p.stop(); err != nil {
				return err
			}
			if first > 20 {
				return fmt.Errorf("%d transactions for 400 messages", first)
			}
			if s := p.w.Stats(); s.Failed != 0 || s.SetAside != 1 || s.Applied != 400 {
				return fmt.Errorf("stats are %+v", s)
			}
			return l.appliedOnce(append(ids(ms[:6]), ids(ms[7:])...)...)
		}},
		{"batches halve after transient failures and grow back", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(64)...)
			var deadlocks atomic.Bool
			deadlocks.Store(!twin)
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if deadlocks.Load() {
					return fmt.Errorf("%w: deadlock", yekbar.ErrTransient)
				}
				return apply(tx, m)
			}, yekbar.Config{Retry: yekbar.Backoff{Tries: 1}}, worker.Config{Concurrency: 1, Batch: 64, Prefetch: 64})
			await(100 * time.Millisecond)
			small := p.w.Stats().Batch
			deadlocks.Store(false)
			await(time.Hour)
			publish(t, l.b, numbered(0)...)
			for i := range 64 {
				publish(t, l.b, &yekbar.Message{ID: fmt.Sprintf("more-%d", i)})
				await(time.Second)
			}
			if err := p.stop(); err != nil {
				return err
			}
			if grown := p.w.Stats().Batch; small > 32 || grown != 64 {
				return fmt.Errorf("batches of %d, and then %d", small, grown)
			}
			return nil
		}},
		{"a key has one message in a batch", func(t *testing.T, twin bool) error {
			l := newLab(t, affine)
			publish(t, l.b, mixed(keyed("A", 30), keyed("B", 30), keyed("C", 30))...)
			var j journal
			c := worker.Config{Concurrency: 3, Batch: 50}
			if twin {
				c.Order = worker.Unordered
			}
			fails := map[string]bool{"A-3": true, "B-9": true}
			var mu sync.Mutex
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				mu.Lock()
				defer mu.Unlock()
				if fails[m.ID] {
					delete(fails, m.ID)
					return errors.New("not yet")
				}
				if l.effects(m.ID) == 0 {
					j.add(m)
				}
				return apply(tx, m)
			}, yekbar.Config{}, c)
			await(time.Hour)
			if err := p.stop(); err != nil {
				return err
			}
			// A transaction that was rolled back ran its handlers again.
			seen := map[string]bool{}
			for _, key := range []string{"A", "B", "C"} {
				last := 0
				for _, id := range strings.Fields(j.of(key)) {
					n := 0
					if _, err := fmt.Sscanf(id[2:], "%d", &n); err != nil {
						return err
					}
					if n > last+1 || n < last {
						return fmt.Errorf("%s came after %s-%d", id, key, last)
					}
					last, seen[id] = n, true
				}
			}
			if len(seen) != 90 {
				return fmt.Errorf("%d took effect", len(seen))
			}
			return nil
		}},
	})
}
