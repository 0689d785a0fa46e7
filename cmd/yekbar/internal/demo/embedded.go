package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
)

const embeddedReady = 20 * time.Second

// startEmbedded runs a NATS server with JetStream in this process, on a free
// port of 127.0.0.1, with its streams as files in dir.
func startEmbedded(dir string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "yekbar-demo",
		Host:       "127.0.0.1",
		Port:       server.RANDOM_PORT,
		JetStream:  true,
		StoreDir:   dir,
		MaxPayload: orders.MaxLine + 4096,
		NoLog:      true,
		NoSigs:     true,
	})
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(embeddedReady) {
		stopEmbedded(s)
		return nil, errors.New("embedded NATS server: not ready after " + embeddedReady.String())
	}
	return s, nil
}

func stopEmbedded(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
