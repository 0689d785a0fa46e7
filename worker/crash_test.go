package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// killing runs processes one after the other, each until a message kills it,
// until one lives for an hour, at most rounds of them.
func killing(l *lab, rounds int, poison func(m *yekbar.Message) bool, wc worker.Config) (kills int) {
	for range rounds {
		died := make(chan struct{}, 1)
		p := l.start(func(ctx context.Context, tx *memstore.Tx, m *yekbar.Message) error {
			if poison(m) {
				died <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			return apply(tx, m)
		}, yekbar.Config{}, wc)
		select {
		case <-died:
			kills++
			p.kill()
			continue
		case <-time.After(time.Hour):
		}
		if err := p.stop(); err != nil {
			l.t.Error(err)
		}
		break
	}
	pass(5 * time.Minute) // those that were killed come to an end
	return kills
}

// onePoison is the scenario: one poisonous message among 15 good ones.
func onePoison(t *testing.T, twin bool) error {
	l := newLab(t, nil)
	if twin {
		l.wrong = func(d *database) { d.forgetsStarts = true }
	}
	ms := numbered(16)
	publish(t, l.b, ms...)
	kills := killing(l, 20, func(m *yekbar.Message) bool { return m.ID == "m-5" }, worker.Config{})
	good := append(ids(ms[:4]), ids(ms[5:])...)
	held := heldBy(t, l.store)
	if err := l.appliedOnce(good...); err != nil {
		return err
	}
	if len(held) != 1 || held[0].MessageID != "m-5" || held[0].Reason != yekbar.ReasonCrash || held[0].State != yekbar.StateDead {
		return fmt.Errorf("after %d kills, held are %v", kills, held)
	}
	if kills != 4 { // one in company, three alone
		return fmt.Errorf("it killed %d processes", kills)
	}
	if c := l.b.Counts(topic); c.Acked != 16 {
		return fmt.Errorf("counts are %+v", c)
	}
	return nil
}

func TestCrashes(t *testing.T) {
	prove(t, []guarantee{
		{"one poison among 15 good messages", onePoison},
		{"a parked poison", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			if twin {
				l.wrong = func(d *database) { d.forgetsStarts = true }
			}
			publish(t, l.b, numbered(6)...)
			var tries atomic.Int64
			parks := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if tries.Add(1) <= 6 {
					return yekbar.RetryAfter(errors.New("later"), time.Minute)
				}
				return nil
			}, yekbar.Config{}, worker.Config{})
			synctest.Wait()
			if err := parks.stop(); err != nil {
				return err
			}
			pass(time.Minute)
			killing(l, 20, func(m *yekbar.Message) bool { return m.ID == "m-2" }, worker.Config{})
			held := heldBy(t, l.store)
			if len(held) != 1 || held[0].MessageID != "m-2" || held[0].Reason != yekbar.ReasonCrash {
				return fmt.Errorf("held are %v", held)
			}
			return l.appliedOnce("m-1", "m-3", "m-4", "m-5", "m-6")
		}},
		{"rolling restarts of a long handler", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(3)...)
			long := func(ctx context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				select {
				case <-time.After(8 * time.Second):
					return apply(tx, m)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			for range 30 {
				p := l.start(long, yekbar.Config{}, worker.Config{Grace: time.Second})
				pass(4 * time.Second)
				if twin { // as if nothing were given back
					p.kill()
					pass(time.Minute)
					continue
				}
				if err := p.stop(); err != nil {
					return err
				}
			}
			p := l.start(long, yekbar.Config{}, worker.Config{})
			pass(10 * time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			if held := heldBy(t, l.store); len(held) > 0 {
				return fmt.Errorf("held are %v", held)
			}
			return l.appliedOnce("m-1", "m-2", "m-3")
		}},
		{"an outage while a suspect runs is no crash", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			first := l.start(func(ctx context.Context, _ *memstore.Tx, _ *yekbar.Message) error {
				<-ctx.Done()
				return ctx.Err()
			}, yekbar.Config{}, worker.Config{})
			await(time.Second)
			first.kill()
			await(2 * time.Minute)
			var cut atomic.Bool
			var p *process
			ready := make(chan struct{})
			p = l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				<-ready
				if !cut.Swap(true) {
					p.db.down.Store(true)
				}
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{MaxCrashes: 1})
			close(ready)
			await(10 * time.Minute)
			if twin {
				p.kill()
				p = l.start(counted, yekbar.Config{}, worker.Config{MaxCrashes: 1})
			}
			p.db.down.Store(false)
			await(10 * time.Minute)
			return errors.Join(p.stop(), l.appliedOnce("m-1"))
		}},
		{"attempts are counted over restarts", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			var tries atomic.Int64
			for range 7 {
				p := l.start(func(context.Context, *memstore.Tx, *yekbar.Message) error {
					tries.Add(1)
					return errors.New("never")
				}, yekbar.Config{}, worker.Config{MaxAttempts: 5})
				synctest.Wait()
				pass(500 * time.Millisecond)
				p.kill()
				pass(20 * time.Minute)
				if twin {
					if err := l.store.ClearAttempts(t.Context(), "inventory", "m-1"); err != nil {
						return err
					}
				}
			}
			held := heldBy(t, l.store)
			if len(held) != 1 || held[0].Reason != yekbar.ReasonAttempts || held[0].Attempts != 5 || tries.Load() != 5 {
				return fmt.Errorf("after %d tries, held are %v", tries.Load(), held)
			}
			if !strings.Contains(strings.Join(held[0].Errors, ""), "never") {
				return fmt.Errorf("its errors are %q", held[0].Errors)
			}
			return nil
		}},
	})
}
