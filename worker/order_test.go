package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// A journal is the order in which messages took effect, by key.
type journal struct {
	mu    sync.Mutex
	byKey map[string][]string
	all   []string
}

func (j *journal) add(m *yekbar.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.byKey == nil {
		j.byKey = map[string][]string{}
	}
	j.byKey[m.OrderingKey] = append(j.byKey[m.OrderingKey], m.ID)
	j.all = append(j.all, m.ID)
}

func (j *journal) of(key string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.byKey[key], " ")
}

func (j *journal) total() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.all)
}

// keyed returns n messages of a key, …
func keyed(key string, n int) (ms []*yekbar.Message) {
	for i := range n {
		ms = append(ms, &yekbar.Message{ID: fmt.Sprintf("%s-%d", key, i+1), OrderingKey: key})
	}
	return ms
}

func affine(c *broker.Capabilities) { c.KeyAffinity = true }

// mixed interleaves messages of several keys.
func mixed(each ...[]*yekbar.Message) (all []*yekbar.Message) {
	for i := range each[0] {
		for _, ms := range each {
			all = append(all, ms[i])
		}
	}
	return all
}

func inOrder(j *journal, key string, n int) error {
	if want := strings.Join(ids(keyed(key, n)), " "); j.of(key) != want {
		return fmt.Errorf("messages of %s took effect as %q", key, j.of(key))
	}
	return nil
}

