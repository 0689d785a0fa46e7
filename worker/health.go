package worker

import (
	"errors"
	"fmt"
	"sync"
)

// health is what is wrong now, by what it is about.
type health struct {
	mu       *sync.Mutex
	problems map[string]error
}

// healthTopics are in the order in which Health names them.
var healthTopics = []string{"database", "broker", "stuck", "hold", "parked", "prune", "positions"}

func newHealth() health { return health{mu: new(sync.Mutex), problems: map[string]error{}} }

// set notes a problem, and reports whether there was none of its kind.
func (h *health) set(topic string, err error) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = h.problems[topic] == nil
	h.problems[topic] = err
	return first
}

func (h *health) clear(topic string) { h.clearIf(topic, true) }

func (h *health) clearIf(topic string, over bool) {
	if !over {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.problems, topic)
}

// Health returns nil, or what is wrong now, all of it: the database or the
// broker is away, the database is not fit for the consumer, handlers are stuck,
// a message can't be taken over, old claims can't be deleted. A consumer that a
// person paused is healthy. It asks nobody, so it may be called often.
func (w *Worker) Health() error {
	w.health.mu.Lock()
	defer w.health.mu.Unlock()
	var errs []error
	for _, topic := range healthTopics {
		if err := w.health.problems[topic]; err != nil {
			errs = append(errs, fmt.Errorf("yekbar/worker: consumer %q: %s: %w", w.p.Name(), topic, err))
		}
	}
	return errors.Join(errs...)
}
