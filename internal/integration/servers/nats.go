package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsModule is the server's module and its main package; a tool line in this
// module's go.mod pins the version.
const natsModule = "github.com/nats-io/nats-server/v2"

func findGo() (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", &MissingError{Kind: KindNATS, What: "no go command in PATH to build it"}
	}
	return path, nil
}

// buildNATS builds the server once for each version and returns the program.
func buildNATS(ctx context.Context, f *folder) (string, error) {
	goTool, err := findGo()
	if err != nil {
		return "", err
	}
	root, err := repository()
	if err != nil {
		return "", &MissingError{Kind: KindNATS, What: err.Error()}
	}
	module := filepath.Join(root, "internal", "integration")
	run := func(args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, initBound)
		defer cancel()
		cmd := exec.CommandContext(ctx, goTool, args...)
		cmd.Dir = module
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("go %s: %w; it printed:\n%s", strings.Join(args, " "), err, out)
		}
		return out, nil
	}
	out, err := run("list", "-m", "-f", "{{.Version}}", natsModule)
	if err != nil {
		return "", err
	}
	program := filepath.Join(f.base, "bin", "nats-server-"+strings.TrimSpace(string(out)))
	unlock, err := lockFile(program + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if _, err := run("build", "-o", program+".new", natsModule); err != nil {
		return "", err
	}
	return program, os.Rename(program+".new", program)
}

func planNATS(ctx context.Context, f *folder, dir string, o Options) (plan, error) {
	if o.Language != "" {
		return plan{}, errors.New("servers: NATS speaks English only")
	}
	program, err := buildNATS(ctx, f)
	if err != nil {
		return plan{}, err
	}
	port, err := freePort()
	if err != nil {
		return plan{}, err
	}
	// Whoever runs us runs it: it does not mind root.
	who := account{}
	home := filepath.Join(dir, "data")
	config := filepath.Join(home, "nats.conf")
	sync := "2m" // the server's default
	if o.Fsync {
		sync = "always"
	}
	settings := map[string]string{
		"listen":      fmt.Sprintf("%q", fmt.Sprintf("127.0.0.1:%d", port)),
		"server_name": "yekbar",
		"jetstream":   fmt.Sprintf("{ store_dir: %q, sync_interval: %s, max_memory_store: 256MB, max_file_store: 4GB }", home, sync),
	}
	maps.Copy(settings, o.Settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s: %s\n", name, settings[name])
	}
	if err := errors.Join(who.mkdir(home), who.writeFile(config, text.String())); err != nil {
		return plan{}, err
	}
	p := plan{
		account: who, program: program, args: []string{"-c", config},
		url:         fmt.Sprintf("nats://127.0.0.1:%d", port),
		stop:        []stopStep{{syscall.SIGTERM, 10 * time.Second}},
		parentDeath: killSignal,
	}
	p.ready = func(ctx context.Context) error { return pingNATS(ctx, p.url) }
	return p, nil
}

func pingNATS(ctx context.Context, url string) error {
	conn, err := nats.Connect(url, nats.Timeout(2*time.Second), nats.NoReconnect())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}
