package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A worker that ends by itself is an error with its last words, not a reason to
// start it for ever.
func TestWorkerThatEndsByItself(t *testing.T) {
	for script, want := range map[string][]string{
		"echo first >&2; echo 'no such table' >&2; exit 7": {"worker 1 ended by itself", "exit status 7", "first\nno such table"},
		"exit 0":               {"ended by itself (without an error)"},
		"echo hello; exit 1":   {`it wrote "hello", which is no event`, "exit status 1"},
		"kill -9 $$; sleep 10": {"signal: killed"},
	} {
		t.Run(script, func(t *testing.T) {
			c := newCrew(Config{Executable: "/bin/sh", Args: []string{"-c", script}}, workerConfig{}, newKiller(0, 0, 1), t.Logf)
			if err := c.start(1); err != nil {
				t.Skipf("no shell: %v", err)
			}
			var err error
			for err == nil && len(c.workers) > 0 {
				select {
				case n := <-c.notices:
					err = c.take(n)
				case <-time.After(30 * time.Second):
					t.Fatal("the end was not noticed")
				}
			}
			for _, w := range want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in: %v", w, err)
				}
			}
			if err := c.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStartOfNoProgram(t *testing.T) {
	c := newCrew(Config{Executable: "/none/at/all"}, workerConfig{}, newKiller(0, 0, 1), t.Logf)
	if err := c.start(1); err == nil || !strings.Contains(err.Error(), "start worker 1") {
		t.Error(err)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}

// A kill that the worker was faster than is one kill, of the kind it died of.
func TestCrewCountsAKillOnce(t *testing.T) {
	k := newKiller(1, 10, 1)
	c := &crew{killer: k, conflicts: map[string]bool{}}
	w := &child{killed: true}
	k.done[anywhere]++
	if err := c.take(notice{child: w, event: event{Kind: eventDying, Point: "after COMMIT"}}); err != nil {
		t.Fatal(err)
	}
	if k.count() != 1 || k.done["after COMMIT"] != 1 {
		t.Errorf("%v", k.done)
	}
}

func TestTailKeepsTheLastLines(t *testing.T) {
	var tl tail
	for range 10_000 {
		if _, err := tl.Write([]byte("more\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tl.Write([]byte("last\n")); err != nil {
		t.Fatal(err)
	}
	if got := tl.String(); got != strings.Repeat("more\n", tailLines-1)+"last" {
		t.Errorf("%q", got)
	}
}

func TestCrewShowsTheFirstErrors(t *testing.T) {
	var said []string
	c := &crew{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	for i := range 100 {
		c.failed(&child{number: 2}, event{Invoice: fmt.Sprint(i), Error: "no such table"})
		c.failed(&child{number: 2}, event{Invoice: "in flight elsewhere"})
	}
	if len(said) != maxErrors+1 || said[0] != "worker 2, order 0: no such table" || !strings.Contains(c.lastError, "order 99") {
		t.Errorf("said %q, last %q", said, c.lastError)
	}
}
