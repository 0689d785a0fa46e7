package demo

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// stopGrace is how long workers may take to stop before they are killed.
const stopGrace = 15 * time.Second

// maxErrors is how many failures of orders are shown.
const maxErrors = 3

// A crew is the worker processes. One goroutine has it: the one that reads
// notices.
type crew struct {
	config  workerConfig
	starts  uint64
	program string
	args    []string
	starter *starter
	workers []*child
	killer  *killer
	notices chan notice
	results int

	applied    int64 // reported
	duplicates int64 // answered as such, by those who lived to say it
	conflicts  map[string]bool
	errors     int // of orders that failed, most of them to be tried again
	lastError  string
	say        func(format string, args ...any)
}

func newCrew(c Config, wc workerConfig, k *killer, say func(string, ...any)) *crew {
	return &crew{
		config: wc, program: c.Executable, args: c.Args,
		starter: newStarter(), killer: k,
		notices:   make(chan notice, 256),
		conflicts: map[string]bool{},
		say:       say,
	}
}

// start starts a worker in place of nobody.
func (c *crew) start(number int) error {
	wc := c.config
	wc.Number = number
	wc.Seed += c.starts // a new one doesn't repeat what the old one forgot
	c.starts++
	w, err := startChild(c.starter, c.program, c.args, wc, c.notices)
	if err == nil {
		c.workers = append(c.workers, w)
	}
	return err
}

// take books a notice, replaces who was killed, and lets the killer strike.
func (c *crew) take(n notice) error {
	if n.ended {
		return c.ended(n)
	}
	switch e := n.event; e.Kind {
	case eventReady:
		n.child.ready = true
	case eventApplied:
		c.results++
		c.applied++
	case eventDuplicate:
		c.results++
		c.duplicates++
	case eventConflict:
		c.results++
		c.conflicts[e.Invoice] = true
	case eventGivenBack, eventFailed:
		c.failed(n.child, e)
	case eventDying:
		if n.child.killed {
			c.killer.done[anywhere]-- // it was faster than our signal
		}
		n.child.killed = true
		c.killer.died(e.Point)
	}
	c.killer.strike(c.results, c.workers)
	return nil
}

// failed shows the first errors, and keeps the last one for when all ends.
func (c *crew) failed(w *child, e event) {
	if e.Error == "" {
		return
	}
	c.lastError = fmt.Sprintf("worker %d, order %s: %s", w.number, e.Invoice, e.Error)
	c.errors++
	switch {
	case c.errors <= maxErrors:
		c.say("%s", c.lastError)
	case c.errors == maxErrors+1:
		c.say("more orders failed; the last error is shown when the run can't end")
	}
}

func (c *crew) ended(n notice) error {
	c.workers = slices.DeleteFunc(c.workers, func(w *child) bool { return w == n.child })
	switch {
	case n.child.killed && !n.child.stopping:
		return c.start(n.child.number)
	case n.child.stopping && n.err == nil, n.child.killed:
		return nil
	}
	how := "without an error"
	if n.err != nil {
		how = n.err.Error()
	}
	return fmt.Errorf("worker %d ended by itself (%s); its last words:\n%s", n.child.number, how, n.child.last)
}

// stop has all workers finish what they have in hand, and waits for them.
// Those that don't are killed.
func (c *crew) stop() error {
	defer c.starter.close()
	for _, w := range c.workers {
		w.stopping = true
		if err := w.write(command{Stop: true}); err != nil {
			w.kill() // it doesn't listen any more
		}
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	var errs []error
	for len(c.workers) > 0 {
		select {
		case n := <-c.notices:
			if err := c.take(n); err != nil {
				errs = append(errs, err)
			}
		case <-grace.C:
			errs = append(errs, fmt.Errorf("%d workers had not stopped after %v and were killed", len(c.workers), stopGrace))
			for _, w := range c.workers {
				w.kill()
			}
		}
	}
	return errors.Join(errs...)
}

// finished reports that there were all the kills, and everybody is up again.
func (c *crew) finished() bool {
	return c.killer.count() >= len(c.killer.due) &&
		!slices.ContainsFunc(c.workers, func(w *child) bool { return !w.ready || w.killed })
}
