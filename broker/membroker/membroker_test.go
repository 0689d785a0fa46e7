package membroker_test

import (
	"context"
	"testing"
	"time"

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
	perKey, unordered, short := typical, typical, typical
	perKey.Order = broker.PerKey
	unordered.Order = broker.Unordered
	short.Extendable, short.NackDelay, short.Counts, short.ConfirmsAck = false, false, false, false
	for _, test := range []struct {
		name string
		caps broker.Capabilities
	}{{"typical", typical}, {"per key", perKey}, {"unordered", unordered}, {"bare", broker.Capabilities{}}, {"lease only", short}} {
		t.Run(test.name, func(t *testing.T) { brokertest.Run(t, fixture(test.caps)) })
	}
}
