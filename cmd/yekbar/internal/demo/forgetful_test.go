package demo

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/membroker"
)

// Some acknowledgements don't arrive, and only first ones: the orders come to
// an end.
func TestForgetfulSourceDeliversSomeAgain(t *testing.T) {
	const n = 2000
	capabilities := membroker.Typical()
	capabilities.Lease = 200 * time.Millisecond
	b := membroker.New(membroker.Config{Capabilities: capabilities})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range n {
		m := &yekbar.Message{ID: fmt.Sprint(i), Topic: "orders", Payload: []byte("{}")}
		if err := b.Publisher().Publish(ctx, []*yekbar.Message{m}); err != nil {
			t.Fatal(err)
		}
	}
	source := newForgetful(b.Source("orders"), workerConfig{Seed: 1})
	deliveries := map[string]int{}
	for again := 0; ; {
		quiet, stop := context.WithTimeout(ctx, 5*capabilities.Lease)
		ds, err := source.Receive(quiet, 10)
		stop()
		if err != nil {
			if again < n/50 || again > n/10 {
				t.Errorf("%d of %d came again", again, n)
			}
			break
		}
		for _, d := range ds {
			m, err := d.Message()
			if err != nil {
				t.Fatal(err)
			}
			deliveries[m.ID]++
			if deliveries[m.ID] == 2 {
				again++
			}
			if deliveries[m.ID] > 2 {
				t.Errorf("%s came %d times", m.ID, deliveries[m.ID])
			}
			if err := d.Ack(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	if len(deliveries) != n {
		t.Errorf("%d of %d messages came", len(deliveries), n)
	}
}
