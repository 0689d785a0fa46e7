package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// A demoProgram is the path of the built program.
type demoProgram string

// buildProgram builds it, with the race detector when the tests have it.
func buildProgram(t *testing.T) demoProgram {
	t.Helper()
	program := filepath.Join(t.TempDir(), "yekbar")
	args := []string{"build", "-o", program}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	build := exec.Command("go", append(args, ".")...)
	build.Dir = filepath.Join("..", "..", "cmd", "yekbar")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return demoProgram(program)
}

func TestDemo(t *testing.T) {
	program := buildProgram(t)
	t.Run("orders made up", program.testMadeUp)
	t.Run("real orders", program.testRealOrders)
	t.Run("passwords", program.testPasswords)
}

// A demoResult is the object that the demo prints with --json.
type demoResult struct {
	Orders        int64 `json:"orders"`
	Deliveries    int64 `json:"deliveries"`
	Applied       int64 `json:"applied"`
	Duplicates    int64 `json:"duplicates"`
	Kills         int   `json:"kills"`
	UnitsExpected int64 `json:"units_expected"`
	UnitsFound    int64 `json:"units_found"`
	Exact         bool  `json:"exact"`
}

// demo runs the demo and returns what it printed, and its exit status.
func (program demoProgram) demo(t *testing.T, limit time.Duration, args ...string) (demoResult, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, string(program), append([]string{"demo", "--json"}, args...)...)
	c.Env = append(os.Environ(), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	t.Logf("%s%s", stderr.String(), stdout.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var r demoResult
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("the demo printed %q: %v", stdout.String(), err)
	}
	return r, c.ProcessState.ExitCode()
}

var demoDatabases = []struct {
	name string
	url  func(testing.TB) string
}{
	{"PostgreSQL", servers.PostgreSQL},
	{"MariaDB", servers.MariaDB},
}

func (program demoProgram) testMadeUp(t *testing.T) {
	for _, d := range demoDatabases {
		t.Run(d.name, func(t *testing.T) {
			database, broker := d.url(t), servers.NATS(t)
			for range 2 { // the second replaces the first one's tables
				r, status := program.demo(t, 3*time.Minute, "--database", database, "--broker", broker, "--orders", "1000", "--kills", "9")
				if status != 0 || !r.Exact || r.Applied != 1000 || r.Kills != 9 || r.Duplicates == 0 || r.UnitsFound != r.UnitsExpected {
					t.Errorf("exit status %d, %+v", status, r)
				}
			}
			for _, kind := range []string{"exists-check", "ack-first"} {
				r, status := program.demo(t, 3*time.Minute, "--database", database, "--orders", "600", "--kills", "6", "--naive", kind)
				if status != 1 || r.Exact || r.UnitsFound == r.UnitsExpected {
					t.Errorf("%s: exit status %d, %+v", kind, status, r)
				}
			}
		})
	}
}

// realYear, set, makes testRealOrders take a year and not a day.
const realYear = "YEKBAR_TEST_REAL_YEAR"

// testRealOrders takes the orders of a real shop, where somebody has put
// them beside the repository.
func (program demoProgram) testRealOrders(t *testing.T) {
	file, sum, orders := "retail-2010-12-01.ndjson.gz", "4562c36a31b329bb5716b44ff735eea7340aed6a9388f98cbc861808ab2e1f9a", int64(143)
	if os.Getenv(realYear) != "" {
		file, sum, orders = "retail-year.ndjson.gz", "a072260acdedbe06213ce8605ab0486d55501d738e5b4984eb48be5ff400af2d", 25_900
	}
	input := filepath.Join("..", "..", "..", "shared", "data", file)
	if _, err := os.Stat(input); err != nil {
		t.Skipf("the real orders are not here: %v", err)
	}
	databases := append(demoDatabases[:len(demoDatabases):len(demoDatabases)], struct {
		name string
		url  func(testing.TB) string
	}{"SQLite", func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "shop.db") }})
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			totals := filepath.Join(t.TempDir(), "totals.tsv")
			r, status := program.demo(t, 10*time.Minute, "--database", d.url(t), "--input", input, "--totals", totals, "--kills", "24")
			if status != 0 || !r.Exact || r.Applied != orders || r.Kills != 24 {
				t.Errorf("exit status %d, %+v", status, r)
			}
			text, err := os.ReadFile(totals)
			if err != nil {
				t.Fatal(err)
			}
			if got := sha256.Sum256(text); hex.EncodeToString(got[:]) != sum {
				t.Errorf("the totals have the SHA-256 %x, want %s", got, sum)
			}
		})
	}
}

// A database that refuses is named, its password is not.
func (program demoProgram) testPasswords(t *testing.T) {
	for _, d := range demoDatabases {
		right := d.url(t)
		scheme, _, _ := strings.Cut(right, "://")
		wrong := scheme + "://nobody:s3cr3t-w0rd" + right[strings.Index(right, "@"):]
		c := exec.CommandContext(t.Context(), string(program), "demo", "--database", wrong)
		out, err := c.CombinedOutput()
		if c.ProcessState.ExitCode() != 4 || bytes.Contains(out, []byte("s3cr3t")) || !bytes.Contains(out, []byte(d.name)) {
			t.Errorf("%s: exit status %d, %v: %s", d.name, c.ProcessState.ExitCode(), err, out)
		}
	}
}
