package proxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/internal/integration/proxy"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// A message whose acknowledgement is lost on the way comes again; one whose
// acknowledgement arrived, though the confirmation didn't, does not.
func TestNATSAcknowledgements(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do      proxy.Action
		pending int
	}{
		"cut before":          {proxy.CutBefore, 1},
		"cut after the reply": {proxy.CutAfterReply, 0},
	} {
		t.Run(name, func(t *testing.T) {
			direct := servers.NATS(t)
			stream := servers.UniqueName("s")
			ctx := within(t, bound)
			js := natsStream(t, direct)
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream}})
			ok(t, err)
			t.Cleanup(func() { ok(t, js.DeleteStream(context.WithoutCancel(ctx), stream)) })
			consumer, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
			ok(t, err)
			_, err = js.Publish(ctx, stream, []byte("1"))
			ok(t, err)

			p := proxy.Start(t, direct)
			broken, err := natsStream(t, p.URL(), nats.NoReconnect()).Consumer(ctx, stream, "c")
			ok(t, err)
			m, err := broken.Next(jetstream.FetchMaxWait(bound))
			ok(t, err)
			fault := p.Arm(proxy.Fault{On: proxy.Contains("PUB $JS.ACK."), Do: test.do})
			if err := m.DoubleAck(within(t, 5*time.Second)); err == nil {
				t.Error("the acknowledgement was confirmed")
			}
			ok(t, fault.Wait(ctx))
			info, err := consumer.Info(ctx)
			ok(t, err)
			if info.NumAckPending != test.pending {
				t.Errorf("%d messages wait for their acknowledgement, want %d", info.NumAckPending, test.pending)
			}
		})
	}
}

func natsStream(t *testing.T, url string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, options...)
	ok(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	ok(t, err)
	return js
}
