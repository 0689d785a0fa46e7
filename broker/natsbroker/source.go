package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/broker"
)

const (
	// pullExpires is how long one request for a message waits at the server.
	pullExpires = 30 * time.Second
	// pullHeartbeat shows that the server still has the request.
	pullHeartbeat = 5 * time.Second
	// callTimeout bounds calls of the server's API.
	callTimeout = 5 * time.Second
	// ackTimeout bounds the wait for the server's answer to an
	// acknowledgement. It gives none for a delivery that it doesn't know,
	// such as one from before it was killed.
	ackTimeout = 2 * time.Second
)

// SourceConfig configures a Source; Stream and Durable are required.
type SourceConfig struct {
	// Stream is the stream's name, Durable that of its pull consumer. All
	// sources of one durable consumer share its messages.
	Stream, Durable string
	// Subjects filter the stream; default all of it. EnsureConsumer uses it.
	Subjects []string
	// AckWait is the lease of a delivery; default 30 s. EnsureConsumer uses
	// it; a Source takes it from the consumer.
	AckWait time.Duration
	// MaxDeliver is the server's own limit of deliveries; default none.
	// EnsureConsumer uses it.
	MaxDeliver int
	// MaxAckPending is how many deliveries may be unsettled in all processes
	// together; default the server's, 1000. EnsureConsumer uses it.
	MaxAckPending int
}

// Validate reports all problems at once.
func (c SourceConfig) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("yekbar/broker/natsbroker: SourceConfig."+format, args...))
	}
	if c.Stream == "" {
		bad("Stream is empty: name the stream")
	}
	if c.Durable == "" {
		bad("Durable is empty: name the consumer; the name must stay the same over restarts")
	}
	if c.AckWait < 0 || c.AckWait > 0 && c.AckWait < 10*time.Millisecond {
		bad("AckWait is %v: use at least 10 ms, or 0 for %v", c.AckWait, defaultAckWait)
	}
	if c.MaxAckPending < 0 {
		bad("MaxAckPending is %d: it can't be negative; 0 means the server's default", c.MaxAckPending)
	}
	return errors.Join(errs...)
}

// A Source receives from a durable pull consumer. The connection stays the
// caller's to close, after the source.
type Source struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	config   SourceConfig
	caps     broker.Capabilities

	receiving chan struct{} // holds one token: who has it asks the server
	ctx       context.Context
	cancel    context.CancelFunc
	status    chan nats.Status
	watching  sync.WaitGroup         // reads status
	wait      jetstream.MessageBatch // the request for one message that waits at the server; with the token
	stopWait  context.CancelFunc

	mu     sync.Mutex
	closed bool
	held   map[*delivery]struct{}
	link   context.Context // ends with the next loss of the connection
	unlink context.CancelFunc
}

var _ broker.Source = (*Source)(nil)

// NewSource binds to a durable pull consumer that is there (see
// EnsureConsumer), and refuses one that is not fit.
func NewSource(ctx context.Context, js jetstream.JetStream, c SourceConfig) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	consumer, err := js.Consumer(ctx, c.Stream, c.Durable)
	if err != nil {
		return nil, problem(js, err, "consumer %q of the stream %q", c.Durable, c.Stream)
	}
	info := consumer.CachedInfo().Config
	if err := unfit(c, info); err != nil {
		return nil, err
	}
	many, err := manySubjects(ctx, js, c.Stream, info)
	if err != nil {
		return nil, err
	}
	s := &Source{
		nc:        js.Conn(),
		js:        js,
		consumer:  consumer,
		config:    c,
		caps:      capabilities(c, info, many),
		receiving: make(chan struct{}, 1),
		held:      map[*delivery]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.link, s.unlink = context.WithCancel(s.ctx)
	s.status = s.nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	s.watching.Go(s.watch)
	s.receiving <- struct{}{}
	return s, nil
}

// watch ends s.link at each loss of the connection.
func (s *Source) watch() {
	for range s.status {
		s.mu.Lock()
		s.unlink()
		s.link, s.unlink = context.WithCancel(s.ctx) //nolint:fatcontext // the one before has just ended
		s.mu.Unlock()
	}
}

// linked returns a context that ends with the next loss of the connection, or
// false when there is none.
func (s *Source) linked() (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link, s.nc.IsConnected()
}

func unfit(c SourceConfig, info jetstream.ConsumerConfig) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("yekbar/broker/natsbroker: the consumer %q of the stream %q "+format, append([]any{c.Durable, c.Stream}, args...)...)
	}
	switch {
	case info.AckPolicy != jetstream.AckExplicitPolicy:
		return bad("has the acknowledgement policy %v: a consumer with explicit acknowledgements is needed (EnsureConsumer creates one)", info.AckPolicy)
	case len(info.BackOff) > 0:
		return bad("has BackOff, which replaces AckWait by another wait for each delivery: remove it; the worker has its own backoff")
	}
	return nil
}

// manySubjects reports whether messages of several subjects can come.
func manySubjects(ctx context.Context, js jetstream.JetStream, stream string, info jetstream.ConsumerConfig) (bool, error) {
	subjects := info.FilterSubjects
	if info.FilterSubject != "" {
		subjects = []string{info.FilterSubject}
	}
	if len(subjects) == 0 {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return false, problem(js, err, "stream %q", stream)
		}
		subjects = s.CachedInfo().Config.Subjects
	}
	return len(subjects) != 1 || !literal(subjects[0]), nil
}

func capabilities(c SourceConfig, info jetstream.ConsumerConfig, many bool) broker.Capabilities {
	return broker.Capabilities{
		StableID:    true,
		Counts:      true,
		NackDelay:   true,
		Lease:       info.AckWait,
		Extendable:  true,
		Order:       broker.Unordered, // redeliveries come late, and consumers share
		ConfirmsAck: true,
		ManyTopics:  many,
		MaxAttempts: max(info.MaxDeliver, 0),

		Subscription: "nats " + c.Stream + "/" + c.Durable,
	}
}

