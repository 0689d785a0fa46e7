package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/operate"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/safeurl"
)

type rewindCommand struct {
	databaseFlags
	jsonFlag
	actorFlags
	Broker   string            `required:"" env:"YEKBAR_BROKER" placeholder:"URL" help:"nats://HOST:PORT/STREAM/DURABLE, the durable consumer that the workers read; also YEKBAR_BROKER."`
	To       map[string]string `placeholder:"PARTITION=POSITION;…" help:"Where to, by partition (of JetStream: STREAM=SEQUENCE, the first message to come again). Default: what the database has."`
	DryRun   bool              `help:"Print what would be done, and do nothing."`
	Consumer string            `arg:"" help:"Its name."`
}

// Help is what --help says below the summary.
func (rewindCommand) Help() string {
	return `After a database was restored or failed over to an earlier moment, the broker holds messages for acknowledged of which the database knows nothing. This makes the broker deliver them again. More than needed does no harm: what took effect is a duplicate and rests, as long as claims are kept.

Stop the consumer's workers first. On JetStream the durable consumer is created anew, with another start; the stream must still have the messages, so it can't be a work queue.

JSON: action, consumer, by, reason, dry_run, partitions{}: from, to.

Examples:

    export YEKBAR_BROKER=nats://127.0.0.1:4222/ORDERS/inventory
    yekbar rewind inventory --dry-run --reason 'restored to 12:00'
    yekbar rewind inventory --to ORDERS=120500 --reason 'restored to 12:00'

` + exitStatuses
}

// Run rewinds.
func (c *rewindCommand) Run(p *program) error {
	b, err := parseSubscription(c.Broker)
	if err != nil {
		return &statusError{exitUsage, fmt.Errorf("--broker: %w", err)}
	}
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		actor, err := c.actor()
		if err != nil {
			return err
		}
		return b.use(ctx, func(source *natsbroker.Source, _ jetstream.JetStream) error {
			return s.Rewind(ctx, c.Consumer, operate.Rewinding{Broker: source, Subscription: source.Capabilities().Subscription, To: c.To, DryRun: c.DryRun}, actor)
		})
	})
}

// A subscription is where a broker's URL leads.
type subscription struct {
	safe            *safeurl.URL
	server          string
	stream, durable string
}

const brokerForms = "nats://HOST:PORT/STREAM/DURABLE, or tls://"

func parseSubscription(raw string) (*subscription, error) {
	u, err := safeurl.Parse(raw)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	if u.Scheme != "nats" && u.Scheme != "tls" || u.Host == "" || len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return nil, errors.New("use " + brokerForms)
	}
	if u.User != nil {
		if _, ok := u.User.Password(); !ok {
			u.Hide(u.User.Username()) // a token
		}
	}
	server := *u.URL
	server.Path = ""
	return &subscription{u, server.String(), parts[0], parts[1]}, nil
}

func (b *subscription) String() string { return "NATS JetStream " + b.safe.String() }

// use connects, and disconnects after do. What fails before do is no fault of
// the database.
func (b *subscription) use(ctx context.Context, do func(*natsbroker.Source, jetstream.JetStream) error) (err error) {
	conn, err := natsbroker.Connect(b.server, nats.Name("yekbar"), nats.Timeout(5*time.Second))
	if err != nil {
		return &statusError{exitFailed, b.safe.Clean(err)}
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return &statusError{exitFailed, b.safe.Clean(err)}
	}
	source, err := natsbroker.NewSource(ctx, js, natsbroker.SourceConfig{Stream: b.stream, Durable: b.durable})
	if err != nil {
		return &statusError{exitFailed, b.safe.Clean(err)}
	}
	defer func() { err = errors.Join(err, b.safe.Clean(source.Close(context.WithoutCancel(ctx)))) }()
	return do(source, js)
}
