package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asProgram makes the test binary the program itself, also for the workers
// that it starts.
const asProgram = "YEKBAR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// most is how long a call of the program may take.
const most = 2 * time.Minute

// command prepares a call with a temporary directory of its own, which must be
// empty in the end.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, self, args...)
	temp := t.TempDir()
	// The race detector reports a race when it sees it; it need not linger for
	// a second at each process's end.
	c.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(temp, "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left in the temporary directory: %v %v", left, err)
		}
	})
	return c
}

type result struct {
	status         int
	stdout, stderr string
}

func call(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	c := command(t, args...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = stdin, &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := result{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	t.Logf("yekbar %s: exit status %d\n%s%s", strings.Join(args, " "), r.status, r.stdout, r.stderr)
	return r
}

func TestWrongUseSaysWhatAndWhatNext(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none", "file")
	for _, test := range []struct {
		args   string
		status int
		want   []string
	}{
		{"", 2, []string{"expected one of", `"demo"`, `"migrate"`, "yekbar --help"}},
		{"dmeo", 2, []string{"dmeo", "see yekbar --help"}},
		{"demo --order 3", 2, []string{`unknown flag --order, did you mean "--orders"?`, "see yekbar demo --help"}},
		{"demo --orders x", 2, []string{"--orders"}},
		{"demo --orders 5 --input -", 2, []string{"--orders", "--input"}},
		{"demo --orders 0 --workers 0 --kills=-1 --naive both --duplicates 100", 2, []string{"--orders is 0", "--workers is 0: use 1 to 64", "--kills is -1", "exists-check or ack-first"}},
		{"demo --duplicates 101", 2, []string{"use 0 to 100"}},
		{"demo --duplicates NaN", 2, []string{"use 0 to 100"}},
		{"demo --duplicates 0.2", 2, []string{"20% or 0.2%"}},
		{"demo --database shop.db", 2, []string{"sqlite:PATH"}},
		{"demo --database sqlite::memory:", 2, []string{"one process's own"}},
		{"demo --database redis://ada:s3cr3t@h", 2, []string{`"redis"`, "postgres://USER:PASSWORD@HOST"}},
		{"demo --database mysql://ada:s3cr3t@h", 2, []string{"mysql://USER:PASSWORD@HOST:PORT/DATABASE"}},
		{"demo --database postgres://ada:s3cr3t/x@h/y", 2, []string{"%40"}},
		{"demo --database postgres://ada:s3cr3t@127.0.0.1:1/shop", 4, []string{"PostgreSQL", "127.0.0.1:1", "is the server running"}},
		{"demo --database mysql://ada:s3cr3t@127.0.0.1:1/shop", 4, []string{"MariaDB", "127.0.0.1:1", "is the server running"}},
		{"demo --database sqlite:" + missing, 4, []string{"does its folder exist"}},
		{"demo --broker amqp://ada:s3cr3t@h", 2, []string{"nats://HOST:PORT"}},
		{"demo --broker nats://ada:s3cr3t@127.0.0.1:1", 4, []string{"127.0.0.1:1", "is the server running"}},
		{"demo --broker nats://s3cr3t@127.0.0.1:1", 4, []string{"127.0.0.1:1"}},
		{"demo --input " + missing, 2, []string{"--input", "no such file"}},
		{"demo --input " + t.TempDir(), 2, []string{"--input", "is a directory"}},
		{"demo --totals " + missing, 2, []string{"--totals", "no such file"}},
		{"migrate", 2, []string{"--database", "see yekbar migrate --help"}},
		{"migrate postgres://ada:s3cr3t@h/x", 2, []string{"unexpected argument"}},
		{"migrate --database postgres://ada:s3cr3t@127.0.0.1:1/shop", 4, []string{"127.0.0.1:1"}},
		{"migrate --database sqlite:x.db --schema a", 2, []string{"--prefix"}},
		{"migrate --database postgres:// --prefix a", 2, []string{"--schema"}},
		{"migrate --database postgres:// --schema pg_a", 2, []string{"pg_"}},
		{"migrate --database sqlite:x.db --to 99", 2, []string{"this release knows 0"}},
		{"migrate --database sqlite:x.db --from 1", 2, []string{"--print"}},
		{"demo-worker", 4, []string{"not by hand"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			r := call(t, nil, strings.Fields(test.args)...)
			if r.status != test.status {
				t.Errorf("exit status %d, want %d", r.status, test.status)
			}
			for _, want := range test.want {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("no %q in %q", want, r.stderr)
				}
			}
			if strings.Contains(r.stdout+r.stderr, "s3cr3t") {
				t.Error("the password came out")
			}
			if r.stdout != "" {
				t.Errorf("standard output has %q", r.stdout)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	if r := call(t, nil, "--version"); r.status != 0 || !strings.HasPrefix(r.stdout, "yekbar ") {
		t.Error("no version")
	}
	for _, args := range [][]string{{"--help"}, {"demo", "--help"}, {"migrate", "--help"}} {
		r := call(t, nil, args...)
		if r.status != 0 || strings.Contains(r.stdout, "demo-worker") {
			t.Errorf("%v", args)
		}
		if len(args) > 1 && (!strings.Contains(r.stdout, "Examples:") || !strings.Contains(r.stdout, "Exit status:")) {
			t.Errorf("%v has no examples or no exit statuses", args)
		}
	}
}
