package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// headerRoom is what MaxSize leaves for headers.
const headerRoom = 4 << 10

// PublisherConfig configures a Publisher; the zero value is ready for use.
type PublisherConfig struct {
	// Stream is where messages must arrive; one that another stream takes
	// then fails. Default: any stream.
	Stream string
	// Window is how many messages may be unconfirmed at once; default 256.
	Window int
	// AcceptRepeats leaves out the header Nats-Msg-Id. By default it has the
	// subject and the message's identity, and the server drops a repeat
	// within its window (2 minutes unless the stream says otherwise), and
	// confirms it: a message that is sent again on purpose within that time
	// is swallowed. With AcceptRepeats it is stored again, and so is what is
	// sent again because a confirmation was lost; a consumer of Yekbar
	// applies it once either way.
	AcceptRepeats bool
}

// A Publisher publishes to the subject that a message's Topic names, with the
// CloudEvents attributes as headers. The connection stays the caller's.
type Publisher struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	config PublisherConfig
	window chan struct{}

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // of Publish
	aborted chan struct{}  // closed when Close waits no longer for them
	abort   sync.Once
}

var _ broker.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher; it connects to nothing.
func NewPublisher(js jetstream.JetStream, c PublisherConfig) (*Publisher, error) {
	if c.Window < 0 {
		return nil, fmt.Errorf("yekbar/broker/natsbroker: PublisherConfig.Window is %d: it can't be negative; 0 means 256", c.Window)
	}
	if c.Window == 0 {
		c.Window = 256
	}
	return &Publisher{nc: js.Conn(), js: js, config: c, window: make(chan struct{}, c.Window), aborted: make(chan struct{})}, nil
}

// MaxSize is the server's limit less 4 KiB, which headers may use: it counts
// them too. It is 0 before the first connection.
func (p *Publisher) MaxSize() int { return max(int(p.nc.MaxPayload())-headerRoom, 0) }

// Publish sends in order and waits for all confirmations. A message may have
// been stored although its confirmation failed.
func (p *Publisher) Publish(ctx context.Context, ms []*yekbar.Message) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	defer p.calls.Done()
	lost := p.nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer p.nc.RemoveStatusListener(lost)
	if !p.nc.IsConnected() {
		return problem(p.js, broker.ErrOutage, "publishing %d messages", len(ms))
	}

	// Confirmations are awaited in the order of sending; a loss of the
	// connection ends the wait for all of them.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-lost:
			cancel(broker.ErrOutage)
		case <-p.aborted:
			cancel(broker.ErrClosed)
		case <-ctx.Done():
		}
	}()
	errs := p.send(ctx, ms)
	cancel(nil)
	<-watched
	return p.result(ms, errs)
}

func (p *Publisher) begin(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return broker.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	p.calls.Add(1)
	return nil
}

// send returns the error of each message.
func (p *Publisher) send(ctx context.Context, ms []*yekbar.Message) []error {
	errs := make([]error, len(ms))
	type sent struct {
		index  int
		future jetstream.PubAckFuture
	}
	under := make(chan sent, p.config.Window)
	var waiter sync.WaitGroup
	waiter.Go(func() {
		for s := range under {
			errs[s.index] = confirmed(ctx, s.future)
			<-p.window
		}
	})
	for i, m := range ms {
		select {
		case p.window <- struct{}{}:
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
			continue
		}
		future, err := p.start(m)
		if err != nil {
			errs[i] = err
			<-p.window
			continue
		}
		under <- sent{i, future}
	}
	close(under)
	waiter.Wait()
	return errs
}

func (p *Publisher) start(m *yekbar.Message) (jetstream.PubAckFuture, error) {
	if m == nil {
		return nil, yekbar.Permanent(errors.New("the message is nil"))
	}
	msg, err := p.encode(m)
	if err != nil {
		return nil, yekbar.Permanent(err)
	}
	if limit := p.nc.MaxPayload(); limit > 0 && int64(msg.Size()-len(msg.Subject)) > limit {
		return nil, fmt.Errorf("%w: %d bytes with headers, the server allows %d", broker.ErrTooLarge, msg.Size()-len(msg.Subject), limit)
	}
	var options []jetstream.PublishOpt
	if p.config.Stream != "" {
		options = append(options, jetstream.WithExpectStream(p.config.Stream))
	}
	return p.js.PublishMsgAsync(msg, options...)
}

func confirmed(ctx context.Context, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-ctx.Done():
	}
	// What was confirmed in the last moment counts.
	select {
	case <-f.Ok():
		return nil
	default:
		return context.Cause(ctx)
	}
}

// result makes a *broker.PublishError of the failed ones.
func (p *Publisher) result(ms []*yekbar.Message, errs []error) error {
	r := &broker.PublishError{Failed: map[int]error{}}
	for i, err := range errs {
		if err == nil {
			r.Confirmed = append(r.Confirmed, i)
			continue
		}
		r.Failed[i] = p.publishProblem(ms[i], err)
	}
	if len(r.Failed) == 0 {
		return nil
	}
	return r
}

func (p *Publisher) publishProblem(m *yekbar.Message, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, broker.ErrTooLarge), yekbar.IsPermanent(err):
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		err = fmt.Errorf("%w: %w", broker.ErrTooLarge, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		if p.nc.IsConnected() {
			err = fmt.Errorf("%w: no stream takes its subject (EnsureStream, or nats stream add): %w", broker.ErrUnroutable, err)
		}
	}
	topic := ""
	if m != nil {
		topic = m.Topic
	}
	return problem(p.js, err, "a message to %q", topic)
}

// Close waits for the Publish calls that are under way. When ctx ends first
// they end without their confirmations, and Close returns ctx.Err().
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { p.abort.Do(func() { close(p.aborted) }) })
	p.calls.Wait()
	if !stop() {
		return ctx.Err()
	}
	return nil
}
