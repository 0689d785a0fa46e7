package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// The test binary plays other processes when this variable names a role.
const roleVariable = "YEKBAR_SERVERS_TEST_ROLE"

func play(role string) int {
	if err := map[string]func() error{"start": playStart, "sweep": playSweep}[role](); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// playStart starts servers, pauses one of them, prints the process ids, and
// waits to be killed (or for the end of its input, so that it can't outlive
// the test).
func playStart() error {
	var pids []string
	for i, kind := range []servers.Kind{servers.KindPostgreSQL, servers.KindMariaDB, servers.KindNATS, servers.KindPostgreSQL} {
		server, err := servers.Start(context.Background(), kind, servers.Options{})
		if err != nil {
			return err
		}
		pids = append(pids, strconv.Itoa(server.PID()))
		if kind == servers.KindPostgreSQL && i > 0 {
			if err := server.Pause(); err != nil {
				return err
			}
		}
	}
	fmt.Println(strings.Join(pids, " "))
	_, err := bufio.NewReader(os.Stdin).ReadByte()
	return err
}

// playSweep is the next run after a killed one; then it removes everything.
func playSweep() error {
	if _, err := servers.Start(context.Background(), servers.KindNATS, servers.Options{}); err != nil {
		return err
	}
	return errors.Join(servers.Shutdown(), servers.Clean())
}

func role(t *testing.T, name, folder string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+name, servers.FolderVariable+"="+folder)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestAKilledRunLeavesNothingForTheNext(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: only Linux ends the children of a killed process")
	}
	for _, kind := range []servers.Kind{servers.KindPostgreSQL, servers.KindMariaDB, servers.KindNATS} {
		servers.SkipWithout(t, kind)
	}
	for name, mode := range map[string]os.FileMode{
		"a folder that all may enter":             0o755,
		"a folder that the owner alone may enter": 0o700,
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			folder := filepath.Join(outer, strings.Repeat("deep/", 25), "services") // too long for a socket
			ok(t, os.MkdirAll(folder, 0o755))
			ok(t, os.Chmod(filepath.Dir(outer), 0o755))
			ok(t, os.Chmod(outer, mode))
			first := role(t, "start", folder)
			stdin, err := first.StdinPipe()
			ok(t, err)
			defer stdin.Close()
			stdout, err := first.StdoutPipe()
			ok(t, err)
			ok(t, first.Start())
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil || strings.HasPrefix(line, "error:") {
				t.Fatalf("the first run: %v %s", err, line)
			}
			var pids []int
			for _, field := range strings.Fields(line) {
				pid, err := strconv.Atoi(field)
				ok(t, err)
				if !servers.Running(pid) {
					t.Errorf("server process %d does not run", pid)
				}
				pids = append(pids, pid)
			}
			ok(t, first.Process.Signal(syscall.SIGKILL))
			if err := first.Wait(); err == nil {
				t.Error("the first run ended well in spite of SIGKILL")
			}
			// The last server is paused: a signal other than SIGKILL can't reach it.
			servers.UntilGone(t, pids[:len(pids)-1]...)

			out, err := role(t, "sweep", folder).Output()
			if err != nil {
				t.Fatalf("the next run: %v; it printed:\n%s", err, out)
			}
			servers.UntilGone(t, pids...)
			if _, err := os.Stat(folder); mode == 0o755 && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is still there after Clean: %v", err)
			}
		})
	}
}
