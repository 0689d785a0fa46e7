package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy listens on a port of 127.0.0.1 and forwards to one server. Its methods
// may be called from any goroutine.
type Proxy struct {
	target *url.URL
	url    url.URL
	wires  func() wire
	wait   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	armed    []*Armed
	links    map[*link]struct{}
	count    int
	silent   bool
	closed   bool
	problems []error
}

// Start makes a proxy for the server behind a URL (postgres://, mysql://,
// nats://) and closes it with the test.
func Start(t testing.TB, serverURL string) *Proxy {
	t.Helper()
	p, err := New(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// New makes a proxy; close it.
func New(serverURL string) (*Proxy, error) {
	target, err := url.Parse(serverURL)
	if err != nil || target.Port() == "" {
		// The parser's own error would print the password.
		return nil, errors.New("proxy: not a URL of the form scheme://user:password@host:port/…")
	}
	p := &Proxy{target: target, url: *target, links: map[*link]struct{}{}}
	switch target.Scheme {
	case "postgres", "postgresql":
		p.wires = newPostgreSQLWire
	case "mysql", "mariadb":
		p.wires = newMySQLWire
	case "nats":
		p.wires = newNATSWire
	default:
		return nil, fmt.Errorf("proxy: scheme %q is none of postgres, mysql, nats", target.Scheme)
	}
	p.url.Host = "127.0.0.1:0"
	if err := p.Accept(); err != nil {
		return nil, err
	}
	return p, nil
}

// URL is the server's URL by way of the proxy.
func (p *Proxy) URL() string { return p.url.String() }

// Arm adds a fault. Several may be armed; the first that matches happens.
func (p *Proxy) Arm(f Fault) *Armed {
	if f.Do < CutBefore || f.Do > Delay {
		panic("proxy: a fault without an action")
	}
	if f.On == nil {
		f.On = func(Message) bool { return true }
	}
	a := &Armed{fault: f, fired: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, a)
	return a
}

// take returns the fault that happens at m, and disarms it.
func (p *Proxy) take(m Message) *Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.armed {
		if !a.fault.On(m) {
			continue
		}
		if a.fault.Pass > 0 {
			a.fault.Pass--
			continue
		}
		p.armed = append(p.armed[:i], p.armed[i+1:]...)
		return a
	}
	return nil
}

// Refuse closes the port: new connections are refused, those that are there go
// on. Accept undoes it.
func (p *Proxy) Refuse() error {
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.Close()
}

// Accept opens the port again.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("proxy: closed")
	}
	if p.listener != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", p.url.Host)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	p.listener, p.url.Host = l, l.Addr().String()
	p.wait.Go(func() { p.serve(l) })
	return nil
}

func (p *Proxy) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.problem(fmt.Errorf("proxy: accept: %w", err))
			}
			return
		}
		p.wait.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	server, err := dialer.Dial("tcp", p.target.Host)
	if err != nil {
		// The server is down, which the client shall see as such.
		client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, wire: p.wires(), done: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.cut()
		return
	}
	p.count++
	l.id, l.silent = p.count, p.silent
	p.links[l] = struct{}{}
	p.mu.Unlock()

	var both sync.WaitGroup
	both.Go(l.fromClient)
	both.Go(l.fromServer)
	both.Wait()
	<-l.done // a silent link outlives both its ends
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) all() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*link
	for l := range p.links {
		all = append(all, l)
	}
	return all
}

// CutAll cuts every connection there is, the silent ones too.
func (p *Proxy) CutAll() {
	for _, l := range p.all() {
		l.cut()
	}
}

// Silence makes every connection silent, those to come as well, which get as
// far as the TCP handshake. A connection stays silent for good; Speak is for
// those to come.
func (p *Proxy) Silence() {
	p.mu.Lock()
	p.silent = true
	p.mu.Unlock()
	for _, l := range p.all() {
		l.silence()
	}
}

// Speak lets new connections through again after Silence.
func (p *Proxy) Speak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = false
}

func (p *Proxy) problem(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, err)
}

// Close cuts everything, waits for the proxy's goroutines, and returns what
// went wrong with the proxy itself (a connection that it couldn't read).
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.Refuse()
	p.CutAll()
	p.wait.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(append(p.problems, err)...)
}
