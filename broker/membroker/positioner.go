package membroker

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

var _ broker.Positioner = (*source)(nil)

// Positions implements broker.Positioner: a topic is a partition, and its
// position is the number of messages before the first that is not
// acknowledged.
func (s *source) Positions(ctx context.Context) (map[string]string, error) {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reachable(ctx); err != nil {
		return nil, err
	}
	positions := map[string]string{}
	for _, t := range s.topics {
		t.skipDone()
		positions[t.name] = strconv.Itoa(t.done)
	}
	return positions, nil
}

func (b *Broker) reachable(ctx context.Context) error {
	if b.faults.outage {
		return b.outage()
	}
	return ctx.Err()
}

// Acknowledged implements broker.Positioner.
func (s *source) Acknowledged(ctx context.Context, from map[string]string, limit int) iter.Seq2[*yekbar.Message, error] {
	return func(yield func(*yekbar.Message, error) bool) {
		for _, t := range s.topics {
			ms, err := s.acknowledged(ctx, t, from[t.name], limit)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range ms {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

func (s *source) acknowledged(ctx context.Context, t *topic, from string, limit int) (ms []*yekbar.Message, err error) {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reachable(ctx); err != nil {
		return nil, err
	}
	t.skipDone()
	first, err := parsePosition(t.name, from)
	if err != nil {
		return nil, err
	}
	for i := t.done - 1; i >= first && len(ms) < limit; i-- {
		if e := t.all[i]; e.state == acked && e.message != nil {
			ms = append(ms, clone(e.message))
		}
	}
	return ms, nil
}

func parsePosition(topic, position string) (int, error) {
	if position == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(position)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("yekbar/broker/membroker: topic %q: %q is no position: a number of messages is needed", topic, position)
	}
	return n, nil
}

// Rewind implements broker.Positioner.
func (s *source) Rewind(ctx context.Context, positions map[string]string) error {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reachable(ctx); err != nil {
		return err
	}
	for _, t := range s.topics {
		position, ok := positions[t.name]
		if !ok {
			continue
		}
		n, err := parsePosition(t.name, position)
		if err != nil {
			return err
		}
		for _, e := range t.all[min(n, len(t.all)):] {
			if e.state == acked || e.state == exhausted {
				e.set(waiting, nil)
			}
		}
		t.done = min(t.done, n)
	}
	b.wake()
	return nil
}
