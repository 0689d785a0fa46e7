package yekbar

import (
	"slices"
	"time"
)

// A Message is one delivery's content; its fields follow CloudEvents 1.0. It
// is data only: no context, no acknowledgement.
type Message struct {
	// ID says, together with Source, which message this is. Empty means that
	// none was found; it never means "guess one".
	ID string
	// Source is the CloudEvents source (a URI reference), or empty.
	Source string
	// Type is the CloudEvents type.
	Type string
	// Subject is the CloudEvents subject.
	Subject string
	// Time is when it happened, by the producer's clock. Yekbar never
	// compares it with anything.
	Time time.Time
	// Topic is where the message came from, or where it goes.
	Topic string
	// OrderingKey groups messages that keep their order. It is not an
	// identity.
	OrderingKey string
	// Header holds the transport's headers in wire order.
	Header Header
	// Payload is the content, never interpreted by Yekbar.
	Payload []byte
}

// handlerCopy is what a handler may change without changing the message that
// the fingerprint, the identity and a dead letter come from. The payload is
// shared: handlers read it.
func (m *Message) handlerCopy() *Message {
	c := *m
	c.Header = slices.Clone(m.Header)
	return &c
}
