package worker

import (
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

// service is what an attempt found out about the database.
type service uint8

const (
	unclear service = iota // nothing: it never came to the database
	serves
	away
)

// probeBackoff is the pause before each probe. It stays short, for it is how
// long the end of an outage may go unnoticed.
var probeBackoff = yekbar.Backoff{Min: 500 * time.Millisecond, Max: 15 * time.Second}

// A gate is shut while the database does not serve: then one attempt at a time
// passes, after a pause that grows.
type gate struct {
	probe chan struct{} // holds one token: who has it may probe

	mu       *sync.Mutex
	reopened chan struct{} // nil while open; closed when it opens again
	failures int
}

func newGate() gate {
	g := gate{probe: make(chan struct{}, 1), mu: new(sync.Mutex)}
	g.probe <- struct{}{}
	return g
}

// shut returns nil while the gate is open, else a channel that is closed when
// it opens.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reopened
}

// enter waits until an attempt may be made, or returns false when stop or lost
// came first. leave must be called with what the attempt found out, and
// reports whether that opened or shut the gate.
func (g *gate) enter(stop, lost <-chan struct{}) (leave func(service) (changed bool), probing, ok bool) {
	for {
		reopened := g.shut()
		if reopened == nil {
			return func(s service) bool { return g.learn(s, false) }, false, true
		}
		select {
		case <-reopened:
			continue
		case <-stop:
			return func(service) bool { return false }, false, false
		case <-lost:
			return func(service) bool { return false }, false, false
		case <-g.probe:
		}
		leave := func(s service) bool {
			changed := g.learn(s, true)
			g.probe <- struct{}{}
			return changed
		}
		g.mu.Lock()
		wait := probeBackoff.Pause(g.failures)
		g.mu.Unlock()
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			return leave, true, true
		case <-reopened: // by one that was under way before
			t.Stop()
			leave(unclear)
		case <-stop:
			t.Stop()
			return leave, true, false
		case <-lost:
			t.Stop()
			return leave, true, false
		}
	}
}

func (g *gate) learn(s service, probing bool) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case s == away && g.reopened == nil:
		g.reopened, g.failures = make(chan struct{}), 1
		return true
	case s == away && probing:
		g.failures++
	case s == serves && g.reopened != nil:
		close(g.reopened)
		g.reopened = nil
		return true
	}
	return false
}
