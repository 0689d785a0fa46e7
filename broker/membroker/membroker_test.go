package membroker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/brokertest"
	"github.com/yekbar-go/yekbar/broker/membroker"
)

const topic = "orders"

func fixture(caps broker.Capabilities) func(*testing.T) *brokertest.Fixture {
	return func(*testing.T) *brokertest.Fixture {
		b := membroker.New(membroker.Config{Capabilities: caps, Topics: []string{topic}})
		return &brokertest.Fixture{
			Source:     func(context.Context) (broker.Source, error) { return b.Source(topic), nil },
			Publisher:  func(context.Context) (broker.Publisher, error) { return b.Publisher(), nil },
			Topic:      topic,
			Unroutable: "elsewhere",
			PublishUndecodable: func(context.Context) ([]byte, error) {
				b.PublishRaw(topic, []byte("{bad"))
				return []byte("{bad"), nil
			},
			Stop:         func() error { b.SetOutage(true); return nil },
			Start:        func() error { b.SetOutage(false); return nil },
			AcksSurvive:  true,
			HeaderValues: [][]byte{{0xff, 0}, []byte(" a\r\nb "), nil},
		}
	}
}

func TestSuite(t *testing.T) {
	typical := membroker.Typical()
	typical.Lease = 500 * time.Millisecond
	perKey, unordered, short, partition := typical, typical, typical, typical
	partition.AckInOrder = true
	perKey.Order = broker.PerKey
	unordered.Order = broker.Unordered
	short.Extendable, short.NackDelay, short.Counts, short.ConfirmsAck = false, false, false, false
	for _, test := range []struct {
		name string
		caps broker.Capabilities
	}{{"typical", typical}, {"per key", perKey}, {"unordered", unordered}, {"bare", broker.Capabilities{}}, {"lease only", short}, {"partition", partition}} {
		t.Run(test.name, func(t *testing.T) { brokertest.Run(t, fixture(test.caps)) })
	}
}

func publish(t *testing.T, b *membroker.Broker, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := b.Publisher().Publish(t.Context(), []*yekbar.Message{{ID: id, Topic: topic}}); err != nil {
			t.Fatal(err)
		}
	}
}

func receive(t *testing.T, s broker.Source, n int) []broker.Delivery {
	t.Helper()
	var ds []broker.Delivery
	for len(ds) < n {
		got, err := s.Receive(t.Context(), n-len(ds))
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, got...)
	}
	return ds
}

func ids(t *testing.T, ds []broker.Delivery) string {
	t.Helper()
	var all []string
	for _, d := range ds {
		m, err := d.Message()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}

func ack(t *testing.T, ds ...broker.Delivery) {
	t.Helper()
	for _, d := range ds {
		if err := d.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAckInOrder is a partition: what was acknowledged behind a held delivery
// comes again when its source closes.
func TestAckInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caps := membroker.Typical()
		caps.AckInOrder = true
		b := membroker.New(membroker.Config{Capabilities: caps})
		publish(t, b, "m-1", "m-2", "m-3", "m-4")
		s := b.Source(topic)
		ds := receive(t, s, 4)
		ack(t, ds[0], ds[2], ds[3])
		if c := b.Counts(topic); c.Acked != 1 || c.Held != 1 {
			t.Errorf("counts are %+v", c)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := receive(t, b.Source(topic), 3)
		if got := ids(t, again); got != "m-2 m-3 m-4" {
			t.Errorf("%s came again", got)
		}
		ack(t, again...)
		if c := b.Counts(topic); c.Acked != 4 {
			t.Errorf("counts are %+v", c)
		}
	})
}

func TestMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caps := membroker.Typical()
		caps.MaxAttempts = 3
		b := membroker.New(membroker.Config{Capabilities: caps})
		publish(t, b, "m-1")
		s := b.Source(topic)
		for range 3 {
			receive(t, s, 1)
			time.Sleep(caps.Lease) //nolint:forbidigo // the clock is testing/synctest's
			synctest.Wait()
		}
		if c := b.Counts(topic); c.Exhausted != 1 || c.Deliveries != 3 {
			t.Errorf("counts are %+v", c)
		}
	})
}

func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, "m-1", "m-2")
		b.Repeat(2)
		s := b.Source(topic)
		for range 6 {
			ack(t, receive(t, s, 1)...)
		}
		if c := b.Counts(topic); c.Acked != 2 || c.Deliveries != 6 {
			t.Errorf("counts are %+v", c)
		}
	})
}

func TestSlowReceiveAndSeveralTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, "m-1")
		if err := b.Publisher().Publish(t.Context(), []*yekbar.Message{{ID: "m-1", Topic: "refunds"}}); err != nil {
			t.Fatal(err)
		}
		s := b.Source(topic, "refunds")
		if !s.Capabilities().ManyTopics {
			t.Error("a source of two topics does not say so")
		}
		b.SlowReceive(time.Minute)
		start := time.Now()
		ack(t, receive(t, s, 2)...)
		if d := time.Since(start); d < time.Minute {
			t.Errorf("Receive took %v", d)
		}
		if b.Counts(topic).Acked != 1 || b.Counts("refunds").Acked != 1 || len(b.Messages("refunds")) != 1 {
			t.Error("one of the topics was left out")
		}
	})
}
