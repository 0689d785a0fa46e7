package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/worker"
)

// plain is what a processor says of itself that has no store.
type plain struct{}

func (plain) Name() string             { return "inventory" }
func (plain) Unwrap() any              { return nil }
func (plain) Scoped() bool             { return true }
func (plain) Timeout() time.Duration   { return 10 * time.Second }
func (plain) Retention() time.Duration { return yekbar.KeepForever }

func (plain) Identify(m *yekbar.Message) (yekbar.Claim, error) {
	id, err := m.Identity()
	return yekbar.Claim{MessageID: id}, err
}

func (plain) ProcessBatch(context.Context, []*yekbar.Message) []yekbar.BatchResult {
	panic("the worker processes one message at a time here")
}

func (plain) ProcessHeld(context.Context, *yekbar.HeldMessage) (yekbar.Result, error) {
	panic("nothing is held without a store")
}

// counting is a processor that remembers IDs, as a claim would.
type counting struct {
	plain
	slow time.Duration

	mu        sync.Mutex
	applied   map[string]bool
	processed int
	changed   chan struct{} // gets a value after each message
}

func newCounting() *counting {
	return &counting{applied: map[string]bool{}, changed: make(chan struct{}, 1)}
}

func (c *counting) Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error) {
	if c.slow > 0 {
		select {
		case <-time.After(c.slow):
		case <-ctx.Done():
			return yekbar.Result{}, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processed++
	r := yekbar.Result{Outcome: yekbar.Applied}
	if c.applied[m.ID] {
		r.Outcome = yekbar.Duplicate
	}
	c.applied[m.ID] = true
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return r, nil
}

func (c *counting) counts() (applied, processed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.applied), c.processed
}

// until waits until n messages are applied.
func (c *counting) until(t testing.TB, n int, longest time.Duration) {
	t.Helper()
	timeout := time.After(longest)
	for {
		if have, _ := c.counts(); have >= n {
			return
		}
		select {
		case <-c.changed:
		case <-timeout:
			have, _ := c.counts()
			t.Fatalf("after %v, %d messages are applied, want %d", longest, have, n)
		}
	}
}

func startWorker(t testing.TB, s broker.Source, p worker.Processor, c worker.Config) (w *worker.Worker, stop func() error) {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w, err := worker.New(s, p, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return w, stop
}

func unacknowledged(t testing.TB, s *natsSubscription) (held int, waiting uint64) {
	t.Helper()
	c, err := s.js.Consumer(t.Context(), s.config.Stream, s.config.Durable)
	if err != nil {
		t.Fatal(err)
	}
	info := c.CachedInfo()
	return info.NumAckPending, info.NumPending
}

// TestNATSBrokerSurvivesRestarts kills the server twenty times under a worker
// with messages in flight: nothing is lost, one consumer is left, and as many
// goroutines as before.
func TestNATSBrokerSurvivesRestarts(t *testing.T) {
	server := servers.StartNATS(t, servers.Options{})
	s := subscribeNATS(t, server.URL(), time.Second)
	p, err := natsbroker.NewPublisher(s.js, natsbroker.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// The client library starts a goroutine of its own at the first publish.
	publishThrough(t, p, []*yekbar.Message{{ID: "first", Topic: s.subject}})
	before := runtime.NumGoroutine()
	processor := newCounting()
	processor.slow = 5 * time.Millisecond
	w, stop := startWorker(t, s.source(t), processor, worker.Config{})

	const rounds, each = 20, 50
	published := 1
	for round := range rounds {
		ms := make([]*yekbar.Message, each)
		for i := range ms {
			ms[i] = &yekbar.Message{ID: fmt.Sprintf("m-%d-%d", round, i), Topic: s.subject}
		}
		publishThrough(t, p, ms)
		published += each
		// At least one of this round is applied, others are in flight.
		processor.until(t, published-each+1, time.Minute)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	processor.until(t, published, time.Minute)
	if err := stop(); err != nil {
		t.Error(err)
	}
	applied, processed := processor.counts()
	t.Logf("%d restarts: %d messages, processed %d times; %+v", rounds, applied, processed, w.Stats())
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 100 {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
		<-time.After(20 * time.Millisecond)
	}
	stream, err := s.js.Stream(t.Context(), s.subject)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Consumers; n != 1 {
		t.Errorf("%d consumers are left on the server, want 1", n)
	}
}

// publishThrough publishes until all is confirmed, over outages.
func publishThrough(t testing.TB, p broker.Publisher, ms []*yekbar.Message) {
	t.Helper()
	for range 1000 {
		err := p.Publish(t.Context(), ms)
		if err == nil {
			return
		}
		var part *broker.PublishError
		if !errors.Is(err, broker.ErrOutage) && !errors.Is(err, broker.ErrUnroutable) {
			t.Fatal(err)
		}
		if errors.As(err, &part) {
			var rest []*yekbar.Message
			for i, m := range ms {
				if _, failed := part.Failed[i]; failed {
					rest = append(rest, m)
				}
			}
			ms = rest
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("could not publish")
}

// TestNATSBrokerSlowHandlers has handlers that take three times the wait for
// acknowledgements, and more messages held than run at once.
func TestNATSBrokerSlowHandlers(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), time.Second)
	s.publish(t, 8)
	processor := newCounting()
	processor.slow = 3 * time.Second
	w, stop := startWorker(t, s.source(t), processor, worker.Config{Concurrency: 4, Prefetch: 8})
	processor.until(t, 8, time.Minute)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, n := processor.counts(); n != 8 {
		t.Errorf("8 messages were processed %d times", n)
	}
	if st := w.Stats(); st.Received != 8 || st.Acked != 8 || st.Lost != 0 {
		t.Errorf("stats are %+v", st)
	}
	if held, waiting := unacknowledged(t, s); held != 0 || waiting != 0 {
		t.Errorf("%d are held and %d wait at the server", held, waiting)
	}
}

// TestNATSBrokerStaleAcknowledgement lets a lease end under a handler: the old
// delivery settles nothing, and the new one is still held.
func TestNATSBrokerStaleAcknowledgement(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), time.Second)
	s.publish(t, 1)
	old := receiveOne(t, s.source(t))
	<-old.Lost()
	other := s.source(t)
	current := receiveOne(t, other)
	if err := old.Ack(t.Context()); !errors.Is(err, broker.ErrLost) {
		t.Errorf("the stale Ack returned %v", err)
	}
	if held, _ := unacknowledged(t, s); held != 1 {
		t.Errorf("after the stale Ack %d deliveries are held, want 1", held)
	}
	if err := current.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	if held, _ := unacknowledged(t, s); held != 0 {
		t.Errorf("after the Ack %d deliveries are held", held)
	}
}

func receiveOne(t testing.TB, s broker.Source) broker.Delivery {
	t.Helper()
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ds, err := s.Receive(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	return ds[0]
}

// TestNATSBrokerHoldsNoMoreThanPrefetch has a backlog far beyond what may be
// held; the server counts what is.
func TestNATSBrokerHoldsNoMoreThanPrefetch(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), 30*time.Second)
	s.publish(t, 20_000)
	processor := newCounting()
	release := make(chan struct{})
	blocked := &blocking{counting: processor, release: release}
	w, stop := startWorker(t, s.source(t), blocked, worker.Config{Concurrency: 4, Prefetch: 12})
	for range 4 {
		blocked.began(t)
	}
	held, waiting := unacknowledged(t, s)
	if n := w.Stats().Held; held > 12 || n > 12 || waiting < 20_000-12 {
		t.Errorf("%d are held, of them %d by the worker, and %d wait, want at most 12 held", held, n, waiting)
	}
	close(release)
	processor.until(t, 20_000, 2*time.Minute)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if st := w.Stats(); st.Received != 20_000 || st.Acked != 20_000 {
		t.Errorf("stats are %+v", st)
	}
}

// blocking lets messages begin and then wait for release.
type blocking struct {
	*counting
	release chan struct{}
	once    sync.Once
	starts  chan struct{}
}

func (b *blocking) start() chan struct{} {
	b.once.Do(func() { b.starts = make(chan struct{}, 1<<20) })
	return b.starts
}

func (b *blocking) began(t testing.TB) {
	t.Helper()
	select {
	case <-b.start():
	case <-time.After(20 * time.Second):
		t.Fatal("no message began")
	}
}

func (b *blocking) Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error) {
	b.start() <- struct{}{}
	<-b.release
	return b.counting.Process(ctx, m)
}

