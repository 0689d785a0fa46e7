package natsbroker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/cloudevents"
)

var binding = cloudevents.NATS

// msgIDHeader is the header by which the server recognises repeats.
const msgIDHeader = jetstream.MsgIDHeader

// A wireMsg is what a message is decoded from.
type wireMsg interface {
	Headers() nats.Header
	Data() []byte
	Subject() string
}

func decode(msg wireMsg) (*yekbar.Message, error) {
	m := &yekbar.Message{Topic: msg.Subject(), Header: header(msg.Headers()), Payload: msg.Data()}
	structured, err := isStructured(m.Header)
	switch {
	case err != nil:
		return nil, err
	case structured:
		err = binding.ReadStructured(msg.Data(), m)
	default:
		err = binding.Read(m.Header, m)
	}
	if err != nil {
		return nil, err
	}
	if m.ID == "" && !structured {
		ids := m.Header.Values(msgIDHeader)
		for _, id := range ids[min(1, len(ids)):] {
			if string(id) != string(ids[0]) {
				return nil, errors.New("the header " + msgIDHeader + " stands there twice, with different values")
			}
		}
		m.ID = m.Header.Get(msgIDHeader)
	}
	return m, nil
}

func isStructured(h yekbar.Header) (bool, error) {
	for _, f := range h {
		if strings.EqualFold(f.Name, "content-type") {
			if is, err := cloudevents.Structured(string(f.Value)); is || err != nil {
				return is, err
			}
		}
	}
	return false, nil
}

// header lists a map of headers, names sorted, each name's values in order.
func header(in nats.Header) yekbar.Header {
	if len(in) == 0 {
		return nil
	}
	h := make(yekbar.Header, 0, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		for _, v := range in[name] {
			h = append(h, yekbar.HeaderField{Name: name, Value: []byte(v)})
		}
	}
	return h
}

// raw returns a message as NATS carries it: the block of headers, when there
// are any, names sorted, then the payload. It is the same for each delivery.
func raw(msg jetstream.Msg) []byte {
	var b []byte
	if h := header(msg.Headers()); len(h) > 0 {
		b = append(b, "NATS/1.0\r\n"...)
		for _, f := range h {
			b = fmt.Appendf(b, "%s: %s\r\n", f.Name, f.Value)
		}
		b = append(b, "\r\n"...)
	}
	return append(b, msg.Data()...)
}

// encode returns what is sent for m. Fields of the message win over headers
// that stand for the same.
func (p *Publisher) encode(m *yekbar.Message) (*nats.Msg, error) {
	if !literal(m.Topic) {
		return nil, fmt.Errorf("the topic %q is no subject to publish to", m.Topic)
	}
	msg := &nats.Msg{Subject: m.Topic, Header: nats.Header{}, Data: m.Payload}
	attributes, err := binding.Write(m)
	if err != nil {
		return nil, err
	}
	for _, f := range attributes {
		msg.Header[f.Name] = []string{string(f.Value)}
	}
	for _, f := range m.Header {
		if binding.Owns(f.Name) || f.Name == msgIDHeader && m.ID != "" {
			continue
		}
		if problem := headerProblem(f); problem != "" {
			return nil, fmt.Errorf("NATS can't carry the header %q: %s", f.Name, problem)
		}
		if len(m.Payload) == 0 && f.Name == "Status" {
			return nil, errors.New("NATS takes an empty payload with the header \"Status\" for a notice of the server's")
		}
		msg.Header[f.Name] = append(msg.Header[f.Name], string(f.Value))
	}
	if id := p.msgID(m); id != "" {
		msg.Header[msgIDHeader] = []string{id}
	}
	return msg, nil
}

// msgID is what the server recognises repeats by, within one stream whatever
// the subject; so the subject is a part of it: the same event on two subjects
// is two messages.
func (p *Publisher) msgID(m *yekbar.Message) string {
	id, err := m.Identity()
	if err != nil || p.config.AcceptRepeats {
		return ""
	}
	id = m.Topic + " " + id
	if headerProblem(yekbar.HeaderField{Name: msgIDHeader, Value: []byte(id)}) != "" {
		return ""
	}
	return id
}

func headerProblem(f yekbar.HeaderField) string {
	v := string(f.Value)
	switch {
	case f.Name == "" || strings.ContainsFunc(f.Name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }):
		return "its name is empty or not printable ASCII, or has a space or colon"
	case strings.ContainsAny(v, "\r\n"):
		return "its value has a line break"
	case strings.Trim(v, " \t\r\n") != v:
		return "its value begins or ends with a space or tab"
	}
	return ""
}

// literal reports whether a subject is one to publish to: no empty token, no
// wildcard, no space.
func literal(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || token == "*" || token == ">" || strings.ContainsAny(token, " \t\r\n\x00") {
			return false
		}
	}
	return true
}
