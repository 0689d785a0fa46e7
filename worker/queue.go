package worker

import (
	"sync"
)

// A queue hands out what may run: one message of a key at a time, and suspects
// alone.
type queue struct {
	mu      *sync.Mutex
	changed *sync.Cond
	ready   []*job            // may run
	solo    []*job            // may run when nothing else does
	lines   map[string][]*job // of each key whose turn is taken: who waits for it
	behind  int               // jobs in lines
	running int               // runs
	alone   bool              // the one that runs is to be alone
	paused  bool              // nothing is handed out
	closed  bool
}

func newQueue() queue {
	mu := new(sync.Mutex)
	return queue{mu: mu, changed: sync.NewCond(mu), lines: map[string][]*job{}}
}

// add takes a job in, or reports that the queue is closed.
func (q *queue) add(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if j.key != "" {
		line, taken := q.lines[j.key]
		if taken {
			q.lines[j.key] = append(line, j)
			q.behind++
			return true
		}
		q.lines[j.key] = nil
	}
	q.admit(j)
	return true
}

// again takes back a job that kept its key's turn, or reports that the queue
// is closed.
func (q *queue) again(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.admit(j)
	}
	return !q.closed
}

// admit lets a job run; q.mu is held.
func (q *queue) admit(j *job) {
	if j.suspect {
		q.solo = append(q.solo, j)
	} else {
		q.ready = append(q.ready, j)
	}
	q.changed.Broadcast()
}

// free ends a job's turn: the next one of its key may run.
func (q *queue) free(j *job) {
	if j.key == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[j.key]
	if len(line) == 0 {
		delete(q.lines, j.key)
		return
	}
	next := line[0]
	q.lines[j.key] = line[1:]
	q.behind--
	q.admit(next)
}

// take waits for jobs to run together, at most n, or returns none when the
// queue is closed. leave must be called when they have run.
func (q *queue) take(n int) (js []*job, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		switch {
		case q.paused || q.alone:
		case len(q.solo) > 0:
			// Nothing new begins, so that it soon is alone.
			if q.running == 0 {
				js, q.solo = q.solo[:1:1], q.solo[1:]
				q.running, q.alone = 1, true
				return js, true
			}
		case len(q.ready) > 0:
			js = q.together(n)
			q.ready = q.ready[len(js):]
			q.running++
			return js, false
		}
		q.changed.Wait()
	}
	return nil, false
}

// together returns the jobs at the head that can be processed together; q.mu
// is held.
func (q *queue) together(n int) []*job {
	i := 1
	for i < min(n, len(q.ready)) && q.ready[0].held == nil && q.ready[i].held == nil {
		i++
	}
	return append([]*job(nil), q.ready[:i]...)
}

// leave ends a run.
func (q *queue) leave(alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	if alone {
		q.alone = false
	}
	q.changed.Broadcast()
}

func (q *queue) waitingBehind() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.behind
}

func (q *queue) pause(paused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused = paused
	q.changed.Broadcast()
}

// close ends take, and returns what has not run.
func (q *queue) close() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	rest := append(q.ready, q.solo...)
	for _, line := range q.lines {
		rest = append(rest, line...)
	}
	q.ready, q.solo, q.lines, q.behind = nil, nil, map[string][]*job{}, 0
	q.changed.Broadcast()
	return rest
}
