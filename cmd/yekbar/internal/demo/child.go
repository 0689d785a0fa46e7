package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/failpoint"
)

// A child is a worker process as its parent sees it. All but its output is the
// business of the goroutine that runs the crew.
type child struct {
	number int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	last   *tail

	ready    bool
	armed    failpoint.Point // told to die there, and alive
	killed   bool            // by us, or by itself as told
	stopping bool
}

// A notice is an event of a child, or its end.
type notice struct {
	child *child
	event event
	ended bool
	err   error // of an ended one: how it ended, or what it said that is no event
}

// A starter starts processes from one thread that lives as long as it does:
// the kernel's parent-death signal follows the thread, not the process.
type starter struct {
	jobs chan func()
	done chan struct{}
}

func newStarter() *starter {
	s := &starter{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		for job := range s.jobs {
			job()
		}
		runtime.UnlockOSThread()
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.jobs <- func() { result <- cmd.Start() }
	return <-result
}

func (s *starter) close() {
	close(s.jobs)
	<-s.done
}

// startChild starts a worker; its events, and at last its end, go to notices.
func startChild(s *starter, program string, args []string, c workerConfig, notices chan<- notice) (*child, error) {
	w := &child{number: c.Number, cmd: exec.Command(program, args...), last: &tail{}}
	w.cmd.SysProcAttr = childAttributes()
	w.cmd.Stderr = w.last
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker %d: %w", c.Number, err)
	}
	w.stdin = stdin
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker %d: %w", c.Number, err)
	}
	if err := s.start(w.cmd); err != nil {
		return nil, fmt.Errorf("start worker %d: %w", c.Number, err)
	}
	go func() {
		err := w.read(stdout, notices)
		notices <- notice{child: w, ended: true, err: errors.Join(err, w.cmd.Wait())}
	}()
	if err := w.write(c); err != nil {
		// It ended already; the notice of that says why.
		w.ready = false
	}
	return w, nil
}

// read passes events on until the child closes its output, by its end.
func (w *child) read(stdout io.Reader, notices chan<- notice) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	var bad error
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			bad = fmt.Errorf("it wrote %q, which is no event: %w", lines.Text(), err)
			continue
		}
		notices <- notice{child: w, event: e}
	}
	return errors.Join(bad, lines.Err())
}

func (w *child) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("worker %d: %w", w.number, err)
	}
	if _, err := w.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("worker %d: %w", w.number, err)
	}
	return nil
}

// kill sends SIGKILL. A child that has ended meanwhile is no error.
func (w *child) kill() {
	w.killed = true
	_ = w.cmd.Process.Kill() // os.ErrProcessDone, or it can't be: it is our child
}

// A tail keeps the last lines that were written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const (
	tailBytes = 8 << 10
	tailLines = 8
)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.buf)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
