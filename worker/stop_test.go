package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

func TestStopping(t *testing.T) {
	prove(t, []guarantee{
		{"a stuck handler is reported, costs its slot to nobody, and never commits", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(3)...)
			release := make(chan struct{})
			stuck := 0
			p := l.start(func(ctx context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if m.ID == "m-1" && stuck == 0 {
					stuck++
					if twin {
						select {
						case <-release:
						case <-ctx.Done(): // it does not ignore it
						}
					} else {
						<-release
					}
				}
				return apply(tx, m)
			}, yekbar.Config{Timeout: time.Second}, worker.Config{Concurrency: 1})
			await(7 * time.Second)
			s, health := p.w.Stats(), p.w.Health()
			others := l.appliedOnce("m-2", "m-3")
			await(time.Minute)
			close(release)
			await(10 * time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			if s.Stuck != 1 || s.StuckNow != 1 || health == nil || !strings.Contains(health.Error(), "stuck") || others != nil {
				return fmt.Errorf("stats were %+v, health %v, the others %w", s, health, others) //nolint:errorlint // a report, not a cause
			}
			if s := p.w.Stats(); s.StuckNow != 0 || p.w.Health() != nil {
				return fmt.Errorf("then, stats are %+v, health %v", s, p.w.Health()) //nolint:errorlint // a report, not a cause
			}
			return l.appliedOnce("m-1", "m-2", "m-3")
		}},
		{"a stuck handler does not hold up the end, which says so", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			release := make(chan struct{})
			defer close(release)
			p := l.start(func(ctx context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if !twin {
					<-release
				}
				return nil
			}, yekbar.Config{}, worker.Config{Grace: time.Second})
			await(time.Second)
			err := p.stop()
			if err == nil || !strings.Contains(err.Error(), "ignores its context") {
				return fmt.Errorf("Run returned %w", err)
			}
			return nil
		}},
		{"done in the middle of COMMIT is acknowledged, the rest is given back, none counted", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(10)...)
			began := make(chan struct{}, 10)
			p := l.start(func(ctx context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				began <- struct{}{}
				if m.ID != "m-1" || twin {
					<-ctx.Done()
					return ctx.Err()
				}
				return apply(tx, m)
			}, yekbar.Config{Timeout: time.Hour}, worker.Config{Concurrency: 2, Prefetch: 10, Grace: time.Second, MaxAttempts: 1})
			p.db.commit.Store(int64(15 * time.Second)) // longer than the grace time
			<-began
			<-began
			synctest.Wait()
			if err := p.stop(); err != nil {
				return err
			}
			if c := l.b.Counts(topic); c.Acked != 1 || c.Waiting != 9 {
				return fmt.Errorf("counts are %+v", c)
			}
			if held := heldBy(t, l.store); len(held) > 0 {
				return fmt.Errorf("%d are held", len(held))
			}
			if s := p.w.Stats(); s.Failed != 0 || s.SetAside != 0 {
				return fmt.Errorf("stats are %+v", s)
			}
			// What was given back is new to the next one.
			a, err := l.store.AddFailure(t.Context(), "inventory", "m-2", "the first")
			if err != nil || a.Failed != 1 || a.Crashed != 0 {
				return fmt.Errorf("m-2 has %+v, %w", a, err)
			}
			return l.appliedOnce("m-1")
		}},
		{"what waits here for its next attempt is given back at the end", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			p := l.start(func(context.Context, *memstore.Tx, *yekbar.Message) error {
				if twin {
					return nil
				}
				return yekbar.RetryAfter(errors.New("soon"), 4*time.Second)
			}, yekbar.Config{}, worker.Config{})
			await(time.Second)
			if err := p.stop(); err != nil {
				return err
			}
			if c := l.b.Counts(topic); c.Waiting != 1 || c.Deliveries != 1 {
				return fmt.Errorf("counts are %+v", c)
			}
			return nil
		}},
		{"attempts whose lease is lost count", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			c := worker.Config{MaxAttempts: 4}
			if twin {
				c.MaxAttempts = 100
			}
			p := l.start(func(ctx context.Context, _ *memstore.Tx, _ *yekbar.Message) error {
				<-ctx.Done()
				return ctx.Err()
			}, yekbar.Config{Timeout: time.Hour}, c)
			for range 6 {
				await(time.Minute)
				l.b.LoseLeases(topic)
			}
			await(time.Minute)
			held := heldBy(t, l.store)
			if len(held) != 1 || held[0].Reason != yekbar.ReasonAttempts || held[0].Attempts != 4 {
				return fmt.Errorf("held are %v", held)
			}
			return p.stop()
		}},
		{"short retries stay here: the broker's count does not grow", func(t *testing.T, twin bool) error {
			l := newLab(t, func(c *broker.Capabilities) { c.MaxAttempts = 20 })
			publish(t, l.b, numbered(1)...)
			tries := 0
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if tries++; tries < 9 || twin {
					return errors.New("not yet")
				}
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{})
			await(time.Hour)
			if c := l.b.Counts(topic); c.Deliveries != 1 || c.Acked != 1 {
				return fmt.Errorf("counts are %+v", c)
			}
			return errors.Join(p.stop(), l.appliedOnce("m-1"))
		}},
	})
}
