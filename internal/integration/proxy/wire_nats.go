package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// longestLine bounds a control line; the server's own limit is 4 KiB.
const longestLine = 1 << 20

// natsWire follows the NATS client protocol: a control line, for some followed
// by as many bytes as its last word says. NATS has no replies as such; the
// awaited one is the next message that the server delivers.
type natsWire struct {
	awaited bool
}

func newNATSWire() wire { return &natsWire{} }

func (w *natsWire) fromClient(buf []byte) (int, error) { return natsMessage(buf) }

func (w *natsWire) fromServer(buf []byte) (int, error) { return natsMessage(buf) }

func natsMessage(buf []byte) (int, error) {
	end := bytes.Index(buf, []byte("\r\n"))
	if end < 0 {
		if len(buf) > longestLine {
			return 0, fmt.Errorf("a control line of more than %d bytes: this is not NATS's protocol", longestLine)
		}
		return 0, nil
	}
	size := end + 2
	words := strings.Fields(string(buf[:end]))
	if len(words) > 1 {
		switch strings.ToUpper(words[0]) {
		case "PUB", "HPUB", "MSG", "HMSG":
			n, err := strconv.Atoi(words[len(words)-1])
			if err != nil || n < 0 || n > mostBuffered {
				return 0, fmt.Errorf("control line %q has no size", words)
			}
			size += n + 2
		}
	}
	if len(buf) < size {
		return 0, nil
	}
	return size, nil
}

func (w *natsWire) text(m []byte) string {
	line, _, _ := bytes.Cut(m, []byte("\r\n"))
	if bytes.HasPrefix(line, []byte("CONNECT")) {
		return "CONNECT" // the rest holds the password
	}
	return string(line)
}

func (w *natsWire) expect() { w.awaited = true }

func (w *natsWire) sent([]byte) {}

func (w *natsWire) received(m []byte) (reply, complete bool) {
	if !w.awaited || !(bytes.HasPrefix(m, []byte("MSG ")) || bytes.HasPrefix(m, []byte("HMSG "))) {
		return false, false
	}
	w.awaited = false
	return true, true
}