// Capabilities declares what the consumer does. Redelivery is unknown: an
// unacknowledged message comes again for as long as the stream keeps it.
func (s *Source) Capabilities() broker.Capabilities { return s.caps }

// Receive waits for one message, then takes what else is there, up to limit.
// Calls at the same time take turns.
func (s *Source) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	if limit < 1 {
		return nil, fmt.Errorf("yekbar/broker/natsbroker: Receive with limit %d: at least 1 is needed", limit)
	}
	select {
	case <-s.receiving:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, broker.ErrClosed
	}
	defer func() { s.receiving <- struct{}{} }()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case s.ctx.Err() != nil || s.nc.IsClosed():
		return nil, broker.ErrClosed
	}
	ds, err := s.take(ctx, limit)
	if err != nil {
		return nil, s.receiveProblem(ctx, err)
	}
	return ds, nil
}

// take receives; the token is held.
func (s *Source) take(ctx context.Context, limit int) ([]broker.Delivery, error) {
	if s.wait == nil { // else one is on its way to that request
		ds, err := s.takeNow(limit)
		if err != nil || len(ds) > 0 {
			return ds, err
		}
	}
	for {
		first, err := s.takeOne(ctx)
		if err != nil {
			return nil, err
		}
		if first == nil {
			continue // the request expired
		}
		ds := []broker.Delivery{first}
		if limit == 1 {
			return ds, nil
		}
		more, err := s.takeNow(limit - 1)
		if err != nil {
			return ds, nil //nolint:nilerr // the next Receive meets the error, if it lasts
		}
		return append(ds, more...), nil
	}
}

// takeNow takes what is there, without waiting for more. It does not heed the
// caller's context: what the server has sent must not be lost to an AckWait.
func (s *Source) takeNow(limit int) ([]broker.Delivery, error) {
	link, ok := s.linked()
	if !ok {
		return nil, broker.ErrOutage
	}
	batch, err := s.consumer.FetchNoWait(limit)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	var ds []broker.Delivery
	for {
		select {
		case m, ok := <-batch.Messages():
			if !ok {
				if len(ds) > 0 {
					return ds, nil
				}
				return nil, batch.Error()
			}
			ds = append(ds, s.deliver(m))
			continue
		case <-link.Done():
		case <-timeout.C:
		}
		// The answer is not coming. What did come is delivered; what is
		// still on its way comes again after its AckWait.
		if len(ds) > 0 {
			return ds, nil
		}
		return nil, broker.ErrOutage
	}
}

// takeOne waits at the server for one message. When ctx ends first, the
// request stays for the next call, so that its message is not lost to an
// AckWait. It returns nil when the request expired.
func (s *Source) takeOne(ctx context.Context) (broker.Delivery, error) {
	if s.wait == nil {
		link, ok := s.linked()
		if !ok {
			return nil, broker.ErrOutage
		}
		// The server forgets the requests of a lost connection.
		waiting, stop := context.WithTimeout(link, pullExpires)
		batch, err := s.consumer.Fetch(1, jetstream.FetchContext(waiting), jetstream.FetchHeartbeat(pullHeartbeat))
		if err != nil {
			stop()
			return nil, err
		}
		s.wait, s.stopWait = batch, stop
	}
	select {
	case m, ok := <-s.wait.Messages():
		err := s.wait.Error()
		s.endWait()
		switch {
		case ok:
			return s.deliver(m), nil
		case s.ctx.Err() != nil:
			return nil, broker.ErrClosed
		case errors.Is(err, context.Canceled):
			return nil, broker.ErrOutage
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
			return nil, nil
		}
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Source) endWait() {
	s.stopWait()
	s.wait, s.stopWait = nil, nil
}

// giveBackWait ends the request, and gives back a message that came to it.
func (s *Source) giveBackWait() {
	if s.wait == nil {
		return
	}
	batch := s.wait
	s.endWait()
	for m := range batch.Messages() {
		// Best effort: when it fails, the server waits for AckWait.
		_ = m.Nak()
	}
}

func (s *Source) receiveProblem(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.ctx.Err() != nil || errors.Is(err, broker.ErrClosed):
		return broker.ErrClosed
	case errors.Is(err, broker.ErrOutage):
		return fmt.Errorf("yekbar/broker/natsbroker: consumer %q of the stream %q: %w", s.config.Durable, s.config.Stream, err)
	case errors.Is(err, nats.ErrNoResponders):
		// The consumer is gone, or its server is.
		if gone := s.gone(ctx); gone != nil {
			err = gone
		}
	}
	return problem(s.js, err, "consumer %q of the stream %q", s.config.Durable, s.config.Stream)
}

// gone asks whether the consumer is there; it returns nil when that is unknown.
func (s *Source) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.consumer.Info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return nil
}

// Close gives back what is not settled. The connection stays open.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	rest := make([]*delivery, 0, len(s.held))
	for d := range s.held {
		rest = append(rest, d)
	}
	s.mu.Unlock()

	s.cancel()
	<-s.receiving // a Receive that is under way ends, for s.ctx did
	s.giveBackWait()
	s.nc.RemoveStatusListener(s.status) // which closes it
	s.watching.Wait()

	for _, d := range rest {
		d.abandon()
	}
	if len(rest) == 0 || !s.nc.IsConnected() {
		return nil // the server delivers them again after AckWait
	}
	flush, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return problem(s.js, s.nc.FlushWithContext(flush), "giving back %d deliveries", len(rest))
}
