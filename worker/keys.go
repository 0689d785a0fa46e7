package worker

import (
	"context"
	"errors"
	"sync"

	"github.com/yekbar-go/yekbar"
)

// heldKeys are the ordering keys of which a message is held: later ones are
// parked behind it.
type heldKeys struct {
	mu   *sync.Mutex
	time uint64            // counts additions
	keys map[string]uint64 // when each was last added
}

func newHeldKeys() heldKeys { return heldKeys{mu: new(sync.Mutex), keys: map[string]uint64{}} }

func (k *heldKeys) add(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.time++
	k.keys[key] = k.time
}

func (k *heldKeys) has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, has := k.keys[key]
	return has
}

// now is to be asked before the stored keys are read.
func (k *heldKeys) now() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.time
}

// refresh takes over the stored keys, and forgets those that are stored no
// more, unless they were added since they were read.
func (k *heldKeys) refresh(stored []string, since uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := make(map[string]uint64, len(stored))
	for _, key := range stored {
		now[key] = since
	}
	for key, added := range k.keys {
		if added > since {
			now[key] = added
		}
	}
	k.keys = now
}

// behind parks a message behind an earlier one of its key that is held.
func (w *Worker) behind(ctx context.Context, j *job) (a answer, done bool) {
	if w.order != ByKey || j.held != nil || j.key == "" || !w.keys.has(j.key) || j.id() == "" {
		return answer{}, false
	}
	known, err := w.claimed(ctx, j.id())
	switch {
	case err != nil && absent(err):
		return answer{outage: err}, true
	case err != nil:
		w.log.Error("the claim of a message whose key is held can't be read", "message", j.name(), "error", err)
		return answer{v: stay(w.config.Backoff.Min)}, true
	case known:
		return answer{}, false // a repeat: Process answers it
	}
	return w.park(ctx, j, yekbar.ReasonBehindKey, 0, yekbar.Attempts{}), true
}

// claimed reports whether the consumer has a claim of a message.
func (w *Worker) claimed(ctx context.Context, id string) (bool, error) {
	if w.operator == nil {
		return false, nil
	}
	ctx, cancel := recording(ctx)
	defer cancel()
	_, err := w.operator.Claim(ctx, w.p.Name(), id)
	if errors.Is(err, yekbar.ErrNoClaim) {
		return false, nil
	}
	return err == nil, err
}
