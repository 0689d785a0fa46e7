package demo

import "syscall"

// childAttributes keeps the terminal's Ctrl-C from the workers, which their
// parent stops, and has the kernel kill them when the thread that started them
// ends (prctl(2), PR_SET_PDEATHSIG).
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
