package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Message is one message from a client.
type Message struct {
	// Connection counts the connections from 1 in the order they were made.
	Connection int
	// Text is what the message has the server do: the SQL of a PostgreSQL
	// Query or Execute (found through Bind and Parse), of a MySQL COM_QUERY or
	// COM_STMT_EXECUTE; the control line of a NATS message. Empty for others.
	Text string
	// Raw is the whole message as sent; valid only during the match.
	Raw []byte
}

// Match picks the message at which a fault happens. It is called for every
// message of every connection, one at a time.
type Match func(Message) bool

// Commit matches SQL that commits, also as one statement of several.
func Commit(m Message) bool {
	for statement := range strings.SplitSeq(m.Text, ";") {
		words := strings.Fields(statement)
		if len(words) > 0 && strings.EqualFold(words[0], "COMMIT") {
			return true
		}
	}
	return false
}

// Contains matches a text with part in it, in any case of letters.
func Contains(part string) Match {
	part = strings.ToLower(part)
	return func(m Message) bool { return strings.Contains(strings.ToLower(m.Text), part) }
}

// Action is what happens at the match.
type Action int

// What a fault does. "Cut" closes both sides. "Silent" keeps both open and
// swallows every byte, also a side's closing: the server's half of a dead
// connection stays as it would behind a broken network.
const (
	// CutBefore cuts; the server never sees the message.
	CutBefore Action = iota + 1
	// CutAfterReply lets the server do it, waits for the whole reply, drops it
	// and cuts.
	CutAfterReply
	// SilentBefore goes silent; the server never sees the message.
	SilentBefore
	// SilentAfterReply lets the server do it, waits for the whole reply, drops
	// it and goes silent.
	SilentAfterReply
	// Delay holds the message, and what follows it, for Fault.Delay.
	Delay
)

// Fault is one thing that goes wrong, once.
type Fault struct {
	// On picks the message; nil is the next one.
	On Match
	// Pass lets that many matches through first.
	Pass int
	Do   Action
	// Delay is for the action of that name.
	Delay time.Duration
}

// Armed is a fault that is yet to happen, or has.
type Armed struct {
	fault Fault
	fired chan struct{}
	err   error
}

// Fired is closed when the fault has happened: the connection is cut, or
// silent, or the delay begins. It is also closed when a server ended the
// connection before the awaited reply; Err tells.
func (a *Armed) Fired() <-chan struct{} { return a.fired }

// Err is nil when the fault happened as asked. Call it after Fired.
func (a *Armed) Err() error { return a.err }

// Wait waits until the fault has happened, and returns Err.
func (a *Armed) Wait(ctx context.Context) error {
	select {
	case <-a.fired:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("proxy: the fault has not happened: %w", context.Cause(ctx))
	}
}

func (a *Armed) fire(err error) {
	a.err = err
	close(a.fired)
}
