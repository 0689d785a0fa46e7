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

// A job is one delivery from its receipt until it is settled.
type job struct {
	d broker.Delivery
	m *yekbar.Message // nil until it is decoded
	// ending: the broker did not take the verdict at the first try. The lease
	// is extended no more, so that it ends the tries.
	ending atomic.Bool
}

func (j *job) lost() bool {
	select {
	case <-j.d.Lost():
		return true
	default:
		return false
	}
}

// messages returns what an observer sees.
func (j *job) messages() []*yekbar.Message {
	if j.m == nil {
		return nil
	}
	return []*yekbar.Message{j.m}
}

// id returns what names the message in a log.
func (j *job) id() string {
	if j.m == nil {
		return ""
	}
	return j.m.ID
}

// jobs are all that are held.
type jobs struct {
	mu   *sync.Mutex
	held map[*job]struct{}
	idle chan struct{} // gets a value when the last one leaves
}

func newJobs() jobs {
	return jobs{mu: new(sync.Mutex), held: map[*job]struct{}{}, idle: make(chan struct{}, 1)}
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
	if len(js.held) == 0 {
		select {
		case js.idle <- struct{}{}:
		default:
		}
	}
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
					w.log.Debug("a lease could not be extended", "message", j.id(), "error", err)
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
