package integration

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/worker"
)

// instant is a processor that only counts down.
type instant struct {
	plain
	left atomic.Int64
	done chan struct{}
}

func (p *instant) Process(context.Context, *yekbar.Message) (yekbar.Result, error) {
	if p.left.Add(-1) == 0 {
		close(p.done)
	}
	return yekbar.Result{Outcome: yekbar.Applied}, nil
}

// BenchmarkNATSBroker is what publishing, and receiving with acknowledgement,
// cost a message of 256 bytes, without a database.
func BenchmarkNATSBroker(b *testing.B) {
	url := servers.NATS(b)
	b.Run("publish", func(b *testing.B) {
		s := subscribeNATS(b, url, 30*time.Second)
		b.ResetTimer()
		publishMany(b, s, b.N)
	})
	for _, c := range []worker.Config{{Concurrency: 8}, {Concurrency: 32}, {Concurrency: 32, Prefetch: 256}} {
		b.Run(fmt.Sprintf("worker/concurrency=%d/prefetch=%d", c.Concurrency, c.Prefetch), func(b *testing.B) {
			s := subscribeNATS(b, url, 30*time.Second)
			publishMany(b, s, b.N)
			p := &instant{done: make(chan struct{})}
			p.left.Store(int64(b.N))
			c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
			source := s.source(b)
			b.ResetTimer()
			_, stop := startWorker(b, source, p, c)
			<-p.done
			if err := stop(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func publishMany(b *testing.B, s *natsSubscription, n int) {
	b.Helper()
	p, err := natsbroker.NewPublisher(s.js, natsbroker.PublisherConfig{Window: 1000})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 256)
	for done := 0; done < n; {
		ms := make([]*yekbar.Message, min(1000, n-done))
		for i := range ms {
			ms[i] = &yekbar.Message{ID: fmt.Sprint(done + i), Topic: s.subject, Payload: payload}
		}
		if err := p.Publish(b.Context(), ms); err != nil {
			b.Fatal(err)
		}
		done += len(ms)
	}
}
