package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// lack is what this machine is missing.
type lack struct {
	kinds    []servers.Kind
	tools    []string // in words
	packages []string // Debian's names for all of it
}

// missing looks for everything that make test needs and that can be installed.
func missing() lack {
	var l lack
	for _, kind := range servers.Kinds() {
		var m *servers.MissingError
		if os.Getenv(kind.Variable()) == "" && errors.As(servers.Installed(kind), &m) {
			l.kinds = append(l.kinds, kind)
			if m.Package != "" {
				l.packages = append(l.packages, m.Package)
			}
		}
	}
	if !compiles() {
		l.tools = append(l.tools, "a C compiler (for the race detector and SQLite in C)")
		l.packages = append(l.packages, "gcc", "libc6-dev")
	}
	if _, err := exec.LookPath("make"); err != nil {
		l.tools = append(l.tools, "make")
		l.packages = append(l.packages, "make")
	}
	if _, err := os.Stat("/usr/share/i18n/locales/de_DE"); err != nil {
		l.tools = append(l.tools, "the German locale's source (for a PostgreSQL that speaks German)")
		l.packages = append(l.packages, "locales")
	}
	return l
}

// compiles tells whether C compiles and links.
func compiles() bool {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
		if _, err := exec.LookPath(cc); err != nil {
			cc = "gcc"
		}
	}
	cmd := exec.Command(cc, "-x", "c", "-", "-o", os.DevNull)
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\nint main(void) { return abs(0); }\n")
	return cmd.Run() == nil
}

// install installs what is missing with apt-get, where we may.
func install(stderr io.Writer, l lack) error {
	if len(l.packages) == 0 {
		return nil
	}
	what := append([]string(nil), l.tools...)
	for _, kind := range l.kinds {
		what = append(what, string(kind))
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing here: %s; install them (Debian, Ubuntu: sudo apt-get install %s), or set YEKBAR_TEST_… to servers that run",
			strings.Join(what, ", "), strings.Join(l.packages, " "))
	}
	say(stderr, "installing %s", strings.Join(l.packages, " "))
	restore, err := denyServiceStarts("/usr/sbin/policy-rc.d")
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-q", "-y", "--no-install-recommends"}, l.packages...),
	} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return errors.Join(fmt.Errorf("apt-get %s: %w; it printed:\n%s", args[0], err, out), restore())
		}
	}
	return restore()
}

// policyMark is in the file that we write, so that one left by a killed run is
// known as ours.
const policyMark = "# Written by Yekbar's services program for one installation."

// denyServiceStarts has Debian's packages not start their daemons while they
// are installed: invoke-rc.d(8) asks this program, 101 means no. What was there
// before is put back by restore.
func denyServiceStarts(path string) (restore func() error, err error) {
	saved := filepath.Join(filepath.Dir(path), "policy-rc.d.yekbar-saved")
	restore = func() error {
		err := os.Rename(saved, path)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(path) // there was none before
		}
		return err
	}
	before, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case strings.Contains(string(before), policyMark):
		return restore, nil // left by a killed run
	default:
		if err := os.Rename(path, saved); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+policyMark+"\nexit 101\n"), 0o755); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}
