package demo

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	lineEvery     = 2 * time.Second        // piped
	terminalEvery = 150 * time.Millisecond // one line, written over
)

// A progress shows where the run is. On a terminal it is one line that is
// written over; elsewhere a line now and then.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	columns int // of the terminal; 0: it is none
	shown   string
	last    time.Time
}

// show shows the line when it is time to.
func (p *progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	every := lineEvery
	if p.columns > 0 {
		every = terminalEvery
		line = line[:min(len(line), p.columns-1)] // a line that wraps can't be written over
	}
	if now.Sub(p.last) < every || line == p.shown {
		return
	}
	p.last, p.shown = now, line
	if p.columns > 0 {
		p.write("\r\x1b[K" + line)
	} else {
		p.write(line + "\n")
	}
}

// say prints a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.columns > 0 && p.shown != "" {
		p.write("\r\x1b[K")
	}
	p.write(fmt.Sprintf(format, args...) + "\n")
	if p.columns > 0 && p.shown != "" {
		p.write(p.shown)
	}
}

// end clears the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.columns > 0 && p.shown != "" {
		p.write("\r\x1b[K")
		p.shown = ""
	}
}

// write writes; what can't be shown is no reason to stop.
func (p *progress) write(s string) { _, _ = io.WriteString(p.w, s) }
