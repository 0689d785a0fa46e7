package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// The test binary plays the program, or its parent, when this is set.
const roleVariable = "YEKBAR_SERVICES_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "program":
		os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr))
	case "parent":
		// Starts the program and stays until it is killed.
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), roleVariable+"=program")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func as(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	for _, kind := range servers.Kinds() {
		if kind != servers.KindNATS {
			// One real server is enough here; these are never connected to.
			cmd.Env = append(cmd.Env, kind.Variable()+"=postgres://nobody@127.0.0.1:1/none")
		}
	}
	cmd.Env = append(cmd.Env, servers.KindNATS.Variable()+"=", servers.FolderVariable+"="+folder(t))
	return cmd
}

// folder is one that the servers' accounts may enter, for the data.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, open := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "services")
}

// status is the exit status of a program that ended, -1 otherwise.
func status(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "no subcommand"},
		{[]string{"start"}, `no subcommand "start"`},
		{[]string{"run", "ls"}, "write -- before the command"},
		{[]string{"run", "--"}, "no command after --"},
		{[]string{"run", "--verbose"}, "write -- before the command"},
		{[]string{"install", "postgres"}, "takes no arguments"},
	} {
		var stdout, stderr bytes.Buffer
		if code := realMain(test.args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%q: status %d, %q; want %d and %q", test.args, code, stderr.String(), exitUsage, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := realMain([]string{"help"}, &stdout, &stderr); code != 0 || stdout.String() != usage || stderr.Len() > 0 {
		t.Errorf("status %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

func TestRunGivesTheCommandURLsAndItsStatusBack(t *testing.T) {
	t.Parallel()
	cmd := as(t, "program", "run", "--", "sh", "-c", "echo $YEKBAR_TEST_NATS $YEKBAR_TEST_POSTGRES; exit 7")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if status(err) != 7 {
		t.Fatalf("the status is %v, want 7", err)
	}
	words := strings.Fields(string(out))
	if len(words) != 2 || !strings.HasPrefix(words[0], "nats://127.0.0.1:") || words[1] != "postgres://nobody@127.0.0.1:1/none" {
		t.Errorf("the command saw %q", out)
	}
}

func TestACommandThatIsNotThere(t *testing.T) {
	t.Parallel()
	out, err := as(t, "program", "run", "--", "no-such-command-anywhere").CombinedOutput()
	if status(err) != 127 || !strings.Contains(string(out), "no-such-command-anywhere") {
		t.Errorf("%v: %s", err, out)
	}
}

// readPIDs waits for the three process ids that longCommand's command writes.
func readPIDs(t *testing.T, path string) []int {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(path)
		if words := strings.Fields(string(b)); err == nil && len(words) == 3 && strings.HasSuffix(string(b), "\n") {
			var pids []int
			for _, w := range words {
				pid, err := strconv.Atoi(w)
				if err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
			return pids
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the command did not start within 60 s")
		}
	}
}

// longCommand ignores nothing and has a child; it writes its parent's id (the
// program), its own and its child's to a file.
func longCommand(t *testing.T) (args []string, file string) {
	file = filepath.Join(t.TempDir(), "pids")
	return []string{"run", "--", "sh", "-c", "sleep 600 & echo $PPID $$ $! > " + file + "; wait"}, file
}

func TestASignalEndsTheCommandAndTheServers(t *testing.T) {
	t.Parallel()
	args, file := longCommand(t)
	cmd := as(t, "program", args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := readPIDs(t, file)
	family := familyOf(t, pids)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if status(err) != 128+int(syscall.SIGTERM) {
		t.Errorf("the status is %v, want %d", err, 128+int(syscall.SIGTERM))
	}
	servers.UntilGone(t, family...)
}

func TestADeadParentEndsTheCommandAndTheServers(t *testing.T) {
	t.Parallel()
	args, file := longCommand(t)
	cmd := as(t, "parent", args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := readPIDs(t, file)
	family := familyOf(t, pids)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed parent ended well")
	}
	servers.UntilGone(t, family...)
}

// familyOf returns the processes of longCommand and all that the program
// started: the command and the server.
func familyOf(t *testing.T, pids []int) []int {
	t.Helper()
	below, err := servers.Descendants(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(below) < 3 {
		t.Errorf("below the program are %v; want a server, the command and its child", below)
	}
	return append(below, pids...)
}
