package membroker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// A delivery is one handing-out of an entry; its fields are under broker.mu.
type delivery struct {
	source   *source
	entry    *entry
	attempt  int
	again    bool
	settled  bool
	unheard  bool // acknowledged, but the reply was lost
	lost     chan struct{}
	lostDone bool
	lease    *time.Timer
}

// deliver hands an entry out; b.mu is held.
func (b *Broker) deliver(s *source, e *entry) *delivery {
	e.attempts++
	d := &delivery{source: s, entry: e, attempt: e.attempts, again: e.attempts > 1 || e.repeated, lost: make(chan struct{})}
	e.set(held, d)
	e.topic.counts.Deliveries++
	if l := b.config.Capabilities.Lease; l > 0 {
		d.lease = time.AfterFunc(l, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.expire(d)
		})
	}
	return d
}

// expire ends a delivery's lease; b.mu is held.
func (b *Broker) expire(d *delivery) {
	if d.entry.delivery != d || d.entry.state != held {
		return
	}
	d.lose()
	b.release(d.entry, 0)
}

// lose closes Lost; broker.mu is held.
func (d *delivery) lose() {
	if !d.lostDone {
		d.lostDone = true
		close(d.lost)
	}
	d.stop()
}

func (d *delivery) stop() {
	if d.lease != nil {
		d.lease.Stop()
	}
}

var errNotDecodable = errors.New("yekbar/broker/membroker: published raw, so there is no message to decode")

func (d *delivery) Message() (*yekbar.Message, error) {
	if d.entry.message == nil {
		return nil, errNotDecodable
	}
	return clone(d.entry.message), nil
}

func (d *delivery) Raw() []byte { return slices.Clone(d.entry.raw) }

func (d *delivery) Attempt() (int, bool) {
	if !d.source.broker.config.Capabilities.Counts {
		return 0, d.again
	}
	return d.attempt, d.again
}

// ReceivedAt implements broker.Stamped.
func (d *delivery) ReceivedAt() time.Time { return d.entry.at }

func (d *delivery) Coordinates() string {
	return fmt.Sprintf("%s %d", d.entry.topic.name, d.entry.number)
}

func (d *delivery) Lost() <-chan struct{} { return d.lost }

func (d *delivery) Ack(ctx context.Context) error {
	b := d.source.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.unheard && !d.settled {
		if b.faults.outage {
			return b.outage()
		}
		d.settled = true
		return nil
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	confirms := b.config.Capabilities.ConfirmsAck
	switch {
	case b.faults.outage && confirms:
		return b.outage()
	case b.faults.outage, b.faults.take(&b.faults.dropAcks):
		if confirms {
			return fmt.Errorf("%w: the acknowledgement was dropped", broker.ErrOutage)
		}
		d.settled = true // as far as the client can know
		return nil
	}
	b.ack(d)
	if confirms && b.faults.take(&b.faults.dropReplies) {
		d.unheard = true
		return fmt.Errorf("%w: the acknowledgement's reply was dropped", broker.ErrOutage)
	}
	d.settled = true
	return nil
}

// ack ends the entry, or starts one of its repeats; b.mu is held.
func (b *Broker) ack(d *delivery) {
	e := d.entry
	d.stop()
	if e.repeats == 0 && !e.repeated {
		e.repeats = b.faults.repeat
	}
	if e.repeats > 0 {
		e.repeats--
		e.repeated = true
		b.release(e, 0)
		return
	}
	if b.config.Capabilities.AckInOrder {
		e.set(ackedBehind, d)
		e.topic.commitPrefix()
		return
	}
	e.set(acked, nil)
	e.topic.skipDone()
}

func (d *delivery) Nack(ctx context.Context, delay time.Duration) error {
	b := d.source.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := d.open(ctx); err != nil {
		return err
	}
	if b.faults.outage {
		return b.outage()
	}
	if d.unheard {
		return broker.ErrLost
	}
	d.settled = true
	d.stop()
	if !b.config.Capabilities.NackDelay {
		delay = 0
	}
	b.release(d.entry, delay)
	return nil
}

func (d *delivery) Extend(ctx context.Context) error {
	b := d.source.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := d.open(ctx); err != nil {
		return err
	}
	switch {
	case !b.config.Capabilities.Extendable:
		return fmt.Errorf("yekbar/broker/membroker: Extend: %w", errors.ErrUnsupported)
	case b.faults.outage:
		return b.outage()
	}
	if d.lease != nil {
		d.lease.Reset(b.config.Capabilities.Lease)
	}
	return nil
}

// open says why the delivery can't be settled or extended; broker.mu is held.
func (d *delivery) open(ctx context.Context) error {
	switch {
	case d.settled:
		return broker.ErrSettled
	case d.lostDone:
		return broker.ErrLost
	}
	return ctx.Err()
}

// clone copies a message with all it points to.
func clone(m *yekbar.Message) *yekbar.Message {
	c := *m
	c.Payload = slices.Clone(m.Payload)
	c.Header = make(yekbar.Header, len(m.Header))
	for i, f := range m.Header {
		c.Header[i] = yekbar.HeaderField{Name: f.Name, Value: slices.Clone(f.Value)}
	}
	return &c
}

// encode returns the bytes that stand for a message on this broker's wire:
// every part with its length in front.
func encode(m *yekbar.Message) []byte {
	var raw []byte
	part := func(s string) {
		raw = binary.AppendUvarint(raw, uint64(len(s)))
		raw = append(raw, s...)
	}
	for _, s := range []string{m.ID, m.Source, m.Type, m.Subject, m.Time.UTC().Format(time.RFC3339Nano), m.Topic, m.OrderingKey} {
		part(s)
	}
	for _, f := range m.Header {
		part(f.Name)
		part(string(f.Value))
	}
	return append(raw, m.Payload...)
}
