package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a running child and the end of it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is dead and reaped
	err  error         // how it ended; read it after done
}

// spawn starts cmd so that it dies with us. The kernel sends the parent-death
// signal when the *thread* that forked ends (prctl(2)), so one goroutine keeps
// that thread for as long as the child lives.
func spawn(cmd *exec.Cmd, parentDeath syscall.Signal) (*process, error) {
	cmd.SysProcAttr = sysProcAttr(cmd.SysProcAttr, parentDeath)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends s to the child alone; a dead one is not an error.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", s, p.pid(), err)
	}
	return nil
}

// wait reports whether the child ended within d.
func (p *process) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// stopStep is one way of asking a server to end, and the time it gets.
type stopStep struct {
	signal syscall.Signal
	grace  time.Duration
}

// stop goes through the steps until the child is dead, then kills.
func (p *process) stop(steps []stopStep) error {
	for _, step := range steps {
		if !p.alive() {
			return nil
		}
		if err := p.signal(step.signal); err != nil {
			return err
		}
		if p.wait(step.grace) {
			return nil
		}
	}
	return p.kill()
}

// kill ends the child and everything below it with SIGKILL. The child is
// stopped first, so that it neither forks nor reaps while we look at the tree.
func (p *process) kill() error {
	family, err := p.family()
	if err != nil {
		return err
	}
	var problems []error
	for _, pid := range family {
		problems = append(problems, killPID(pid, syscall.SIGKILL))
	}
	problems = append(problems, p.signal(syscall.SIGKILL))
	if !p.wait(killBound) {
		problems = append(problems, fmt.Errorf("process %d lives %v after SIGKILL", p.pid(), killBound))
	}
	problems = append(problems, waitGone(family, killBound))
	return errors.Join(problems...)
}

const killBound = 10 * time.Second

// family stops the child and returns the processes below it.
func (p *process) family() ([]int, error) {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return Descendants(p.pid())
}

// killPID signals a process that need not exist any more.
func killPID(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", s, pid, err)
	}
	return nil
}

// waitGone waits until none of pids runs; they are not our children, so there
// is nothing to wait on but a look.
func waitGone(pids []int, bound time.Duration) error {
	return poll(context.Background(), bound, func(context.Context) error {
		for _, pid := range pids {
			if Running(pid) {
				return fmt.Errorf("process %d still runs", pid)
			}
		}
		return nil
	})
}

// poll calls try until it returns nil, at most for bound, and returns the last
// error.
func poll(ctx context.Context, bound time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up (%w) after: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// tail is the end of a log file, for an error.
func tail(path string) string {
	const most = 6000
	f, err := os.Open(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return "(log: " + err.Error() + ")"
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return "(log: " + err.Error() + ")"
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return "(the log is empty)"
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) > 40 {
		lines = lines[len(lines)-40:]
	}
	return strings.Join(lines, "\n")
}
