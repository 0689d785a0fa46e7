package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// wire reads one connection's protocol. Its methods are called under the
// link's lock.
type wire interface {
	// fromClient and fromServer return the size of the first whole message in
	// buf, 0 when more bytes are needed.
	fromClient(buf []byte) (int, error)
	fromServer(buf []byte) (int, error)
	// text tells what a client's message has the server do.
	text(message []byte) string
	// expect says that the reply to the client's message, not sent yet, is
	// waited for.
	expect()
	// sent notes that a client's message goes to the server.
	sent(message []byte)
	// received notes a server's message, and tells whether it belongs to the
	// expected reply and whether that is complete.
	received(message []byte) (reply, complete bool)
}

// mostBuffered bounds a message.
const mostBuffered = 64 << 20

// link is one client's connection and its other half.
type link struct {
	proxy          *Proxy
	id             int
	client, server net.Conn
	once           sync.Once
	done           chan struct{} // closed by cut

	mu      sync.Mutex
	wire    wire
	silent  bool
	pending *Armed // waits for its reply
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
	})
}

func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = true
}

// ended handles the end of one side: it is passed on, unless the link is
// silent.
func (l *link) ended() {
	l.mu.Lock()
	silent, pending := l.silent, l.pending
	l.pending = nil
	l.mu.Unlock()
	if pending != nil {
		pending.fire(errors.New("proxy: the connection ended before the server's reply"))
	}
	if !silent {
		l.cut()
	}
}

func (l *link) fromClient() {
	l.pump(l.client, l.server, l.wire.fromClient, l.clientMessage)
}

func (l *link) fromServer() {
	l.pump(l.server, l.client, l.wire.fromServer, l.serverMessage)
}

// verdict is what becomes of a message, and what to do once all before it is
// on its way.
type verdict struct {
	drop bool
	then func() (goOn bool)
}

// pump forwards messages until a side ends.
func (l *link) pump(from, to net.Conn, split func([]byte) (int, error), judge func([]byte) verdict) {
	chunk := make([]byte, 64<<10)
	var buf, out []byte
	for {
		n, err := from.Read(chunk)
		if err != nil {
			l.ended()
			return
		}
		buf = append(buf, chunk[:n]...)
		for {
			l.mu.Lock()
			size, silent := 0, l.silent
			if silent {
				buf = buf[:0]
			} else if size, err = split(buf); err == nil && size == 0 && len(buf) > mostBuffered {
				err = fmt.Errorf("a message of more than %d bytes", mostBuffered)
			}
			l.mu.Unlock()
			if err != nil {
				l.proxy.problem(fmt.Errorf("proxy: connection %d: %w", l.id, err))
				l.ended()
				return
			}
			if size == 0 {
				break
			}
			v := judge(buf[:size])
			if v.then != nil {
				arrived := send(to, &out)
				if !v.then() || !arrived {
					l.ended()
					return
				}
			}
			if !v.drop {
				out = append(out, buf[:size]...)
			}
			buf = buf[size:]
		}
		if !send(to, &out) {
			l.ended()
			return
		}
	}
}

// send writes what has gathered; false when that side is gone.
func send(to net.Conn, out *[]byte) bool {
	if len(*out) == 0 {
		return true
	}
	_, err := to.Write(*out)
	*out = (*out)[:0]
	return err == nil
}

func (l *link) clientMessage(message []byte) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.proxy.take(Message{Connection: l.id, Text: l.wire.text(message), Raw: message})
	if a == nil {
		l.wire.sent(message)
		return verdict{}
	}
	switch a.fault.Do {
	case CutBefore:
		return verdict{drop: true, then: func() bool {
			l.cut()
			a.fire(nil)
			return false
		}}
	case SilentBefore:
		return verdict{drop: true, then: func() bool {
			l.silence()
			a.fire(nil)
			return true
		}}
	case Delay:
		l.wire.sent(message)
		return verdict{then: func() bool {
			a.fire(nil)
			timer := time.NewTimer(a.fault.Delay)
			defer timer.Stop()
			select {
			case <-timer.C:
				return true
			case <-l.done:
				return false
			}
		}}
	default: // CutAfterReply, SilentAfterReply
		if l.pending != nil {
			a.fire(errors.New("proxy: another fault already waits for a reply on this connection"))
		} else {
			l.pending = a
			l.wire.expect()
		}
		l.wire.sent(message)
		return verdict{}
	}
}

func (l *link) serverMessage(message []byte) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	reply, complete := l.wire.received(message)
	a := l.pending
	if a == nil || !reply {
		return verdict{}
	}
	if !complete {
		return verdict{drop: true}
	}
	l.pending = nil
	return verdict{drop: true, then: func() bool {
		if a.fault.Do == CutAfterReply {
			l.cut()
			a.fire(nil)
			return false
		}
		l.silence()
		a.fire(nil)
		return true
	}}
}
