package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

type registered struct {
	subscription string
	renamedTo    string
	pruning      schema.Pruning
	paused       bool
	pausedBy     yekbar.Actor
	pausedAt     time.Time
}

// consumer is called with the lock held.
func (s *Store) consumer(name string) registered {
	if c, ok := s.consumers[name]; ok {
		return c
	}
	return registered{pruning: schema.Pruning{FirstSeen: s.now()}}
}

// Register implements yekbar.RegistryStore.
func (s *Store) Register(ctx context.Context, r yekbar.Registration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: register consumer %q: %w", r.Consumer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.consumer(r.Consumer)
	switch {
	case c.renamedTo != "":
		return &yekbar.RenamedError{Consumer: r.Consumer, Now: c.renamedTo}
	case c.subscription != "" && r.Subscription != "" && c.subscription != r.Subscription:
		return &yekbar.SubscriptionError{Consumer: r.Consumer, Stored: c.subscription, Subscription: r.Subscription}
	case r.Subscription != "":
		c.subscription = r.Subscription
	}
	for _, former := range r.FormerNames {
		if to := s.consumers[former].renamedTo; to != "" && to != r.Consumer && !slices.Contains(r.FormerNames, to) {
			return &yekbar.RenamedError{Consumer: former, Now: to}
		}
	}
	for _, former := range r.FormerNames {
		if former != r.Consumer && s.consumers[former].renamedTo == "" {
			c = s.takeOver(former, r.Consumer, c)
		}
	}
	s.consumers[r.Consumer] = c
	return nil
}

// takeOver moves all that is stored under a former name. Of a message that
// both claimed, the applied claim stays, else that of the new name.
func (s *Store) takeOver(former, name string, c registered) registered {
	for k, old := range s.claims {
		if k.consumer != former {
			continue
		}
		to := claimKey{name, k.messageID}
		switch own, both := s.claims[to]; {
		case !both:
			s.claims[to] = old
			if h, ok := s.held[k]; ok {
				h.Consumer = name
				s.held[to] = h
			}
			if t, ok := s.attempts[k]; ok {
				s.attempts[to] = t
			}
		case old.state == yekbar.StateApplied && own.state != yekbar.StateApplied:
			s.claims[to] = old
			delete(s.held, to)
			delete(s.attempts, to)
		}
		delete(s.claims, k)
		delete(s.held, k)
		delete(s.attempts, k)
	}
	for k, t := range s.attempts {
		if k.consumer == former {
			if _, ok := s.attempts[claimKey{name, k.messageID}]; !ok {
				s.attempts[claimKey{name, k.messageID}] = t
			}
			delete(s.attempts, k)
		}
	}
	positions := maps.Clone(s.positions[former])
	if positions == nil {
		positions = map[string]string{}
	}
	maps.Copy(positions, s.positions[name])
	s.positions[name] = positions
	delete(s.positions, former)

	f := s.consumer(former)
	c.pruning = c.pruning.Merge(f.pruning)
	if f.paused && !c.paused {
		c.paused, c.pausedBy, c.pausedAt = true, f.pausedBy, f.pausedAt
	}
	for n, other := range s.consumers {
		if other.renamedTo == former {
			other.renamedTo = name
			s.consumers[n] = other
		}
	}
	f.renamedTo = name
	s.consumers[former] = f
	return c
}

// ConfirmSubscription implements yekbar.RegistryStore.
func (s *Store) ConfirmSubscription(_ context.Context, consumer, subscription string, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.consumer(consumer)
	c.subscription = subscription
	s.consumers[consumer] = c
	s.log(yekbar.AuditEntry{Action: "confirm", Consumer: consumer, By: by})
	return nil
}

// SavePositions implements yekbar.PositionStore.
func (s *Store) SavePositions(_ context.Context, consumer string, positions map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.positions[consumer] == nil {
		s.positions[consumer] = map[string]string{}
	}
	maps.Copy(s.positions[consumer], positions)
	return nil
}

// Positions implements yekbar.PositionStore.
func (s *Store) Positions(_ context.Context, consumer string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.positions[consumer]), nil
}
