package proxy

import (
	"encoding/binary"
	"errors"
)

// Commands of the MySQL protocol, MariaDB manual "Client/Server Protocol".
const (
	comQuery       = 0x03
	comStmtPrepare = 0x16
	comStmtExecute = 0x17
)

const mysqlHeader = 4 // length in 3 bytes, sequence number

// clientSSL is the capability with which a client asks for TLS.
const clientSSL = 0x800

// mysqlWire follows the MySQL protocol. A command starts at sequence number 0;
// the first packet of the server after it is its reply, complete when it is OK
// or an error, which is what statements without rows get.
type mysqlWire struct {
	greeted    bool              // the client's handshake response was sent
	encrypted  bool              // it asked for TLS
	statements map[uint32]string // prepared statement: SQL
	preparing  string            // SQL whose statement id is to come
	waiting    bool              // the server's next packet is the awaited reply
	awaited    bool              // expect was called for the message being sent
}

func newMySQLWire() wire { return &mysqlWire{statements: map[uint32]string{}} }

func (w *mysqlWire) fromClient(buf []byte) (int, error) {
	if w.encrypted {
		return 0, errors.New("MySQL over TLS can't be read; connect with tls=false")
	}
	return mysqlPacket(buf)
}

func (w *mysqlWire) fromServer(buf []byte) (int, error) { return mysqlPacket(buf) }

func mysqlPacket(buf []byte) (int, error) {
	if len(buf) < mysqlHeader {
		return 0, nil
	}
	size := mysqlHeader + (int(buf[0]) | int(buf[1])<<8 | int(buf[2])<<16)
	if len(buf) < size {
		return 0, nil
	}
	return size, nil
}

// command returns the command byte and what follows, ok only at the start of a
// command.
func command(m []byte) (byte, []byte, bool) {
	if m[3] != 0 || len(m) <= mysqlHeader {
		return 0, nil, false
	}
	return m[mysqlHeader], m[mysqlHeader+1:], true
}

func (w *mysqlWire) text(m []byte) string {
	c, body, ok := command(m)
	switch {
	case ok && c == comQuery:
		return string(body)
	case ok && c == comStmtExecute && len(body) >= 4:
		return w.statements[binary.LittleEndian.Uint32(body)]
	}
	return ""
}

func (w *mysqlWire) expect() { w.awaited = true }

func (w *mysqlWire) sent(m []byte) {
	if !w.greeted {
		w.greeted = true
		body := m[mysqlHeader:]
		w.encrypted = len(body) >= 4 && binary.LittleEndian.Uint32(body)&clientSSL != 0
		return
	}
	w.preparing = ""
	if c, body, ok := command(m); ok && c == comStmtPrepare {
		w.preparing = string(body)
	}
	if w.awaited {
		w.awaited, w.waiting = false, true
	}
}

func (w *mysqlWire) received(m []byte) (reply, complete bool) {
	body := m[mysqlHeader:]
	if w.preparing != "" && len(body) >= 5 && body[0] == 0 {
		w.statements[binary.LittleEndian.Uint32(body[1:])] = w.preparing
	}
	w.preparing = ""
	reply = w.waiting
	w.waiting = false
	return reply, reply
}
