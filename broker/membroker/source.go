package membroker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar/broker"
)

// Source subscribes to topics. All sources of one topic share its messages, as
// the workers of one consumer do.
func (b *Broker) Source(topics ...string) broker.Source {
	s := &source{broker: b, closed: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range topics {
		s.topics = append(s.topics, b.topic(name))
	}
	return s
}

type source struct {
	broker *Broker
	topics []*topic
	once   sync.Once
	closed chan struct{}
	turn   int // which topic is asked first; under broker.mu
}

func (s *source) Capabilities() broker.Capabilities {
	c := s.broker.config.Capabilities
	c.ManyTopics = c.ManyTopics || len(s.topics) > 1
	return c
}

func (s *source) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	if limit < 1 {
		return nil, fmt.Errorf("yekbar/broker/membroker: Receive with limit %d: at least 1 is needed", limit)
	}
	if err := s.slow(ctx); err != nil {
		return nil, err
	}
	for {
		ds, changed, err := s.take(ctx, limit)
		if err != nil || len(ds) > 0 {
			return ds, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closed:
			return nil, broker.ErrClosed
		}
	}
}

// slow waits as SlowReceive demands.
func (s *source) slow(ctx context.Context) error {
	s.broker.mu.Lock()
	d := s.broker.faults.slowReceive
	s.broker.mu.Unlock()
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return broker.ErrClosed
	}
}

func (s *source) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// take delivers what can be delivered now, or returns what to wait for.
func (s *source) take(ctx context.Context, limit int) ([]broker.Delivery, <-chan struct{}, error) {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case s.isClosed():
		return nil, nil, broker.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case b.faults.outage:
		return nil, nil, b.outage()
	}
	now := time.Now()
	var ds []broker.Delivery
	for i := range s.topics {
		t := s.topics[(s.turn+i)%len(s.topics)]
		for _, e := range b.next(t, limit-len(ds), now) {
			ds = append(ds, b.deliver(s, e))
		}
		if len(ds) == limit {
			break
		}
	}
	s.turn++
	return ds, b.changed, nil
}

// Close gives back what the source holds.
func (s *source) Close(context.Context) error {
	s.once.Do(func() {
		b := s.broker
		b.mu.Lock()
		defer b.mu.Unlock()
		close(s.closed)
		for _, t := range s.topics {
			for _, e := range t.all[t.done:] {
				if e.delivery == nil || e.delivery.source != s {
					continue
				}
				if e.state == held {
					e.delivery.lose()
				}
				b.release(e, 0)
			}
		}
	})
	return nil
}
