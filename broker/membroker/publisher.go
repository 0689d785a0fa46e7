package membroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// Publisher publishes.
func (b *Broker) Publisher() broker.Publisher { return &publisher{broker: b} }

type publisher struct {
	broker *Broker
	closed atomic.Bool
}

func (p *publisher) MaxSize() int { return p.broker.config.MaxSize }

func (p *publisher) Publish(ctx context.Context, ms []*yekbar.Message) error {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case p.closed.Load():
		return broker.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case b.faults.outage:
		return b.outage()
	}
	result := &broker.PublishError{Failed: map[int]error{}}
	for i, m := range ms {
		if err := b.publish(m); err != nil {
			result.Failed[i] = err
		} else {
			result.Confirmed = append(result.Confirmed, i)
		}
	}
	b.wake()
	if len(result.Failed) > 0 {
		return result
	}
	return nil
}

func (b *Broker) publish(m *yekbar.Message) error {
	switch {
	case m == nil:
		return yekbar.Permanent(errors.New("yekbar/broker/membroker: the message is nil"))
	case !b.exists(m.Topic):
		return fmt.Errorf("%w: no topic %q", broker.ErrUnroutable, m.Topic)
	case len(m.Payload) > b.config.MaxSize:
		return fmt.Errorf("%w: %d bytes, %d are allowed", broker.ErrTooLarge, len(m.Payload), b.config.MaxSize)
	}
	t := b.topic(m.Topic)
	c := clone(m)
	t.all = append(t.all, &entry{topic: t, number: len(t.all) + 1, message: c, raw: encode(c), at: time.Now()})
	return nil
}

// PublishRaw publishes bytes that no message can be decoded from.
func (b *Broker) PublishRaw(name string, raw []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topic(name)
	t.all = append(t.all, &entry{topic: t, number: len(t.all) + 1, raw: slices.Clone(raw), at: time.Now()})
	b.wake()
}

func (p *publisher) Close(context.Context) error {
	p.closed.Store(true)
	return nil
}
