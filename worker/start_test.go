package worker_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// positioned lets the worker see the broker's positions through mortalSource.
func (s *mortalSource) Positions(ctx context.Context) (map[string]string, error) {
	if s.dead.Load() {
		return nil, broker.ErrOutage
	}
	return s.Source.(broker.Positioner).Positions(ctx)
}

func (s *mortalSource) Acknowledged(ctx context.Context, from map[string]string, limit int) iter.Seq2[*yekbar.Message, error] {
	return s.Source.(broker.Positioner).Acknowledged(ctx, from, limit)
}

func (s *mortalSource) Rewind(ctx context.Context, positions map[string]string) error {
	return s.Source.(broker.Positioner).Rewind(ctx, positions)
}

var _ broker.Positioner = (*mortalSource)(nil)

func counted(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error { return apply(tx, m) }

// refused starts a worker that does not come to its first message, and
// returns why.
func (l *lab) refused(yc yekbar.Config, wc worker.Config) error {
	p, err := l.open(counted, yc, wc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return p.w.Run(ctx)
}

func TestStarting(t *testing.T) {
	prove(t, []guarantee{
		{"a database that was restored is noticed, and rewinding mends it", func(t *testing.T, twin bool) error {
			ms := numbered(300)
			backup := newLab(t, nil) // as the database was after 200 messages
			l := newLab(t, nil)
			for _, one := range []*lab{backup, l} {
				publish(t, one.b, ms[:200]...)
				p := one.start(counted, yekbar.Config{}, worker.Config{})
				await(time.Minute)
				if one == l {
					publish(t, l.b, ms[200:]...)
					await(time.Minute)
				}
				if err := p.stop(); err != nil {
					return err
				}
			}
			l.store = backup.store
			at, err := l.store.Positions(t.Context(), "inventory")
			if err != nil || at[topic] != "200" {
				return fmt.Errorf("positions were %v, %w", at, err)
			}
			c := worker.Config{}
			if twin {
				c.TakesOver = "somebody was too quick"
			}
			if err := l.refused(yekbar.Config{}, c); !errors.Is(err, yekbar.ErrBehindBroker) {
				return fmt.Errorf("Run returned %w", err)
			}
			if err := l.b.Source(topic).(broker.Positioner).Rewind(t.Context(), at); err != nil {
				return err
			}
			p := l.start(counted, yekbar.Config{}, worker.Config{})
			await(time.Minute)
			return errors.Join(p.stop(), l.appliedOnce(ids(ms)...))
		}},
		{"a process that was killed between two savings is no restored database", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			ms := numbered(20)
			publish(t, l.b, ms[:10]...)
			p := l.start(counted, yekbar.Config{}, worker.Config{})
			await(time.Minute)
			publish(t, l.b, ms[10:]...)
			await(time.Second)
			p.kill()
			await(time.Minute)
			if at, err := l.store.Positions(t.Context(), "inventory"); err != nil || at[topic] != "10" {
				return fmt.Errorf("positions are %v, %w", at, err)
			}
			if twin {
				if err := l.store.Forget(t.Context(), "inventory", "m-15", yekbar.Actor{Name: "ada", Reason: "no reason"}); err != nil {
					return err
				}
			}
			p = l.start(counted, yekbar.Config{}, worker.Config{})
			await(time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			at, err := l.store.Positions(t.Context(), "inventory")
			if err != nil || at[topic] != "20" {
				return fmt.Errorf("at the end, positions are %v, %w", at, err)
			}
			return nil
		}},
		{"the same name over another subscription is refused until confirmed", func(t *testing.T, twin bool) error {
			on := func(name string) func(*broker.Capabilities) {
				if twin {
					name = ""
				}
				return func(c *broker.Capabilities) { c.Subscription = name }
			}
			l := newLab(t, on("mem orders"))
			if err := l.refused(yekbar.Config{}, worker.Config{}); err != nil {
				return err
			}
			other := newLab(t, on("mem refunds"))
			other.store = l.store
			publish(t, other.b, numbered(1)...)
			wrong := (*yekbar.SubscriptionError)(nil)
			if err := other.refused(yekbar.Config{}, worker.Config{}); !errors.As(err, &wrong) {
				return fmt.Errorf("Run returned %w", err)
			}
			if c := other.b.Counts(topic); c.Deliveries != 0 {
				return errors.New("a message was fetched")
			}
			if err := l.store.ConfirmSubscription(t.Context(), "inventory", "mem refunds", yekbar.Actor{Name: "ada", Reason: "moved"}); err != nil {
				return err
			}
			if err := other.refused(yekbar.Config{}, worker.Config{}); err != nil {
				return err
			}
			return other.appliedOnce("m-1")
		}},
		{"a renamed consumer keeps its claims", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			ms := numbered(5)
			publish(t, l.b, ms...)
			old, err := yekbar.NewConsumer("stock", l.store, counted, yekbar.Config{})
			if err != nil {
				return err
			}
			_, stop := running(t, l.b.Source(topic), old, worker.Config{})
			await(time.Minute)
			if err := stop(); err != nil {
				return err
			}
			c := worker.Config{FormerNames: []string{"stock"}}
			if twin {
				c.FormerNames, c.TakesOver = nil, "renamed by hand"
			}
			publish(t, l.b, ms...)
			p := l.start(counted, yekbar.Config{}, c)
			await(time.Minute)
			return errors.Join(p.stop(), l.appliedOnce(ids(ms)...))
		}},
	})
}

func TestRetention(t *testing.T) {
	prove(t, []guarantee{
		{"a message from before the watermark is set aside, not done again", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			l.wrong = func(d *database) { d.knowsAll = twin }
			publish(t, l.b, numbered(1)...)
			keep := yekbar.Config{Retention: time.Hour}
			p := l.start(counted, keep, worker.Config{})
			await(time.Second)
			if err := p.stop(); err != nil {
				return err
			}
			// A consumer works on, so that the watermark moves and the claim
			// goes; then the old message comes again.
			idle := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
			other, err := yekbar.NewConsumer("inventory", l.store, counted, keep)
			if err != nil {
				return err
			}
			_, stop := running(t, idle.Source(topic), other, worker.Config{TakesOver: "a test"})
			await(5 * time.Hour)
			if err := stop(); err != nil {
				return err
			}
			if _, err := l.store.Claim(t.Context(), "inventory", "m-1"); !errors.Is(err, yekbar.ErrNoClaim) {
				return fmt.Errorf("the claim is still there: %w", err)
			}
			if err := l.b.Source(topic).(broker.Positioner).Rewind(t.Context(), map[string]string{topic: "0"}); err != nil {
				return err
			}
			publish(t, l.b, &yekbar.Message{ID: "young"})
			p = l.start(counted, keep, worker.Config{TakesOver: "a test"})
			await(time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			if held := heldBy(t, l.store); len(held) != 1 || held[0].Reason != yekbar.ReasonBeyond || held[0].MessageID != "m-1" {
				return fmt.Errorf("held are %v", held)
			}
			return l.appliedOnce("m-1", "young")
		}},
		{"a consumer that was down prunes nothing that may come again", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			keep := yekbar.Config{Retention: time.Hour}
			p := l.start(counted, keep, worker.Config{})
			await(time.Hour)
			publish(t, l.b, numbered(1)...)
			if twin { // it was not down
				await(5 * time.Hour)
			}
			await(time.Second)
			if err := p.stop(); err != nil {
				return err
			}
			pass(5 * time.Hour)
			p = l.start(counted, keep, worker.Config{})
			await(5 * time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			_, err := l.store.Claim(t.Context(), "inventory", "m-1")
			return err
		}},
		{"a retention below the broker's horizon is refused without a reason", func(t *testing.T, twin bool) error {
			l := newLab(t, func(c *broker.Capabilities) { c.Redelivery = 7 * 24 * time.Hour })
			keep := yekbar.Config{Retention: time.Hour}
			if twin {
				keep.Retention = 8 * 24 * time.Hour
			}
			if _, err := l.open(counted, keep, worker.Config{}); err == nil {
				return errors.New("it is accepted")
			}
			_, err := l.open(counted, keep, worker.Config{AllowShortRetention: "IDs are reused daily"})
			return err
		}},
	})
}
