//go:build unix && !linux

package demo

import "syscall"

// childAttributes keeps the terminal's Ctrl-C from the workers, which their
// parent stops.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
