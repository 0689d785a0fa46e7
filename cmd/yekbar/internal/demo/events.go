package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/failpoint"
)

// A worker process gets its configuration and then commands on its standard
// input, and tells on its standard output what happens: one JSON object a
// line. The end of its input means that its parent is gone.

// workerConfig is the first line of a worker's input; it may have passwords,
// which command lines and environments show to others.
type workerConfig struct {
	Number   int    `json:"number"`
	Database string `json:"database"`
	Broker   string `json:"broker"`
	Stream   string `json:"stream"`
	Naive    string `json:"naive"`
	Seed     uint64 `json:"seed"`
}

// A command is what a parent tells a worker.
type command struct {
	Stop  bool            `json:"stop,omitempty"`
	DieAt failpoint.Point `json:"die_at,omitempty"`
}

// An event is what a worker tells its parent. It is written before the next
// thing happens, so that a kill can't take it back.
type event struct {
	Kind    eventKind       `json:"kind"`
	Invoice string          `json:"invoice,omitempty"`
	Point   failpoint.Point `json:"point,omitempty"`
	Error   string          `json:"error,omitempty"`
}

type eventKind string

const (
	eventReady     eventKind = "ready"
	eventApplied   eventKind = "applied"
	eventDuplicate eventKind = "duplicate"
	eventConflict  eventKind = "conflict"
	eventGivenBack eventKind = "given back" // for Error; tried again later
	eventFailed    eventKind = "failed"     // for good, of a naive consumer
	eventDying     eventKind = "dying"      // at Point, now
)

// A reporter writes events, each with one write.
type reporter struct {
	mu sync.Mutex
	w  io.Writer
}

func (r *reporter) report(e event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("report an event: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("report an event: %w", err)
	}
	return nil
}
