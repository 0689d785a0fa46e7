package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// takeOne takes one unit of the article that the message's subject names.
func takeOne(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
	units := 0
	if v, ok := tx.Get(m.Subject); ok {
		var err error
		if units, err = strconv.Atoi(string(v)); err != nil {
			return err
		}
	}
	return tx.Put(m.Subject, []byte(strconv.Itoa(units+1)))
}

// TestEachMessageTakesEffectOnce runs two workers with a real consumer over
// one topic, with every fault that the broker has.
func TestEachMessageTakesEffectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, articles = 300, 7
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		for i := range n {
			m := &yekbar.Message{ID: fmt.Sprintf("m-%d", i), Subject: fmt.Sprintf("ART-%d", i%articles)}
			publish(t, b, m)
			if i%5 == 0 {
				publish(t, b, m) // the producer's own repeat
			}
		}
		b.Repeat(1)
		b.DropAcks(20)
		b.DropAckReplies(20)
		store := memstore.New()
		var failures atomic.Int64
		handler := func(ctx context.Context, tx *memstore.Tx, m *yekbar.Message) error {
			if err := takeOne(ctx, tx, m); err != nil {
				return err
			}
			pass(10 * time.Millisecond)
			if failures.Add(1)%4 == 0 {
				return errors.New("after the change")
			}
			return nil
		}
		consumer, err := yekbar.NewConsumer("inventory", store, handler, yekbar.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var stops []func() error
		for range 2 {
			_, stop := running(t, b.Source(topic), consumer, worker.Config{Concurrency: 1, Prefetch: 8})
			stops = append(stops, stop)
		}
		for range 20 {
			await(500 * time.Millisecond)
			b.LoseLeases(topic)
			b.SetOutage(true)
			await(200 * time.Millisecond)
			b.SetOutage(false)
		}
		await(time.Hour)
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		if c := b.Counts(topic); c.Waiting+c.Held != 0 || c.Deliveries < 2*n {
			t.Errorf("counts are %+v", c)
		}
		total := 0
		for i := range articles {
			v, _ := store.Get(fmt.Sprintf("ART-%d", i))
			units, err := strconv.Atoi(string(v))
			if err != nil {
				t.Fatal(err)
			}
			total += units
		}
		if total != n {
			t.Errorf("%d units were taken by %d messages", total, n)
		}
	})
}

// TestConsumerSetsAside runs a real consumer over messages that nobody can
// handle: each is held under a key of its own, and acknowledged.
func TestConsumerSetsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b,
			&yekbar.Message{ID: "m-1", Payload: []byte("a")},
			&yekbar.Message{ID: "m-1", Payload: []byte("b")}, // conflict
			&yekbar.Message{ID: " ", Payload: []byte("c")},
			&yekbar.Message{ID: "bad", Payload: []byte("d")},
			&yekbar.Message{ID: "panics", Payload: []byte("e")},
		)
		b.PublishRaw(topic, []byte("{bad"))
		store := memstore.New()
		consumer, err := yekbar.NewConsumer("inventory", store, func(_ context.Context, _ *memstore.Tx, m *yekbar.Message) error {
			switch m.ID {
			case "bad":
				return yekbar.Permanent(errors.New("no such article"))
			case "panics":
				panic("at the disco")
			}
			return nil
		}, yekbar.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, stop := running(t, b.Source(topic), consumer, worker.Config{Concurrency: 1, Prefetch: 1})
		await(3 * time.Hour)
		reasons := map[string]string{}
		for h, err := range store.Held(t.Context(), yekbar.HeldFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			reasons[h.Reason] = string(h.Message.Payload) + string(h.Raw[:min(len(h.Raw), 4)])
		}
		for _, reason := range []string{yekbar.ReasonConflict, yekbar.ReasonIdentity, yekbar.ReasonPermanent, yekbar.ReasonAttempts, yekbar.ReasonUndecodable} {
			if _, ok := reasons[reason]; !ok {
				t.Errorf("nothing is held for the reason %q: %v", reason, reasons)
			}
		}
		if c := b.Counts(topic); c.Acked != 6 {
			t.Errorf("counts are %+v", c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// endless is a source with a backlog that never ends, made as it is received.
type endless struct{ n int }

func (e *endless) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	ds := make([]broker.Delivery, limit)
	for i := range ds {
		e.n++
		ds[i] = &made{m: yekbar.Message{ID: strconv.Itoa(e.n), Payload: make([]byte, 10_000)}, lost: make(chan struct{})}
	}
	return ds, nil
}

func (e *endless) Capabilities() broker.Capabilities { return broker.Capabilities{} }
func (e *endless) Close(context.Context) error       { return nil }

type made struct {
	m    yekbar.Message
	lost chan struct{}
}

func (d *made) Message() (*yekbar.Message, error)         { return &d.m, nil }
func (d *made) Raw() []byte                               { return d.m.Payload }
func (d *made) Coordinates() string                       { return "" }
func (d *made) Attempt() (int, bool)                      { return 0, false }
func (d *made) Ack(context.Context) error                 { return nil }
func (d *made) Nack(context.Context, time.Duration) error { return nil }
func (d *made) Extend(context.Context) error              { return nil }
func (d *made) Lost() <-chan struct{}                     { return d.lost }

// BenchmarkWorker is what the loop itself costs a message, and the heap that it
// holds over a backlog without end, of messages of 10 kB.
func BenchmarkWorker(b *testing.B) {
	for _, prefetch := range []int{32, 1024} {
		b.Run(fmt.Sprintf("prefetch=%d", prefetch), func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			left := make(chan struct{}, b.N)
			for range b.N {
				left <- struct{}{}
			}
			var peak uint64
			p := &processor{process: func(context.Context, *yekbar.Message) error {
				select {
				case <-left:
				default:
					cancel()
				}
				return nil
			}}
			w, err := worker.New(&endless{}, forgetting{p}, worker.Config{Prefetch: prefetch, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				tick := time.NewTicker(50 * time.Millisecond)
				defer tick.Stop()
				for {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapAlloc)
					select {
					case <-tick.C:
					case <-ctx.Done():
						return
					}
				}
			}()
			if err := w.Run(ctx); err != nil {
				b.Fatal(err)
			}
			<-done
			b.ReportMetric(float64(peak)/1e6, "peak-live-MB")
		})
	}
}

// forgetting is a processor that keeps no count, whose map would grow.
type forgetting struct{ *processor }

func (f forgetting) Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error) {
	return yekbar.Result{Outcome: yekbar.Applied}, f.process(ctx, m)
}
