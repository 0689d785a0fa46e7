package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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

func TestEveryMessageIsProcessedAndAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1000)...)
		p := &processor{}
		w, stop := running(t, b.Source(topic), p, worker.Config{})
		synctest.Wait()
		if c := b.Counts(topic); c.Acked != 1000 || c.Deliveries != 1000 {
			t.Errorf("counts are %+v", c)
		}
		if s := w.Stats(); s.Applied != 1000 || s.Acked != 1000 || s.Held != 0 {
			t.Errorf("stats are %+v", s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAcknowledgedOnlyAfterProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1)...)
		goOn := make(chan struct{})
		p := &processor{process: func(context.Context, *yekbar.Message) error { <-goOn; return nil }}
		_, stop := running(t, b.Source(topic), p, worker.Config{})
		synctest.Wait()
		if c := b.Counts(topic); c.Acked != 0 || c.Held != 1 {
			t.Errorf("while the handler runs, counts are %+v", c)
		}
		close(goOn)
		synctest.Wait()
		if c := b.Counts(topic); c.Acked != 1 {
			t.Errorf("after it, counts are %+v", c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestFailureIsGivenBackWithGrowingDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1)...)
		var at []time.Time
		p := &processor{process: func(context.Context, *yekbar.Message) error {
			if at = append(at, time.Now()); len(at) < 5 {
				return errors.New("not today")
			}
			return nil
		}}
		w, stop := running(t, b.Source(topic), p, worker.Config{})
		await(time.Hour)
		if len(at) != 5 {
			t.Fatalf("processed %d times, want 5", len(at))
		}
		for i, longest := 1, time.Second; i < 5; i, longest = i+1, 2*longest {
			if d := at[i].Sub(at[i-1]); d < longest/2 || d > longest {
				t.Errorf("pause %d is %v, want %v to %v", i, d, longest/2, longest)
			}
		}
		if s := w.Stats(); s.Failed != 4 || s.GivenBack != 4 || s.Acked != 1 {
			t.Errorf("stats are %+v", s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1)...)
		var at []time.Time
		p := &processor{process: func(context.Context, *yekbar.Message) error {
			if at = append(at, time.Now()); len(at) == 1 {
				return yekbar.RetryAfter(errors.New("at noon"), 7*time.Minute)
			}
			return nil
		}}
		_, stop := running(t, b.Source(topic), p, worker.Config{})
		await(time.Hour)
		if len(at) != 2 || at[1].Sub(at[0]) != 7*time.Minute {
			t.Errorf("processed at %v", at)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestBrokerWithoutDelayIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caps := membroker.Typical()
		caps.NackDelay, caps.Counts = false, false
		b := membroker.New(membroker.Config{Capabilities: caps})
		publish(t, b, numbered(1)...)
		p := &processor{process: func(context.Context, *yekbar.Message) error { return errors.New("no") }}
		_, stop := running(t, b.Source(topic), p, worker.Config{})
		await(time.Minute)
		if n := p.count("m-1"); n > 130 {
			t.Errorf("tried %d times in a minute", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestDeadMessagesAreSetAside(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		err          error
		id           string
		after        int
	}{
		{"permanent", yekbar.ReasonPermanent, yekbar.Permanent(errors.New("no such article")), "m-1", 1},
		{"conflict", yekbar.ReasonConflict, &yekbar.ConflictError{MessageID: "m-1", Received: []byte{1, 2}}, "raw", 1},
		{"missing ID", yekbar.ReasonIdentity, nil, "raw", 1},
		{"attempts", yekbar.ReasonAttempts, errors.New("never works"), "m-1", 10},
		{"timeout", yekbar.ReasonAttempts, fmt.Errorf("%w: slow", yekbar.ErrTimeout), "m-1", 10},
		{"boundary kept", yekbar.ReasonAttempts, &yekbar.BoundaryError{What: "COMMIT"}, "m-1", 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
				m := &yekbar.Message{ID: "m-1", Header: yekbar.Header{{Name: "a", Value: []byte{0xff}}}, Payload: []byte("x")}
				if test.name == "missing ID" {
					m.ID = ""
				}
				publish(t, b, m)
				store := memstore.New()
				p := &processor{store: store, process: func(context.Context, *yekbar.Message) error { return test.err }}
				_, stop := running(t, b.Source(topic), p, worker.Config{})
				await(3 * time.Hour)
				held := heldBy(t, store)
				if len(held) != 1 {
					t.Fatalf("held %d times, want once", len(held))
				}
				got := held[0]
				want := test.id
				if want == "raw" {
					want = yekbar.HeldID([]byte("orders 1"))
				}
				if got.Reason != test.reason || got.MessageID != want || got.State != yekbar.StateDead || got.Attempts != test.after ||
					len(got.Errors) != test.after || string(got.Message.Payload) != "x" || got.Message.Header.Get("a") != "\xff" || got.Consumer != "inventory" {
					t.Errorf("held %+v", got)
				}
				if c := b.Counts(topic); c.Acked != 1 || c.Deliveries != 1 {
					t.Errorf("counts are %+v", c)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Two orders may well have the same bytes, and neither an ID.
func TestEqualMessagesWithoutAnIDAreBothKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, &yekbar.Message{Payload: []byte("x")}, &yekbar.Message{Payload: []byte("x")})
		store := memstore.New()
		_, stop := running(t, b.Source(topic), &processor{store: store}, worker.Config{})
		synctest.Wait()
		held := map[string]bool{}
		for _, one := range heldBy(t, store) {
			held[one.MessageID] = true
		}
		if c := b.Counts(topic); len(held) != 2 || c.Acked != 2 {
			t.Errorf("held under %v; counts are %+v", held, c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestUndecodableIsSetAsideWithItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		b.PublishRaw(topic, []byte("{bad"))
		publish(t, b, numbered(1)...)
		store := memstore.New()
		p := &processor{store: store}
		_, stop := running(t, b.Source(topic), p, worker.Config{})
		synctest.Wait()
		held := heldBy(t, store)
		if len(held) != 1 || held[0].Reason != yekbar.ReasonUndecodable || string(held[0].Raw) != "{bad" || held[0].MessageID != yekbar.HeldID([]byte("orders 1")) {
			t.Errorf("held %+v", held)
		}
		if c := b.Counts(topic); c.Acked != 2 {
			t.Errorf("counts are %+v", c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestNotAcknowledgedWhenSettingAsideFails(t *testing.T) {
	for _, failure := range []error{errors.New("too large to store"), yekbar.ErrUnavailable} {
		t.Run(failure.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
				publish(t, b, numbered(1)...)
				h := &unholding{Store: memstore.New()}
				h.fail(failure)
				p := &processor{store: h, process: func(context.Context, *yekbar.Message) error { return yekbar.Permanent(errors.New("no")) }}
				_, stop := running(t, b.Source(topic), p, worker.Config{})
				await(time.Hour)
				if c := b.Counts(topic); c.Acked != 0 {
					t.Fatalf("acknowledged, and nobody has it: %+v", c)
				}
				h.fail(nil)
				await(time.Hour)
				if c := b.Counts(topic); c.Acked != 1 || len(heldBy(t, h)) != 1 {
					t.Errorf("counts are %+v, held %d", c, len(heldBy(t, h)))
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWithoutHoldingStoreNothingIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1)...)
		p := &processor{process: func(context.Context, *yekbar.Message) error { return yekbar.Permanent(errors.New("no")) }}
		var log strings.Builder
		_, stop := running(t, b.Source(topic), p, worker.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		await(time.Hour)
		if c := b.Counts(topic); c.Acked != 0 || c.Deliveries > 13 {
			t.Errorf("counts are %+v", c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("not said loudly: %s", log.String())
		}
	})
}

func TestDatabaseOutageHoldsAndBurnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(200)...)
		var down atomic.Bool
		down.Store(true)
		var tries atomic.Int64
		p := &processor{process: func(context.Context, *yekbar.Message) error {
			if tries.Add(1); down.Load() {
				return fmt.Errorf("%w: connection refused", yekbar.ErrUnavailable)
			}
			return nil
		}}
		w, stop := running(t, b.Source(topic), p, worker.Config{Concurrency: 4, Prefetch: 8})
		await(time.Hour)
		if c := b.Counts(topic); c.Deliveries != 8 || c.Held != 8 {
			t.Errorf("in an outage of an hour, counts are %+v: want 8 deliveries, held", c)
		}
		if n := tries.Load(); n > 4+500 {
			t.Errorf("tried %d times in an hour, want a probe about every 11 s", n)
		}
		down.Store(false)
		await(20 * time.Second)
		if c := b.Counts(topic); c.Acked != 200 || c.Deliveries != 200 {
			t.Errorf("afterwards, counts are %+v", c)
		}
		if s := w.Stats(); s.Failed != 0 || s.GivenBack != 0 {
			t.Errorf("stats are %+v", s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestBrokerOutageIsLoggedOnceAndSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		var log strings.Builder
		p := &processor{}
		b.SetOutage(true)
		_, stop := running(t, b.Source(topic), p, worker.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		await(10 * time.Minute)
		b.SetOutage(false)
		publish(t, b, numbered(3)...)
		await(time.Minute)
		if c := b.Counts(topic); c.Acked != 3 {
			t.Errorf("counts are %+v", c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log.String())
		}
	})
}

func TestLeasesOfRunningAndBufferedAreExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(10)...)
		p := &processor{process: func(context.Context, *yekbar.Message) error { pass(5 * time.Minute); return nil }}
		_, stop := running(t, b.Source(topic), p, worker.Config{Concurrency: 1, Prefetch: 10})
		await(time.Hour)
		if c := b.Counts(topic); c.Acked != 10 || c.Deliveries != 10 {
			t.Errorf("counts are %+v", c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestLostLeaseCancelsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1)...)
		var causes []error
		p := &processor{process: func(ctx context.Context, _ *yekbar.Message) error {
			if len(causes) > 0 {
				return nil
			}
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		}}
		w, stop := running(t, b.Source(topic), p, worker.Config{Concurrency: 1})
		synctest.Wait()
		b.LoseLeases(topic)
		synctest.Wait()
		if len(causes) != 1 || !errors.Is(causes[0], broker.ErrLost) {
			t.Errorf("cancelled with %v", causes)
		}
		if c, s := b.Counts(topic), w.Stats(); c.Acked != 1 || s.Lost != 1 || s.Acked != 1 || s.GivenBack != 0 {
			t.Errorf("counts are %+v, stats %+v", c, s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownLetsTheRunningFinishAndGivesBackTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(10)...)
		p := &processor{process: func(ctx context.Context, m *yekbar.Message) error {
			d := 2 * time.Second // m-1
			if m.ID == "m-2" {
				d = time.Hour
			}
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		w, stop := running(t, b.Source(topic), p, worker.Config{Concurrency: 2, Prefetch: 10, Grace: 5 * time.Second})
		await(time.Second)
		start := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("ended after %v, want the grace time", d)
		}
		if c := b.Counts(topic); c.Acked != 1 || c.Waiting != 9 {
			t.Errorf("counts are %+v", c)
		}
		if s := w.Stats(); s.GivenBack != 9 || s.Failed != 0 || s.Held != 0 {
			t.Errorf("stats are %+v", s)
		}
	})
}

func TestDroppedAcknowledgementsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(10)...)
		b.DropAcks(2)
		b.DropAckReplies(2)
		w, stop := running(t, b.Source(topic), &processor{}, worker.Config{})
		await(10 * time.Second)
		if c, s := b.Counts(topic), w.Stats(); c.Acked != 10 || c.Deliveries != 10 || s.Acked != 10 {
			t.Errorf("counts are %+v, stats %+v", c, s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestUnsettledAtTheEndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1)...)
		began := make(chan struct{})
		p := &processor{process: func(context.Context, *yekbar.Message) error { close(began); return nil }}
		b.DropAcks(1 << 30)
		_, stop := running(t, b.Source(topic), p, worker.Config{})
		<-began
		if err := stop(); !errors.Is(err, broker.ErrOutage) || !strings.Contains(err.Error(), "1 deliveries could not be settled") {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestPrefetchBoundsWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(20000)...)
		p := &processor{process: func(context.Context, *yekbar.Message) error { pass(time.Millisecond); return nil }}
		_, stop := running(t, b.Source(topic), p, worker.Config{Concurrency: 4, Prefetch: 9})
		await(time.Minute)
		if c := b.Counts(topic); c.Acked != 20000 || c.MostHeld > 9 {
			t.Errorf("counts are %+v, want at most 9 held", c)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