func TestNATSBrokerConsumerDeletedEndsTheWorker(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), time.Second)
	w, err := worker.New(s.source(t), newCounting(), worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	if err := s.js.DeleteConsumer(t.Context(), s.config.Stream, s.config.Durable); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, broker.ErrOutage) || !strings.Contains(err.Error(), "inventory") {
			t.Errorf("Run returned %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the worker goes on without its consumer")
	}
}

func TestNATSBrokerRefusesWhatIsNotFit(t *testing.T) {
	url := servers.NATS(t)
	s := subscribeNATS(t, url, time.Second)
	missing := s.config
	missing.Stream = servers.UniqueName("none")
	if _, err := natsbroker.NewSource(t.Context(), s.js, missing); err == nil || !strings.Contains(err.Error(), "EnsureStream") {
		t.Errorf("a missing stream: %v", err)
	}
	missing = s.config
	missing.Durable = "none"
	if _, err := natsbroker.NewSource(t.Context(), s.js, missing); err == nil || !strings.Contains(err.Error(), "EnsureConsumer") {
		t.Errorf("a missing consumer: %v", err)
	}
	for _, c := range []jetstream.ConsumerConfig{
		{Durable: "all", AckPolicy: jetstream.AckAllPolicy},
		{Durable: "backoff", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 9, BackOff: []time.Duration{time.Second, time.Minute}},
	} {
		if _, err := s.js.CreateConsumer(t.Context(), s.subject, c); err != nil {
			t.Fatal(err)
		}
		unfit := s.config
		unfit.Durable = c.Durable
		if _, err := natsbroker.NewSource(t.Context(), s.js, unfit); err == nil || !strings.Contains(err.Error(), c.Durable) {
			t.Errorf("consumer %q: %v", c.Durable, err)
		}
	}
	if err := natsbroker.EnsureStream(t.Context(), s.js, jetstream.StreamConfig{Name: s.subject, Subjects: []string{"other." + s.subject}}); err == nil {
		t.Error("a stream without the subject is taken")
	}
	wide := servers.UniqueName("wide")
	if err := natsbroker.EnsureStream(t.Context(), s.js, jetstream.StreamConfig{Name: wide, Subjects: []string{wide + ".>"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.js.DeleteStream(context.Background(), wide) })
	c := natsbroker.SourceConfig{Stream: wide, Durable: "inventory", MaxDeliver: 5}
	if err := natsbroker.EnsureConsumer(t.Context(), s.js, c); err != nil {
		t.Fatal(err)
	}
	source, err := natsbroker.NewSource(t.Context(), s.js, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := source.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if caps := source.Capabilities(); !caps.ManyTopics || caps.MaxAttempts != 5 || caps.Lease != 30*time.Second {
		t.Errorf("capabilities are %+v", caps)
	}
}

// TestNATSBrokerRepeatedPublish shows both sides of the choice: the server
// swallows a repeat, or stores it.
func TestNATSBrokerRepeatedPublish(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), time.Second)
	for _, accept := range []bool{false, true} {
		p, err := natsbroker.NewPublisher(s.js, natsbroker.PublisherConfig{AcceptRepeats: accept, Stream: s.subject})
		if err != nil {
			t.Fatal(err)
		}
		m := &yekbar.Message{ID: fmt.Sprintf("m-%v", accept), Topic: s.subject, Payload: bytes.Repeat([]byte("x"), 10)}
		for range 3 {
			if err := p.Publish(t.Context(), []*yekbar.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, waiting := unacknowledged(t, s); waiting != 1+3 {
		t.Errorf("%d messages are stored, want 1 and 3", waiting)
	}
}