func TestOrder(t *testing.T) {
	// orderOf is what a twin is configured with: no order.
	orderOf := func(twin bool) worker.Order {
		if twin {
			return worker.Unordered
		}
		return worker.OrderAuto
	}
	prove(t, []guarantee{
		{"messages of a key one after the other", func(t *testing.T, twin bool) error {
			l := newLab(t, affine)
			publish(t, l.b, mixed(keyed("A", 20), keyed("B", 20), keyed("", 20))...)
			var j journal
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				pass(time.Duration(100-len(j.of(m.OrderingKey))) * time.Millisecond) // later ones are faster
				j.add(m)
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{Order: orderOf(twin)})
			await(time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			return errors.Join(inOrder(&j, "A", 20), inOrder(&j, "B", 20))
		}},
		{"successors are parked behind a parked head, and others go on", func(t *testing.T, twin bool) error {
			l := newLab(t, affine)
			publish(t, l.b, mixed(keyed("A", 10), keyed("B", 10))...)
			var j journal
			tries := 0
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if m.ID == "A-2" {
					if tries++; tries < 4 {
						return yekbar.RetryAfter(errors.New("later"), 10*time.Minute)
					}
				}
				j.add(m)
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{Order: orderOf(twin)})
			await(time.Minute)
			if c := l.b.Counts(topic); c.Acked != 20 || c.Deliveries != 20 {
				return fmt.Errorf("after a minute, counts are %+v", c)
			}
			if err := inOrder(&j, "B", 10); err != nil {
				return err
			}
			if held := heldBy(t, l.store); len(held) != 9 || held[0].MessageID != "A-2" || held[8].MessageID != "A-10" {
				return fmt.Errorf("held are %v", held)
			}
			publish(t, l.b, &yekbar.Message{ID: "A-11", OrderingKey: "A"})
			await(time.Hour)
			if err := p.stop(); err != nil {
				return err
			}
			if held := heldBy(t, l.store); len(held) != 0 {
				return fmt.Errorf("%d are still held", len(held))
			}
			return inOrder(&j, "A", 11)
		}},
		{"held keys are known after a restart", func(t *testing.T, twin bool) error {
			l := newLab(t, affine)
			publish(t, l.b, keyed("A", 3)...)
			var j journal
			fails := true
			h := func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if fails && m.ID == "A-1" {
					return yekbar.RetryAfter(errors.New("later"), 10*time.Minute)
				}
				j.add(m)
				return apply(tx, m)
			}
			p := l.start(h, yekbar.Config{}, worker.Config{})
			await(time.Second)
			if err := p.stop(); err != nil {
				return err
			}
			fails = false
			publish(t, l.b, &yekbar.Message{ID: "A-4", OrderingKey: "A"})
			p = l.start(h, yekbar.Config{}, worker.Config{Order: orderOf(twin)})
			await(time.Hour)
			if err := p.stop(); err != nil {
				return err
			}
			return inOrder(&j, "A", 4)
		}},
		{"a repeat of a parked message changes nothing", func(t *testing.T, twin bool) error {
			l := newLab(t, affine)
			l.wrong = func(d *database) { d.knowsNothing = twin }
			publish(t, l.b, keyed("A", 3)...)
			tries := 0
			p := l.start(func(context.Context, *memstore.Tx, *yekbar.Message) error {
				tries++
				return yekbar.RetryAfter(errors.New("later"), 10*time.Minute)
			}, yekbar.Config{}, worker.Config{})
			await(time.Second)
			publish(t, l.b, keyed("A", 3)...)
			await(time.Second)
			held := heldBy(t, l.store)
			if err := p.stop(); err != nil {
				return err
			}
			if tries != 1 || len(held) != 3 || held[0].MessageID != "A-1" || held[0].Attempts != 1 || held[0].Reason != yekbar.ReasonDelayed {
				return fmt.Errorf("after %d tries, held are %d, the first %+v", tries, len(held), held[0])
			}
			return nil
		}},
		{"a hot key does not slow the others", func(t *testing.T, twin bool) error {
			l := newLab(t, affine)
			hot := keyed("hot", 100)
			others := numbered(100)
			for i, m := range others {
				m.OrderingKey = fmt.Sprint(i)
				if twin {
					m.OrderingKey = "hot"
				}
			}
			publish(t, l.b, slices.Concat(hot, others)...)
			var j journal
			release := make(chan struct{})
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if m.ID == "hot-1" {
					<-release
				}
				j.add(m)
				return apply(tx, m)
			}, yekbar.Config{}, worker.Config{Concurrency: 4, Prefetch: 16})
			synctest.Wait()
			done := j.total()
			close(release)
			await(time.Minute)
			if err := p.stop(); err != nil {
				return err
			}
			if done != 100 {
				return fmt.Errorf("while the first of the hot key ran, %d of 100 others were done", done)
			}
			return inOrder(&j, "hot", 100)
		}},
		{"strict: one at a time, a failing one first", func(t *testing.T, twin bool) error {
			l := newLab(t, nil)
			publish(t, l.b, numbered(5)...)
			var j journal
			tries := 0
			c := worker.Config{Order: worker.Strict, SingleProcess: true}
			if twin {
				c.Order = worker.Unordered
			}
			p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
				if m.ID == "m-2" {
					if tries++; tries < 4 {
						return errors.New("not yet")
					}
				}
				j.add(m)
				return apply(tx, m)
			}, yekbar.Config{}, c)
			await(time.Hour)
			if err := p.stop(); err != nil {
				return err
			}
			if got := j.of(""); got != "m-1 m-2 m-3 m-4 m-5" {
				return errors.New(got)
			}
			return nil
		}},
		{"a dead head: go on, or hold the key until a person decides", func(t *testing.T, twin bool) error {
			for _, policy := range []worker.DeadKeys{worker.GoOn, worker.HoldKey} {
				l := newLab(t, affine)
				publish(t, l.b, keyed("A", 3)...)
				var j journal
				var log strings.Builder
				c := worker.Config{Order: worker.ByKey, DeadKeys: policy, Logger: logTo(&log)}
				if twin {
					c.DeadKeys = worker.HoldKey
				}
				mended := false
				p := l.start(func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
					if m.ID == "A-1" && !mended {
						return yekbar.Permanent(errors.New("no such article"))
					}
					j.add(m)
					return apply(tx, m)
				}, yekbar.Config{}, c)
				await(time.Hour)
				got, said := j.of("A"), strings.Contains(log.String(), "go on without it")
				if want := "A-2 A-3"; policy == worker.GoOn && (got != want || !said) {
					return fmt.Errorf("going on: %q, said: %v", got, said)
				}
				if policy == worker.HoldKey {
					if got != "" {
						return fmt.Errorf("holding the key: %q", got)
					}
					mended = true
					if err := l.store.Replay(t.Context(), "inventory", "A-1", nil, yekbar.Actor{Name: "ada", Reason: "mended"}); err != nil {
						return err
					}
					await(time.Minute)
				}
				if err := p.stop(); err != nil {
					return err
				}
				if policy == worker.HoldKey {
					return inOrder(&j, "A", 3)
				}
			}
			return nil
		}},
	})
}

func TestOrderIsRefusedWithoutAffinity(t *testing.T) {
	for _, c := range []worker.Config{{Order: worker.ByKey}, {Order: worker.Strict}, {DeadKeys: worker.HoldKey, SingleProcess: true}} {
		l := newLab(t, nil)
		if _, err := l.open(nothing, yekbar.Config{}, c); err == nil || !strings.Contains(err.Error(), "Order") {
			t.Errorf("%+v: New returned %v", c, err)
		}
		c.Order, c.SingleProcess = worker.ByKey, true
		if _, err := l.open(nothing, yekbar.Config{}, c); err != nil {
			t.Errorf("%+v: New returned %v", c, err)
		}
	}
	l := newLab(t, func(c *broker.Capabilities) { c.Order = broker.Unordered })
	if _, err := l.open(nothing, yekbar.Config{}, worker.Config{Order: worker.Strict, SingleProcess: true}); err == nil {
		t.Error("Strict is accepted over a broker without order")
	}
}

func nothing(context.Context, *memstore.Tx, *yekbar.Message) error { return nil }
