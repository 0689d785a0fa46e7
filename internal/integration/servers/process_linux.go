package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// sysProcAttr puts the child in a process group of its own, so that the
// terminal's Ctrl-C reaches us alone and we stop it in order, and has the
// kernel end it when we are killed.
func sysProcAttr(attr *syscall.SysProcAttr, parentDeath syscall.Signal) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setpgid = true
	attr.Pdeathsig = parentDeath
	return attr
}

// procStat returns a process's state letter and parent, see proc_pid_stat(5).
func procStat(pid int) (state string, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false // gone
	}
	// The name in brackets may hold anything, also a bracket.
	_, rest, found := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}

// Running tells whether a process exists and is more than a zombie.
func Running(pid int) bool {
	state, _, ok := procStat(pid)
	return ok && state != "Z" && state != "X"
}

func allProcesses() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Descendants returns the processes below root, root left out.
func Descendants(root int) ([]int, error) {
	pids, err := allProcesses()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, pid := range pids {
		if _, parent, ok := procStat(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for next := []int{root}; len(next) > 0; next = next[1:] {
		found = append(found, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return found, nil
}

// processesIn returns the processes whose working directory is dir or below:
// every server runs in its own folder, so these are what a killed run left.
func processesIn(dir string) ([]int, error) {
	pids, err := allProcesses()
	if err != nil {
		return nil, err
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range pids {
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			continue // gone, or not ours to look at: then not ours to end
		}
		if cwd == dir || strings.HasPrefix(cwd, dir+"/") {
			found = append(found, pid)
		}
	}
	return found, nil
}
