package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// extending is how many leases are extended at once.
const extending = 16

// A job is one message on its way through the worker: a delivery, until it is
// settled, or one that was parked, until it is applied or held anew.
type job struct {
	d     broker.Delivery              // nil for a parked one
	held  *yekbar.HeldMessage          // nil for a delivery
	m     *yekbar.Message              // nil when undecodable
	bad   error                        // why it is undecodable
	claim atomic.Pointer[yekbar.Claim] // nil until it is asked for, for it takes a hash
	find  func(*yekbar.Message) (yekbar.Claim, error)
	key   string          // whose turn it needs; "" none
	gone  <-chan struct{} // closed when it is not ours any more

	suspect bool // it runs alone
	again   bool // it was delivered, or tried, before: there may be a record of it
	started bool // its start is recorded

	// ending: its lease is extended no more, so that it ends: the broker did
	// not take the verdict at the first try, or the handler is stuck.
	ending atomic.Bool
}

// stored returns its claim, or the zero one when it has no identity.
func (j *job) stored() yekbar.Claim {
	if c := j.claim.Load(); c != nil {
		return *c
	}
	var c yekbar.Claim
	if j.m != nil {
		if found, err := j.find(j.m); err == nil {
			c = found
		}
	}
	j.claim.Store(&c)
	return c
}

// id is the message's as stored; "" when it has none.
func (j *job) id() string { return j.stored().MessageID }

func (j *job) lost() bool {
	select {
	case <-j.gone:
		return true
	default:
		return false
	}
}

// deliveries returns how often the broker has delivered it, and at least 1.
func (j *job) deliveries() int {
	if j.d == nil {
		return 1
	}
	n, _ := j.d.Attempt()
	return max(n, 1)
}

// messages returns what an observer sees.
func (j *job) messages() []*yekbar.Message {
	if j.m == nil {
		return nil
	}
	return []*yekbar.Message{j.m}
}

// name returns what names the message in a log.
func (j *job) name() string {
	if c := j.claim.Load(); c != nil && c.MessageID != "" {
		return c.MessageID
	}
	if j.m == nil {
		return ""
	}
	return j.m.ID
}

// arrived makes a job of a delivery.
func (w *Worker) arrived(d broker.Delivery) *job {
	j := &job{d: d, gone: d.Lost(), find: w.p.Identify}
	n, redelivered := d.Attempt()
	j.again = n > 1 || redelivered
	j.m, j.bad = d.Message()
	switch {
	case w.order == Strict:
		j.key = "strict"
	case w.order == ByKey && j.m != nil:
		j.key = j.m.OrderingKey
	}
	j.suspect = j.again && j.bad == nil && w.attempts != nil
	w.noteAge(d)
	return j
}

// jobs are all deliveries that are held.
type jobs struct {
	mu    *sync.Mutex
	held  map[*job]struct{}
	freed chan struct{} // gets a value when one leaves
}

func newJobs() jobs {
	return jobs{mu: new(sync.Mutex), held: map[*job]struct{}{}, freed: make(chan struct{}, 1)}
}

func (js *jobs) add(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.held[j] = struct{}{}
}

func (js *jobs) remove(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.held, j)
	signal(js.freed)
}

func (js *jobs) len() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	return len(js.held)
}

func (js *jobs) all() []*job {
	js.mu.Lock()
	defer js.mu.Unlock()
	all := make([]*job, 0, len(js.held))
	for j := range js.held {
		all = append(all, j)
	}
	return all
}

// startExtending extends the leases of all that is held, running or not, at a
// third of the lease, until the returned function is called, which waits.
func (w *Worker) startExtending(ctx context.Context) (stop func()) {
	if w.caps.Lease <= 0 || !w.caps.Extendable {
		return func() {}
	}
	every := max(w.caps.Lease/3, time.Millisecond)
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for pause(ctx, every) {
			w.extendAll(ctx, every)
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func (w *Worker) extendAll(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	todo := make(chan *job)
	var group sync.WaitGroup
	for range extending {
		group.Go(func() {
			for j := range todo {
				// A lease that can't be extended ends, and then the
				// delivery's Lost says so.
				if err := j.d.Extend(ctx); err != nil && !over(err) && ctx.Err() == nil {
					w.log.Debug("a lease could not be extended", "message", j.name(), "error", err)
				}
			}
		})
	}
	for _, j := range w.jobs.all() {
		if !j.ending.Load() {
			todo <- j
		}
	}
	close(todo)
	group.Wait()
}
