package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// stopGrace is how long the command may take to end after a signal.
const stopGrace = 15 * time.Second

// run starts the servers, runs the command, and stops the servers.
func run(command []string, stdout, stderr io.Writer) (code int, err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	orphaned, stopWatch := watchParent()
	defer stopWatch()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type outcome struct {
		running
		err error
	}
	up := make(chan outcome, 1)
	go func() {
		r, err := start(ctx, stderr)
		up <- outcome{r, err}
	}()
	var o outcome
	select {
	case o = <-up:
	case s := <-signals:
		// Everything started is stopped by what follows.
		cancel()
		o = <-up
		o.err = fmt.Errorf("interrupted by %v while starting", s)
		code = 128 + int(s.(syscall.Signal))
	case <-orphaned:
		cancel()
		o = <-up
		o.err = errOrphaned
	}
	defer func() { err = errors.Join(err, o.stop(), servers.Shutdown()) }()
	if o.err != nil {
		return max(code, 1), o.err
	}
	if len(command) == 0 {
		for _, kind := range servers.Kinds() {
			if url := o.urls[kind]; url != "" {
				if _, err := fmt.Fprintf(stdout, "export %s='%s'\n", kind.Variable(), url); err != nil {
					return 1, err
				}
			}
		}
		say(stderr, "running; Ctrl-C stops them")
		select {
		case <-signals:
			return 0, nil
		case <-orphaned:
			return 1, errOrphaned
		}
	}
	return runCommand(command, o.urls, signals, orphaned, stdout, stderr)
}

var errOrphaned = errors.New("the process that started this one is gone")

// watchParent tells when our parent ends. A killed make takes nobody along, so
// the servers would stay until the tests are through.
func watchParent() (orphaned <-chan struct{}, stop func()) {
	parent, gone, done := os.Getppid(), make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if os.Getppid() != parent {
					close(gone)
					return
				}
			}
		}
	})
	return gone, func() { close(done); wait.Wait() }
}

// running is what start started.
type running struct {
	urls       map[servers.Kind]string
	containers *containers // nil without
}

func (r *running) stop() error {
	if r.containers == nil {
		return nil
	}
	return r.containers.down()
}

// start finds a URL for every server: the one in the environment, a server
// from this machine's programs, or a container.
func start(ctx context.Context, stderr io.Writer) (running, error) {
	r := running{urls: map[servers.Kind]string{}}
	for _, kind := range servers.Kinds() {
		if url := os.Getenv(kind.Variable()); url != "" {
			r.urls[kind] = url
		}
	}
	lacking := missing()
	if len(lacking.kinds) > 0 || len(lacking.tools) > 0 {
		if err := install(stderr, lacking); err != nil {
			say(stderr, "%v", err)
		}
		lacking = missing()
	}
	if len(lacking.kinds) > 0 {
		c, err := startContainers(ctx, lacking.kinds)
		if err != nil {
			say(stderr, "no containers either: %v", err)
		} else {
			r.containers = c
			for kind, url := range c.urls {
				r.urls[kind] = url
			}
		}
	}
	if err := startHere(ctx, r.urls); err != nil {
		return r, err
	}
	var lost []error
	for _, kind := range servers.Kinds() {
		if r.urls[kind] != "" {
			continue
		}
		err := servers.Installed(kind)
		if err == nil {
			err = fmt.Errorf("%s: it stands in front of PostgreSQL, which is missing", kind)
		}
		lost = append(lost, err)
		if !servers.Required() {
			say(stderr, "NOT TESTED: %v", err)
		}
	}
	if servers.Required() {
		return r, errors.Join(lost...)
	}
	return r, nil
}

// startHere starts, side by side, what is installed and not in urls yet.
func startHere(ctx context.Context, urls map[servers.Kind]string) error {
	var (
		mu       sync.Mutex
		wait     sync.WaitGroup
		problems []error
	)
	fsync := os.Getenv("YEKBAR_SERVICES_FSYNC") == "1"
	one := func(kind servers.Kind, o servers.Options) {
		s, err := servers.Start(ctx, kind, o)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			problems = append(problems, err)
			return
		}
		urls[kind] = s.URL()
	}
	wanted := func(kind servers.Kind) bool { return urls[kind] == "" && servers.Installed(kind) == nil }
	for _, kind := range servers.Kinds() {
		if kind != servers.KindPgBouncer && wanted(kind) {
			wait.Go(func() { one(kind, servers.Options{Fsync: fsync}) })
		}
	}
	wait.Wait()
	if upstream := urls[servers.KindPostgreSQL]; upstream != "" && wanted(servers.KindPgBouncer) {
		one(servers.KindPgBouncer, servers.Options{Upstream: upstream})
	}
	return errors.Join(problems...)
}

// runCommand runs the command in a process group of its own, so that a signal
// can be given to it and to everything it started.
func runCommand(command []string, urls map[servers.Kind]string, signals <-chan os.Signal, orphaned <-chan struct{}, stdout, stderr io.Writer) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// A terminal belongs to one process group, and this isn't the command's.
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 {
		cmd.Stdin = os.Stdin
	}
	cmd.Env = os.Environ()
	for kind, url := range urls {
		cmd.Env = append(cmd.Env, kind.Variable()+"="+url)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 127, fmt.Errorf("start %s: %w", command[0], err)
	}
	group := -cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			if kill != nil {
				// It was told to end: so is what it left behind.
				if err := signalGroup(group, syscall.SIGKILL); err != nil {
					return exitCode(cmd), err
				}
			}
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
			}
			return exitCode(cmd), nil
		case s := <-signals:
			if err := signalGroup(group, s.(syscall.Signal)); err != nil {
				return 1, err
			}
			kill = time.After(stopGrace)
		case <-orphaned:
			orphaned = nil
			if err := signalGroup(group, syscall.SIGTERM); err != nil {
				return 1, err
			}
			kill = time.After(stopGrace)
		case <-kill:
			say(stderr, "%s did not end within %v of the signal; killing it", command[0], stopGrace)
			if err := signalGroup(group, syscall.SIGKILL); err != nil {
				return 1, err
			}
		}
	}
}

func signalGroup(group int, s syscall.Signal) error {
	if err := syscall.Kill(group, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to the command: %w", s, err)
	}
	return nil
}

// exitCode is the command's status as a shell gives it.
func exitCode(cmd *exec.Cmd) int {
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
