package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const killSignal = syscall.SIGKILL

// readyBound is how long a server may take until it answers.
const readyBound = 60 * time.Second

// Options describe a server of a test's own. The zero value is a fast server
// with defaults.
type Options struct {
	// Fsync makes commits durable against a power cut, as in production. Off,
	// they survive a SIGKILL of the server only, and are several times faster.
	Fsync bool
	// Language of the server's messages: "" for English, "de" for German.
	// PostgreSQL and MariaDB only.
	Language string
	// Settings are set at the server's start: PostgreSQL parameters, MariaDB
	// options (without the leading --), lines of PgBouncer's [pgbouncer]
	// section or of the NATS configuration's top level.
	Settings map[string]string
	// Upstream is the PostgreSQL that a PgBouncer stands in front of; the
	// database in it does not matter.
	Upstream string
}

// plan is how one kind of server is run: made once, used at each start.
type plan struct {
	account     account
	program     string
	args        []string
	env         []string
	url         string
	stop        []stopStep
	parentDeath syscall.Signal
	ready       func(context.Context) error
	removed     func() error // after the data's last use; may be nil
}

// Server is a running server. Its methods may be called from any goroutine,
// one at a time.
type Server struct {
	kind Kind
	dir  string
	log  string
	plan plan

	mu     sync.Mutex
	proc   *process
	family []int // paused with proc
	killed bool
	closed bool
}

// URL is where the server answers, with a user who may do everything. It stays
// the same over Restart. For PgBouncer and PostgreSQL it names the database
// postgres, for MariaDB one called yekbar.
func (s *Server) URL() string { return s.plan.url }

// Kind tells what it is.
func (s *Server) Kind() Kind { return s.kind }

// PID is the process id of the server's first process, 0 when it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.alive() {
		return 0
	}
	return s.proc.pid()
}

// Log returns the end of the server's log.
func (s *Server) Log() string { return tail(s.log) }

// Start starts a server. Whoever calls it stops it with Stop, or all of them
// with Shutdown. Tests use StartPostgreSQL and its like.
func Start(ctx context.Context, kind Kind, o Options) (*Server, error) {
	f, err := openFolder()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(f.run, strings.ToLower(string(kind))+"-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	s := &Server{kind: kind, dir: dir, log: filepath.Join(dir, "server.log")}
	if s.plan, err = makePlan(ctx, f, kind, dir, o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := register(s); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func makePlan(ctx context.Context, f *folder, kind Kind, dir string, o Options) (plan, error) {
	switch kind {
	case KindPostgreSQL:
		return planPostgreSQL(f, dir, o)
	case KindMariaDB:
		return planMariaDB(f, dir, o)
	case KindPgBouncer:
		return planPgBouncer(dir, o)
	case KindNATS:
		return planNATS(ctx, f, dir, o)
	}
	return plan{}, fmt.Errorf("no server of kind %q", kind)
}

// start runs the program and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("%s is stopped for good", s.kind)
	}
	log, err := os.OpenFile(s.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.plan.account.command(s.dir, s.plan.program, s.plan.args...)
	cmd.Env = append(cmd.Env, s.plan.env...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := spawn(cmd, s.plan.parentDeath)
	if err != nil {
		return err
	}
	s.proc, s.killed = p, false
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(errors.New("the server ended"))
		case <-ctx.Done():
		}
	}()
	if err := poll(ctx, readyBound, s.plan.ready); err != nil {
		return errors.Join(fmt.Errorf("%s does not answer: %w; the end of its log:\n%s", s.kind, err, tail(s.log)), p.kill())
	}
	return nil
}

// Kill ends the whole server at once with SIGKILL, the first process and all
// its children, and returns when they are gone. The data stays for Restart.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.diedAlone(); err != nil || s.proc == nil {
		return err
	}
	s.killed = true
	s.family = nil
	return s.proc.kill()
}

// Stop ends the server in order; when it doesn't within a bound, by SIGKILL.
// The data stays for Restart. It is an error when the server had died by
// itself.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halt()
}

func (s *Server) halt() error {
	if err := s.diedAlone(); err != nil || s.proc == nil || s.killed {
		return err
	}
	if err := s.resume(); err != nil {
		return err
	}
	s.killed = true
	return s.proc.stop(s.plan.stop)
}

// diedAlone reports a server that ended though nobody here ended it.
func (s *Server) diedAlone() error {
	if s.proc == nil || s.killed || s.proc.alive() {
		return nil
	}
	s.killed = true
	how := "without an error"
	if s.proc.err != nil {
		how = s.proc.err.Error()
	}
	return fmt.Errorf("%s ended by itself (%s); the end of its log:\n%s", s.kind, how, tail(s.log))
}

// Restart starts a killed or stopped server again on the same port and data; a
// running one is stopped first. It returns when the server answers.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.halt(); err != nil {
		return err
	}
	return s.start(context.Background())
}

// Pause freezes every process of the server (SIGSTOP): it keeps its
// connections and answers nothing.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.diedAlone(); err != nil {
		return err
	}
	if s.proc == nil || s.killed {
		return fmt.Errorf("%s is down: nothing to pause", s.kind)
	}
	family, err := s.proc.family()
	if err != nil {
		return err
	}
	for _, pid := range family {
		if err := killPID(pid, syscall.SIGSTOP); err != nil {
			return err
		}
	}
	s.family = append(family, s.proc.pid())
	return nil
}

// Resume lets a paused server go on (SIGCONT).
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume()
}

func (s *Server) resume() error {
	for _, pid := range s.family {
		if err := killPID(pid, syscall.SIGCONT); err != nil {
			return err
		}
	}
	s.family = nil
	return nil
}

// Close stops the server for good and removes its data.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.close()
}

func (s *Server) close() error {
	if s.closed {
		return nil
	}
	err := s.halt()
	if s.plan.removed != nil {
		err = errors.Join(err, s.plan.removed())
	}
	s.closed = true
	unregister(s)
	return errors.Join(err, os.RemoveAll(s.dir))
}

// registry knows every server of this process, for Shutdown.
var registry struct {
	sync.Mutex
	over    bool
	servers []*Server
}

func register(s *Server) error {
	registry.Lock()
	defer registry.Unlock()
	if registry.over {
		return errors.New("the servers of this process are shut down")
	}
	registry.servers = append(registry.servers, s)
	return nil
}

func unregister(s *Server) {
	registry.Lock()
	defer registry.Unlock()
	for i, other := range registry.servers {
		if other == s {
			registry.servers = append(registry.servers[:i], registry.servers[i+1:]...)
			return
		}
	}
}

// Shutdown stops every server that this process started and removes their
// data; none can be started afterwards.
func Shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), databaseBound)
	defer cancel()
	idleErr := dropIdle(ctx)
	registry.Lock()
	registry.over = true
	all := append([]*Server(nil), registry.servers...)
	registry.Unlock()
	problems := make([]error, len(all))
	var wait sync.WaitGroup
	for i, s := range all {
		wait.Go(func() { problems[i] = s.Close() })
	}
	wait.Wait()
	err := errors.Join(errors.Join(problems...), idleErr)
	if opened.Load() {
		f, openErr := openFolder()
		err = errors.Join(err, openErr, f.remove())
	}
	return err
}
