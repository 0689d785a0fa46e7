package servers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// initBound is how long initialising data, or building a program, may take.
const initBound = 3 * time.Minute

// find looks for a program in PATH, then in the folders (patterns allowed, the
// last match wins).
func find(name string, folders ...string) (string, bool) {
	if path, err := exec.LookPath(name); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target, true
		}
	}
	for _, folder := range folders {
		matches, err := filepath.Glob(filepath.Join(folder, name))
		if err != nil {
			continue // the patterns are ours; a bad one finds nothing
		}
		for i := len(matches) - 1; i >= 0; i-- {
			if info, err := os.Stat(matches[i]); err == nil && info.Mode()&0o111 != 0 {
				return matches[i], true
			}
		}
	}
	return "", false
}

// programKey tells one build of a program from another.
func programKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()), nil
}

// finish runs a command to its end; a failure shows what it printed.
func finish(cmd *exec.Cmd, bound time.Duration) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	p, err := spawn(cmd, killSignal)
	if err != nil {
		return err
	}
	if !p.wait(bound) {
		return errors.Join(fmt.Errorf("%s did not end within %v; it printed:\n%s", cmd.Path, bound, out.Bytes()), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w; it printed:\n%s", cmd.Path, p.err, out.Bytes())
	}
	return nil
}

// copyTree copies a data folder with owners and modes.
func copyTree(from, to string) error {
	return finish(exec.Command("cp", "-Rp", from, to), initBound)
}

// freePort finds a port for a server that can't choose one itself. It stays
// below the usual ephemeral range (32768 up on Linux): inside, a client that
// retries while the server is down could be given the server's own port.
func freePort() (int, error) {
	const low, high = 15000, 32000
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(high-low))
		if err != nil {
			return 0, err
		}
		port := low + int(n.Int64())
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free port of 127.0.0.1 after 100 tries between 15000 and 32000")
}

// secret makes a password.
func secret() string { return strings.ToLower(rand.Text()) }
