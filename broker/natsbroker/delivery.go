package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// A delivery is bound to one delivery of the server: when its AckWait is over
// it settles nothing any more, for the server may have delivered it again.
type delivery struct {
	source      *Source
	msg         jetstream.Msg
	attempt     int
	coordinates string
	received    time.Time // by the stream
	lost        chan struct{}
	turn        chan struct{} // holds one token: who has it settles

	mu      sync.Mutex
	settled bool
	isLost  bool
	lease   *time.Timer
}

func (s *Source) deliver(m jetstream.Msg) *delivery {
	d := &delivery{source: s, msg: m, lost: make(chan struct{}), turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	if meta, err := m.Metadata(); err == nil {
		d.attempt = int(meta.NumDelivered)
		d.received = meta.Timestamp
		d.coordinates = fmt.Sprintf("%s %d", meta.Stream, meta.Sequence.Stream)
	}
	s.mu.Lock()
	s.held[d] = struct{}{}
	s.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.caps.Lease > 0 {
		d.lease = time.AfterFunc(s.ourLease(), d.lose)
	}
	return d
}

// ourLease is a little shorter than the server's: the server's clock began
// before the message was here.
func (s *Source) ourLease() time.Duration { return s.caps.Lease - s.caps.Lease/20 }

func (d *delivery) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isLost || d.settled {
		return
	}
	d.isLost = true
	close(d.lost)
	d.end()
}

// end forgets the delivery; d.mu is held.
func (d *delivery) end() {
	if d.lease != nil {
		d.lease.Stop()
	}
	d.source.mu.Lock()
	delete(d.source.held, d)
	d.source.mu.Unlock()
}

// state returns why the delivery can't be settled.
func (d *delivery) state() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.settled:
		return broker.ErrSettled
	case d.isLost:
		return broker.ErrLost
	}
	return nil
}

// settle lets one settling at a time try, and the first that succeeds end it.
func (d *delivery) settle(ctx context.Context, try func() error) error {
	if err := d.state(); err != nil {
		return err
	}
	select {
	case <-d.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	if err := d.state(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := try(); err != nil {
		return d.settleProblem(ctx, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isLost {
		d.settled = true
		d.end()
	}
	return nil
}

func (d *delivery) settleProblem(ctx context.Context, err error) error {
	if errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return broker.ErrSettled
	}
	if ctx.Err() != nil || errors.Is(err, broker.ErrLost) {
		return errors.Join(ctx.Err(), err)
	}
	return problem(d.source.js, err, "settling a delivery of the consumer %q", d.source.config.Durable)
}

// Ack returns when the server has confirmed. After an outage it is unknown
// whether the server has it, and Ack may be called again. A server that is
// there and doesn't answer does not know the delivery: it is lost.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(ctx, func() error {
		link, ok := d.source.linked()
		if !ok {
			return broker.ErrOutage
		}
		waiting, cancel := context.WithTimeout(ctx, ackTimeout)
		defer cancel()
		defer context.AfterFunc(link, cancel)()
		err := d.msg.DoubleAck(waiting)
		switch {
		case err == nil || ctx.Err() != nil:
		case link.Err() != nil:
			return fmt.Errorf("%w: %w", broker.ErrOutage, err)
		case errors.Is(err, context.DeadlineExceeded):
			d.lose()
			return fmt.Errorf("%w: the server did not answer the acknowledgement for %v", broker.ErrLost, ackTimeout)
		}
		return err
	})
}

// Nack gives it back. The server does not confirm it; if it is lost on the
// way, the message comes again after AckWait.
func (d *delivery) Nack(ctx context.Context, delay time.Duration) error {
	return d.settle(ctx, func() error {
		if !d.source.nc.IsConnected() {
			return broker.ErrOutage
		}
		return d.msg.NakWithDelay(delay)
	})
}

func (d *delivery) Extend(ctx context.Context) error {
	if err := d.state(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := broker.ErrOutage
	if d.source.nc.IsConnected() {
		err = d.msg.InProgress()
	}
	if err != nil {
		return problem(d.source.js, err, "extending a delivery of the consumer %q", d.source.config.Durable)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isLost {
		return broker.ErrLost
	}
	if d.lease != nil && !d.settled {
		d.lease.Reset(d.source.ourLease())
	}
	return nil
}

// abandon gives the delivery back because its source closes.
func (d *delivery) abandon() {
	select {
	case <-d.turn:
		defer func() { d.turn <- struct{}{} }()
		if d.state() == nil {
			// Best effort: when it fails, the server waits for AckWait.
			_ = d.msg.Nak()
		}
	default: // is being settled right now
	}
	d.lose()
}

// Coordinates returns the stream and the sequence in it.
func (d *delivery) Coordinates() string { return d.coordinates }

// ReceivedAt implements broker.Stamped: when the stream stored the message.
func (d *delivery) ReceivedAt() time.Time { return d.received }

func (d *delivery) Lost() <-chan struct{} { return d.lost }

func (d *delivery) Attempt() (int, bool) { return d.attempt, d.attempt > 1 }

func (d *delivery) Raw() []byte { return raw(d.msg) }

func (d *delivery) Message() (*yekbar.Message, error) {
	m, err := decode(d.msg)
	if err != nil {
		return nil, fmt.Errorf("yekbar/broker/natsbroker: a message of %q: %w", d.msg.Subject(), err)
	}
	return m, nil
}
