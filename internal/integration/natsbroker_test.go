package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/brokertest"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// natsSubscription is a stream with one durable consumer on a server.
type natsSubscription struct {
	js      jetstream.JetStream
	config  natsbroker.SourceConfig
	subject string
}

func connectNATS(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	nc, err := natsbroker.Connect(url, nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func subscribeNATS(t testing.TB, url string, lease time.Duration) *natsSubscription {
	t.Helper()
	s := &natsSubscription{js: connectNATS(t, url), subject: servers.UniqueName("orders")}
	s.config = natsbroker.SourceConfig{Stream: s.subject, Durable: "inventory", AckWait: lease, MaxAckPending: 5000}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := natsbroker.EnsureStream(ctx, s.js, jetstream.StreamConfig{Name: s.subject, Subjects: []string{s.subject}}); err != nil {
		t.Fatal(err)
	}
	if err := natsbroker.EnsureConsumer(ctx, s.js, s.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.js.DeleteStream(ctx, s.subject); err != nil {
			t.Errorf("delete the test's stream: %v", err)
		}
	})
	return s
}

func (s *natsSubscription) source(t testing.TB) *natsbroker.Source {
	t.Helper()
	source, err := natsbroker.NewSource(t.Context(), s.js, s.config)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func (s *natsSubscription) publish(t testing.TB, n int) {
	t.Helper()
	p, err := natsbroker.NewPublisher(s.js, natsbroker.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ms := make([]*yekbar.Message, n)
	for i := range ms {
		ms[i] = &yekbar.Message{ID: fmt.Sprintf("m-%d", i+1), Topic: s.subject, Payload: []byte("x")}
	}
	if err := p.Publish(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
}

func (s *natsSubscription) fixture() *brokertest.Fixture {
	return &brokertest.Fixture{
		Source: func(ctx context.Context) (broker.Source, error) {
			return natsbroker.NewSource(ctx, s.js, s.config)
		},
		Publisher: func(context.Context) (broker.Publisher, error) {
			return natsbroker.NewPublisher(s.js, natsbroker.PublisherConfig{})
		},
		Topic:      s.subject,
		Unroutable: servers.UniqueName("nowhere"),
		PublishUndecodable: func(ctx context.Context) ([]byte, error) {
			bad := []byte(`{"specversion":"1.0","id":`)
			_, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: s.subject, Data: bad,
				Header: nats.Header{"content-type": {"application/cloudevents+json"}}})
			return bad, err
		},
		HeaderValues: [][]byte{{0xff, 0, 1}, []byte("é"), []byte("a  b: c%41")},
	}
}

func TestNATSBrokerSuite(t *testing.T) {
	url := servers.NATS(t)
	brokertest.Run(t, func(t *testing.T) *brokertest.Fixture { return subscribeNATS(t, url, time.Second).fixture() })
}

// TestNATSBrokerOutage runs the suite's check with a server that is killed.
func TestNATSBrokerOutage(t *testing.T) {
	server := servers.StartNATS(t, servers.Options{})
	brokertest.RunOutage(t, func(t *testing.T) *brokertest.Fixture {
		f := subscribeNATS(t, server.URL(), 2*time.Second).fixture()
		f.Stop, f.Start = server.Kill, server.Restart
		return f
	})
}
