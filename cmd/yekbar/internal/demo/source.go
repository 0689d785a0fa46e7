package demo

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
)

// openSource connects a worker to the demo's stream. The source is closed
// before the function that is returned is called.
func openSource(ctx context.Context, c workerConfig) (broker.Source, func(), error) {
	conn, err := natsbroker.Connect(c.Broker)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("JetStream: %w", err)
	}
	source, err := natsbroker.NewSource(ctx, js, natsbroker.SourceConfig{Stream: c.Stream, Durable: consumerName})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return source, conn.Close, nil
}
