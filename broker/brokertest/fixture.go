package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// A Fixture is one fresh, empty subscription on a broker. Source, Publisher
// and Topic are required.
type Fixture struct {
	// Source opens one more source of the subscription. The suite closes it.
	Source func(ctx context.Context) (broker.Source, error)
	// Publisher opens a publisher. The suite closes it.
	Publisher func(ctx context.Context) (broker.Publisher, error)
	// Topic is what the sources receive.
	Topic string
	// Unroutable is a topic that the broker takes nowhere; default none.
	Unroutable string
	// PublishUndecodable publishes to Topic, round the adapter, something
	// that no message can be decoded from, and returns a part of its bytes.
	PublishUndecodable func(ctx context.Context) ([]byte, error)
	// Stop takes the broker away, Start brings it back with all it had.
	Stop, Start func() error
	// AcksSurvive says that Stop loses no acknowledgement that was confirmed.
	// (A killed server that syncs late does; the claim answers.)
	AcksSurvive bool
	// Patience is how long something that must happen may take, beyond what
	// it waits for; default 15 s.
	Patience time.Duration
	// HeaderValues are values that the transport can carry beyond printable
	// ASCII, such as []byte{0xff}.
	HeaderValues [][]byte
}

// Run runs the suite. open is called for every test, from several goroutines.
func Run(t *testing.T, open func(t *testing.T) *Fixture) {
	// First alone, for it counts the goroutines of the process.
	t.Run(leaks.name, func(t *testing.T) { runCheck(t, leaks, open) })
	t.Run("suite", func(t *testing.T) {
		for _, c := range slices.Concat(checks, contentChecks) {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				runCheck(t, c, open)
			})
		}
	})
}

func runCheck(t *testing.T, c check, open func(t *testing.T) *Fixture) {
	t.Helper()
	skip, err := perform(t.Context(), c, open(t))
	switch {
	case err != nil:
		t.Error(err)
	case skip != "":
		t.Skip(skip)
	}
}

// A check is one test. It fails by calling fail of its bench.
type check struct {
	name string
	// needs returns why the check can't be made, or "".
	needs func(f *Fixture, c broker.Capabilities) string
	run   func(b *bench)
	// outage: it stops the broker.
	outage bool
}

// checkLimit bounds one check.
const checkLimit = 2 * time.Minute

// perform makes a check, and returns how it failed, or why it was skipped.
func perform(ctx context.Context, c check, f *Fixture) (skip string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	b := &bench{ctx: ctx, f: f}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = v.err
		default:
			panic(v)
		}
		if e := b.close(); e != nil && err == nil {
			err = e
		}
	}()
	b.caps = b.source().Capabilities()
	if c.needs != nil {
		if skip := c.needs(f, b.caps); skip != "" {
			return skip, nil
		}
	}
	c.run(b)
	return "", nil
}

// A bench is what a check works with: its helpers fail the check.
type bench struct {
	ctx       context.Context
	f         *Fixture
	caps      broker.Capabilities
	sources   []broker.Source
	publisher broker.Publisher
}

type failure struct{ err error }

func (b *bench) fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

func (b *bench) must(err error, what string) {
	if err != nil {
		b.fail("%s: %w", what, err)
	}
}

func (b *bench) close() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 20*time.Second)
	defer cancel()
	for _, s := range b.sources {
		if err := s.Close(ctx); err != nil {
			return fmt.Errorf("closing a source: %w", err)
		}
	}
	if b.publisher != nil {
		if err := b.publisher.Close(ctx); err != nil {
			return fmt.Errorf("closing the publisher: %w", err)
		}
	}
	return nil
}

// source opens a source; the first one also serves b.receive.
func (b *bench) source() broker.Source {
	s, err := b.f.Source(b.ctx)
	b.must(err, "opening a source")
	b.sources = append(b.sources, s)
	return s
}

func (b *bench) publishing() broker.Publisher {
	if b.publisher == nil {
		p, err := b.f.Publisher(b.ctx)
		b.must(err, "opening a publisher")
		b.publisher = p
	}
	return b.publisher
}

func (b *bench) publish(ms ...*yekbar.Message) {
	for _, m := range ms {
		if m.Topic == "" {
			m.Topic = b.f.Topic
		}
	}
	b.must(b.publishing().Publish(b.ctx, ms), "publishing")
}

func (b *bench) publishNumbered(n int) {
	ms := make([]*yekbar.Message, n)
	for i := range ms {
		ms[i] = &yekbar.Message{ID: fmt.Sprintf("m-%d", i+1), Payload: []byte("x")}
	}
	b.publish(ms...)
}

// patience is how long something that must happen may take.
func (b *bench) patience() time.Duration {
	if b.f.Patience > 0 {
		return b.f.Patience
	}
	return 15 * time.Second
}

// take receives n deliveries within d.
func (b *bench) take(s broker.Source, n int, d time.Duration) []broker.Delivery {
	ctx, cancel := context.WithTimeout(b.ctx, d)
	defer cancel()
	var ds []broker.Delivery
	for len(ds) < n {
		got, err := s.Receive(ctx, n-len(ds))
		if err != nil {
			b.fail("waiting for delivery %d of %d: %w", len(ds)+1, n, err)
		}
		if len(got) == 0 || len(got) > n-len(ds) {
			b.fail("Receive with limit %d returned %d deliveries", n-len(ds), len(got))
		}
		ds = append(ds, got...)
	}
	return ds
}

// one receives one delivery from the first source.
func (b *bench) one() broker.Delivery { return b.take(b.sources[0], 1, b.patience())[0] }

// none demands that nothing comes for d.
func (b *bench) none(s broker.Source, d time.Duration, why string) {
	ctx, cancel := context.WithTimeout(b.ctx, d)
	defer cancel()
	ds, err := s.Receive(ctx, 10)
	if len(ds) > 0 {
		n, again := ds[0].Attempt()
		b.fail("%s: a message came (attempt %d, redelivered %v)", why, n, again)
	}
	if err != nil && ctx.Err() == nil {
		b.fail("%s: Receive: %w", why, err)
	}
}

func (b *bench) message(d broker.Delivery) *yekbar.Message {
	m, err := d.Message()
	b.must(err, "Message")
	return m
}

func (b *bench) ack(ds ...broker.Delivery) {
	for _, d := range ds {
		b.must(d.Ack(b.ctx), "Ack")
	}
}

// afterLease is when an unsettled delivery must have come again.
func (b *bench) afterLease() time.Duration { return b.caps.Lease + b.patience() }

// RunOutage runs only what stops the broker, for brokers that Run's parallel
// tests share. Stop and Start are required.
func RunOutage(t *testing.T, open func(t *testing.T) *Fixture) {
	for _, c := range checks {
		if c.outage {
			t.Run(c.name, func(t *testing.T) { runCheck(t, c, open) })
		}
	}
}
