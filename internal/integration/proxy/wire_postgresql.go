package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The codes in place of a version in a client's first message; PostgreSQL
// manual, "Message Formats".
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// postgresqlWire follows the frontend/backend protocol, version 3. A reply is
// complete with the ReadyForQuery that answers a Query, Sync or FunctionCall.
type postgresqlWire struct {
	started    bool // the startup message was sent
	oneByte    bool // the server's next byte answers a request for encryption
	encrypted  bool
	statements map[string]string // prepared statement: SQL
	portals    map[string]string
	asked      int // requests for a ReadyForQuery; the startup is the first
	answered   int
	expected   int // the number of the awaited ReadyForQuery
}

func newPostgreSQLWire() wire {
	return &postgresqlWire{statements: map[string]string{}, portals: map[string]string{}}
}

func (w *postgresqlWire) fromClient(buf []byte) (int, error) {
	if w.encrypted {
		return 0, errors.New("PostgreSQL over TLS can't be read; connect with sslmode=disable")
	}
	if !w.started {
		return lengthPrefixed(buf, 0)
	}
	return lengthPrefixed(buf, 1)
}

func (w *postgresqlWire) fromServer(buf []byte) (int, error) {
	if w.oneByte {
		return min(len(buf), 1), nil
	}
	return lengthPrefixed(buf, 1)
}

// lengthPrefixed reads a 4-byte length that counts itself, after skip bytes.
func lengthPrefixed(buf []byte, skip int) (int, error) {
	if len(buf) < skip+4 {
		return 0, nil
	}
	size := int64(binary.BigEndian.Uint32(buf[skip:]))
	if size < 4 || size > mostBuffered {
		return 0, fmt.Errorf("a message of %d bytes: this is not PostgreSQL's protocol", size)
	}
	if int64(len(buf)) < int64(skip)+size {
		return 0, nil
	}
	return skip + int(size), nil
}

func (w *postgresqlWire) text(m []byte) string {
	if !w.started {
		return ""
	}
	switch m[0] {
	case 'Q':
		sql, _ := cString(m[5:])
		return sql
	case 'E':
		portal, _ := cString(m[5:])
		return w.portals[portal]
	}
	return ""
}

// cString reads bytes up to a NUL and returns the rest.
func cString(b []byte) (string, []byte) {
	s, rest, _ := bytes.Cut(b, []byte{0})
	return string(s), rest
}

func (w *postgresqlWire) expect() { w.expected = w.asked + 1 }

func (w *postgresqlWire) sent(m []byte) {
	if !w.started {
		if len(m) < 8 {
			return
		}
		switch binary.BigEndian.Uint32(m[4:]) {
		case sslRequest, gssRequest:
			w.oneByte = true
		case cancelRequest:
		default:
			w.started = true
			w.asked++
		}
		return
	}
	switch m[0] {
	case 'Q', 'S', 'F':
		w.asked++
	case 'P':
		name, rest := cString(m[5:])
		w.statements[name], _ = cString(rest)
	case 'B':
		portal, rest := cString(m[5:])
		statement, _ := cString(rest)
		w.portals[portal] = w.statements[statement]
	}
}

func (w *postgresqlWire) received(m []byte) (reply, complete bool) {
	if w.oneByte {
		w.oneByte = false
		w.encrypted = m[0] != 'N'
		return false, false
	}
	reply = w.expected > 0 && w.answered == w.expected-1
	if m[0] == 'Z' {
		w.answered++
		complete = reply
	}
	return reply, complete
}
