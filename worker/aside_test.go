package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

var ada = yekbar.Actor{Name: "ada", Reason: "mended"}

// TestOwnership runs the schedules in which two might own one message: there
// is one effect at most, and at most one held message.
func TestOwnership(t *testing.T) {
	no := yekbar.Permanent(errors.New("no such article"))
	prove(t, []guarantee{
		{"dead, crash before the acknowledgement, delivered again", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			l.b.DropAcks(1 << 30)
			p := l.start(func(context.Context, *memstore.Tx, *yekbar.Message) error { return no }, yekbar.Config{}, worker.Config{})
			synctest.Wait()
			p.kill()
			if twin {
				if err := l.store.Forget(t.Context(), "inventory", "m-1", ada); err != nil {
					return err
				}
			}
			l.b.DropAcks(0)
			p = l.start(counted, yekbar.Config{}, worker.Config{})
			await(5 * time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			if c := l.b.Counts(topic); c.Acked != 1 || len(heldBy(t, l.store)) != 1 || l.effects("m-1") != 0 {
				return fmt.Errorf("counts are %+v, %d are held, %d effects", c, len(heldBy(t, l.store)), l.effects("m-1"))
			}
			return nil
		}},
		{"lease lost, applied by another, then dead for the first", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			began, release := make(chan struct{}), make(chan struct{})
			var calls atomic.Int64
			first := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if calls.Add(1) > 1 {
					return apply(tx, m)
				}
				close(began)
				<-release
				return no
			}, yekbar.Config{}, worker.Config{})
			<-began
			l.b.LoseLeases(topic)
			second := l.start(counted, yekbar.Config{}, worker.Config{})
			await(100 * time.Millisecond)
			close(release)
			await(time.Minute)
			if twin {
				if err := l.store.Forget(t.Context(), "inventory", "m-1", ada); err != nil {
					return err
				}
				publish(t, l.b, numbered(1)...)
				await(time.Minute)
			}
			if err := errors.Join(first.stop(), second.stop()); err != nil {
				return err
			}
			if held := heldBy(t, l.store); len(held) > 0 {
				return fmt.Errorf("held are %v", held)
			}
			return l.appliedOnce("m-1")
		}},
		{"dead, sent again by its producer, replayed by a person", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			var mended atomic.Bool
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if !mended.Load() {
					return no
				}
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{})
			await(time.Second)
			mended.Store(true)
			publish(t, l.b, numbered(1)...)
			await(time.Second)
			if n := l.effects("m-1"); n != 0 {
				return fmt.Errorf("%d effects before a person decided", n)
			}
			if !twin {
				if err := l.store.Replay(t.Context(), "inventory", "m-1", nil, ada); err != nil {
					return err
				}
			}
			publish(t, l.b, numbered(1)...)
			await(time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			if held := heldBy(t, l.store); len(held) > 0 {
				return fmt.Errorf("held are %v", held)
			}
			return l.appliedOnce("m-1")
		}},
		{"the parked copy and the broker's at one moment", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(1)...)
			tries := 0
			h := func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if tries++; tries == 1 {
					return yekbar.RetryAfter(errors.New("later"), time.Minute)
				}
				pass(time.Second)
				return apply(tx, m)
			}
			p, q := l.start(h, yekbar.Config{}, worker.Config{}), l.start(h, yekbar.Config{}, worker.Config{})
			await(time.Second)
			if twin {
				if err := l.store.Forget(t.Context(), "inventory", "m-1", ada); err != nil {
					return err
				}
				publish(t, l.b, numbered(1)...)
				await(time.Minute)
				if err := l.store.Forget(t.Context(), "inventory", "m-1", ada); err != nil {
					return err
				}
			}
			pass(time.Minute - time.Second - time.Millisecond)
			for range 20 {
				publish(t, l.b, numbered(1)...)
				pass(50 * time.Millisecond)
			}
			await(time.Minute)
			if err := errors.Join(p.stop(), q.stop()); err != nil {
				return err
			}
			if held := heldBy(t, l.store); len(held) > 0 {
				return fmt.Errorf("held are %v", held)
			}
			if c := l.b.Counts(topic); c.Waiting+c.Held > 0 {
				return fmt.Errorf("counts are %+v", c)
			}
			return l.appliedOnce("m-1")
		}},
		{"messages without an ID do not pile up", func(t *testing.T, twin bool) error {
			l := newLab(t, func(c *broker.Capabilities) { c.StableID = !twin })
			for _, payload := range []string{"x", "x", "y"} {
				publish(t, l.b, &yekbar.Message{Header: yekbar.Header{{Name: "a", Value: []byte{0, 0xff}}}, Payload: []byte(payload)})
			}
			l.b.PublishRaw(topic, []byte("{bad"))
			l.b.Repeat(5)
			p := l.start(counted, yekbar.Config{}, worker.Config{})
			await(10 * time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			held := heldBy(t, l.store)
			if len(held) != 4 {
				return fmt.Errorf("%d are held", len(held))
			}
			for _, h := range held {
				if h.Reason == yekbar.ReasonIdentity && h.Message.Header.Get("a") != "\x00\xff" || len(h.Raw) == 0 {
					return fmt.Errorf("held is %+v", h)
				}
			}
			return nil
		}},
	})
}
