//go:build unix && !linux

package servers

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// sysProcAttr puts the child in a process group of its own. There is no
// parent-death signal here: Main and the services program stop their servers
// on a signal, but a SIGKILL of the parent leaves them running.
func sysProcAttr(attr *syscall.SysProcAttr, _ syscall.Signal) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setpgid = true
	return attr
}

// listing is what ps(1) of POSIX tells: pid, parent, state.
func listing() (map[int][2]string, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes with ps: %w", err)
	}
	all := map[int][2]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			all[pid] = [2]string{f[1], f[2]}
		}
	}
	return all, nil
}

// Running tells whether a process exists and is more than a zombie.
func Running(pid int) bool {
	all, err := listing()
	if err != nil {
		return killPID(pid, 0) == nil
	}
	p, ok := all[pid]
	return ok && !strings.HasPrefix(p[1], "Z")
}

// Descendants returns the processes below root, root left out.
func Descendants(root int) ([]int, error) {
	all, err := listing()
	if err != nil {
		return nil, err
	}
	var found []int
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for pid, p := range all {
			if p[0] == strconv.Itoa(next[0]) {
				found = append(found, pid)
				next = append(next, pid)
			}
		}
	}
	return found, nil
}

// processesIn can't be answered without /proc.
func processesIn(string) ([]int, error) { return nil, nil }
