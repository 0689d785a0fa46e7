package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running starts a long demo and returns when its workers are at work.
func running(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer, []int) {
	t.Helper()
	c := command(t, append([]string{"demo", "--orders", "100000", "--kills", "0"}, args...)...)
	var stdout bytes.Buffer
	c.Stdout = &stdout
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		t.Log(lines.Text())
		if strings.HasPrefix(lines.Text(), "orders ") && !strings.HasPrefix(lines.Text(), "orders 0 ") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }() // so that it never waits for us
	var children []int
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", c.Process.Pid, task.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Fields(string(text)) {
			var pid int
			if _, err := fmt.Sscan(f, &pid); err != nil {
				t.Fatal(err)
			}
			children = append(children, pid)
		}
	}
	if len(children) != 4 {
		t.Fatalf("%d worker processes, want 4", len(children))
	}
	return c, &stdout, children
}

// gone waits until processes are no more, or only wait to be reaped by whoever
// inherited them.
func gone(t *testing.T, pids []int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d lives on", pid)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}

func TestInterruptStopsEverything(t *testing.T) {
	c, stdout, workers := running(t)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // its status is looked at below
	if got := c.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit status %d, want 130", got)
	}
	if !strings.Contains(stdout.String(), "INTERRUPTED: ") {
		t.Errorf("no word of what was reached: %q", stdout)
	}
	gone(t, workers)
}

func TestWorkersDieWithTheirParent(t *testing.T) {
	c, _, workers := running(t)
	temp := ""
	for _, e := range c.Env {
		if after, ok := strings.CutPrefix(e, "TMPDIR="); ok {
			temp = after
		}
	}
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	gone(t, workers)
	entries, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // nobody was left to do it
		if err := os.RemoveAll(temp + "/" + e.Name()); err != nil {
			t.Fatal(err)
		}
	}
}
