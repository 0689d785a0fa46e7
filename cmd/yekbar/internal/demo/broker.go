package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/safeurl"
)

const (
	// ackWait is short, so that what a killed worker held comes back soon.
	ackWait = 2 * time.Second
	// consumerName is the durable consumer's on the broker, and the name of
	// the claims in the database.
	consumerName = "inventory"
	// leftover is how long a stream may outlive a demo that was killed.
	leftover       = 24 * time.Hour
	connectTimeout = 5 * time.Second
	// publishAhead bounds what is published and not confirmed yet.
	publishAhead = 512
	// stallWait is how long the broker may take to confirm.
	stallWait = 30 * time.Second
	// invoiceHeader has the message's ID. The shop sends no Nats-Msg-Id: it is
	// a careless one, whose copies the broker can't recognise.
	invoiceHeader = "Invoice"
)

// A channel is a stream of this run alone and its one consumer.
type channel struct {
	url      string
	stream   string
	name     string // of the broker, for people
	safe     *safeurl.URL
	embedded *server.Server
	conn     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	refused  atomic.Pointer[error] // the first message that was not published
}

// openChannel makes the stream and its consumer on the broker at url, or on
// one that it starts in this process with its files in dir.
func openChannel(ctx context.Context, url, dir string) (c *channel, err error) {
	c = &channel{url: url, stream: "YEKBAR_DEMO_" + nuid.Next()}
	defer func() {
		if err != nil {
			err = errors.Join(c.safe.Clean(err), c.close())
		}
	}()
	if url == "" {
		if c.embedded, err = startEmbedded(dir); err != nil {
			return c, err
		}
		c.url, c.name = c.embedded.ClientURL(), "embedded NATS JetStream"
	} else {
		if c.safe, err = parseBroker(url); err != nil {
			return c, err
		}
		c.name = "NATS JetStream " + c.safe.String()
	}
	c.conn, err = nats.Connect(c.url, nats.Name("yekbar demo"), nats.Timeout(connectTimeout), nats.MaxReconnects(-1))
	if err != nil {
		return c, fmt.Errorf("%s: %w; is the server running, and is the URL right?", c.name, err)
	}
	c.js, err = jetstream.New(c.conn, jetstream.WithPublishAsyncMaxPending(publishAhead),
		jetstream.WithPublishAsyncTimeout(stallWait), jetstream.WithPublishAsyncErrHandler(c.refuse))
	if err != nil {
		return c, fmt.Errorf("%s: %w", c.name, err)
	}
	return c, c.create(ctx)
}

func parseBroker(raw string) (*safeurl.URL, error) {
	u, err := safeurl.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("--broker: %w", err)
	}
	if u.Scheme != "nats" && u.Scheme != "tls" || u.Host == "" {
		return nil, errors.New("--broker: use nats://HOST:PORT, or tls://, or leave it out for an embedded server")
	}
	if u.User != nil {
		if _, ok := u.User.Password(); !ok {
			u.Hide(u.User.Username()) // nats://TOKEN@HOST
		}
	}
	return u, nil
}

func (c *channel) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := c.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        c.stream,
		Description: "made by yekbar demo, which deletes it in the end",
		Subjects:    []string{c.subject()},
		Retention:   jetstream.WorkQueuePolicy, // what is done is deleted
		Storage:     jetstream.FileStorage,
		MaxAge:      leftover,
	})
	if err != nil {
		return fmt.Errorf("%s: can't make the stream %s: %w (JetStream must be enabled: nats-server -js)", c.name, c.stream, err)
	}
	c.consumer, err = c.js.CreateConsumer(ctx, c.stream, jetstream.ConsumerConfig{
		Durable:       consumerName,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: 10_000,
	})
	if err != nil {
		return fmt.Errorf("%s: can't make the consumer of %s: %w", c.name, c.stream, err)
	}
	return nil
}

func (c *channel) subject() string {
	return "yekbar-demo." + strings.TrimPrefix(c.stream, "YEKBAR_DEMO_") + ".orders"
}

// publish returns before the broker has confirmed.
func (c *channel) publish(invoice string, text []byte) error {
	if refused := c.refused.Load(); refused != nil {
		return *refused
	}
	m := &nats.Msg{Subject: c.subject(), Header: nats.Header{invoiceHeader: {invoice}}, Data: text}
	if _, err := c.js.PublishMsgAsync(m, jetstream.WithStallWait(stallWait)); err != nil {
		return c.publishError(invoice, err)
	}
	return nil
}

// confirmed waits until the broker has confirmed everything.
func (c *channel) confirmed(ctx context.Context) error {
	select {
	case <-c.js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	if refused := c.refused.Load(); refused != nil {
		return *refused
	}
	return nil
}

func (c *channel) refuse(_ jetstream.JetStream, m *nats.Msg, err error) {
	err = c.publishError(m.Header.Get(invoiceHeader), err)
	c.refused.CompareAndSwap(nil, &err)
}

func (c *channel) publishError(invoice string, err error) error {
	return c.safe.Clean(fmt.Errorf("%s: order %s was not published: %w", c.name, invoice, err))
}

// A backlog is what the broker says about the consumer.
type backlog struct {
	Deliveries uint64 // made since the beginning, repeats included
	Waiting    uint64 // never delivered yet
	Unsettled  int    // delivered, not acknowledged
	Settled    uint64 // moves when something is acknowledged
}

func (c *channel) backlog(ctx context.Context) (backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	info, err := c.consumer.Info(ctx)
	if err != nil {
		return backlog{}, c.safe.Clean(fmt.Errorf("%s: consumer %s of stream %s: %w", c.name, consumerName, c.stream, err))
	}
	return backlog{info.Delivered.Consumer, info.NumPending, info.NumAckPending, info.AckFloor.Stream}, nil
}

// close deletes the stream and stops the embedded server.
func (c *channel) close() error {
	var err error
	if c.consumer != nil && c.embedded == nil {
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		if err = c.js.DeleteStream(ctx, c.stream); err != nil {
			err = c.safe.Clean(fmt.Errorf("%s: can't delete the stream %s; do it with nats stream rm %[2]s: %w", c.name, c.stream, err))
		}
	}
	if c.conn != nil {
		c.conn.Close()
	}
	if c.embedded != nil {
		stopEmbedded(c.embedded)
	}
	return err
}
