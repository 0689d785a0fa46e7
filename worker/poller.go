package worker

import (
	"context"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

const (
	// pollMin and pollMax bound the pause between looks at what is parked.
	pollMin = 100 * time.Millisecond
	pollMax = 5 * time.Second
	// keysEvery is how often the held keys are read, at most; and reading them
	// takes at most a tenth of the time.
	keysEvery = time.Second
	keysShare = 10
)

// A poller takes parked messages that are due.
type poller struct {
	wake   chan struct{} // look now
	sooner chan struct{} // the next look may have to be sooner

	mu     *sync.Mutex
	few    int                 // when no more are on their way, it looks again
	inHand map[string]struct{} // IDs of those that are on their way here
	due    time.Time           // of the next one that this worker knows of; zero: none
	keys   time.Time           // when the held keys are to be read next; the loop's own
}

func newPoller(few int) poller {
	return poller{few: few, wake: make(chan struct{}, 1), sooner: make(chan struct{}, 1), mu: new(sync.Mutex), inHand: map[string]struct{}{}}
}

// nudge says that one was parked, for delay.
func (p *poller) nudge(delay time.Duration) {
	at := time.Now().Add(max(delay, pollMin))
	p.mu.Lock()
	sooner := p.due.IsZero() || at.Before(p.due)
	if sooner {
		p.due = at
	}
	p.mu.Unlock()
	if sooner {
		signal(p.sooner)
	}
}

// signal wakes one who waits, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (p *poller) take(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.inHand[id]
	p.inHand[id] = struct{}{}
	return !has
}

func (p *poller) release(id string) {
	p.mu.Lock()
	delete(p.inHand, id)
	few := len(p.inHand) <= p.few
	p.mu.Unlock()
	if few {
		signal(p.wake)
	}
}

func (p *poller) holding() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inHand)
}

// wait waits until it is time to look, at most longest; false: ctx ended.
func (p *poller) wait(ctx context.Context, longest time.Duration) bool {
	last := time.Now().Add(longest)
	for {
		p.mu.Lock()
		next := last
		if !p.due.IsZero() && p.due.Before(last) {
			next = p.due
		}
		p.mu.Unlock()
		t := time.NewTimer(time.Until(next))
		select {
		case <-t.C:
			return true
		case <-p.wake:
			t.Stop()
			return true
		case <-p.sooner:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
}

// passed forgets the known due time when it has come.
func (p *poller) passed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.due.After(time.Now()) {
		p.due = time.Time{}
	}
}

// poll takes parked messages until ctx ends. Its pause grows while there are
// none, up to pollMax.
func (w *Worker) poll(ctx context.Context) {
	idle := pollMin
	for {
		w.poller.passed()
		room := w.config.Concurrency - w.poller.holding()
		switch {
		case w.paused.now():
			room = 0
		case w.gate.shut() != nil: // as in Worker.room
			room = min(room, 1-min(1, w.jobs.len()+w.poller.holding()))
		}
		idle = min(2*idle, pollMax)
		if room > 0 && w.takeParked(ctx, room) > 0 {
			idle = pollMin
		}
		if !w.poller.wait(ctx, idle) {
			return
		}
	}
}

// takeParked hands due messages to the queue, and learns which keys are held.
func (w *Worker) takeParked(ctx context.Context, limit int) (taken int) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := w.refreshKeys(ctx)
	var hs []*yekbar.HeldMessage
	if err == nil {
		hs, err = w.holding.TakeDue(ctx, w.p.Name(), limit, w.within)
	}
	if w.pollFailed(ctx, err) {
		return 0
	}
	for _, h := range hs {
		if !w.poller.take(h.MessageID) {
			continue
		}
		j := &job{held: h, m: &h.Message}
		j.claim.Store(&yekbar.Claim{Consumer: h.Consumer, MessageID: h.MessageID, Fingerprint: h.Fingerprint})
		if !w.queue.add(j) {
			w.poller.release(h.MessageID)
			return taken
		}
		taken++
	}
	return taken
}

// refreshKeys learns which keys are held, when it is time.
func (w *Worker) refreshKeys(ctx context.Context) error {
	began := time.Now()
	if w.order != ByKey || began.Before(w.poller.keys) {
		return nil
	}
	since := w.keys.now()
	keys, err := w.holding.HeldKeys(ctx, w.p.Name())
	if err == nil {
		w.keys.refresh(keys, since)
	}
	w.poller.keys = time.Now().Add(max(keysEvery, (keysShare-1)*time.Since(began)))
	return err
}

// pollFailed notes an error of looking; an outage is noticed by the messages
// themselves, or is over by the next look.
func (w *Worker) pollFailed(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		w.health.clear("parked")
	case ctx.Err() == nil && !absent(err):
		if w.health.set("parked", err) {
			w.log.Error("parked messages can't be taken", "error", err)
		}
	}
	return err != nil
}
