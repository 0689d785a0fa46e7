// Package broker is the broker seam: what an adapter implements. Users only
// pass adapters on.
//
// Implementing an adapter elsewhere is supported: brokertest tests exactly
// what Capabilities declares.
package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/yekbar-go/yekbar"
)

// A Source delivers messages at least once. It is safe for concurrent use.
type Source interface {
	// Receive waits for one to limit deliveries. It returns ctx.Err(),
	// ErrClosed, or an outage (ErrOutage); after an outage it may be called
	// again, and the source reconnects by itself.
	Receive(ctx context.Context, limit int) ([]Delivery, error)
	// Capabilities declares what the broker can do, without connecting.
	Capabilities() Capabilities
	// Close stops receiving and gives back what was not settled, whose Lost
	// it closes.
	Close(ctx context.Context) error
}

// A Delivery is one delivered message. Exactly one of Ack and Nack may
// succeed; after that both return ErrSettled. It is safe for concurrent use.
type Delivery interface {
	// Message returns the message, or the reason why there is none (then Raw
	// still works). Each call returns a copy that is the caller's own.
	Message() (*yekbar.Message, error)
	// Raw returns the undecoded delivery.
	Raw() []byte
	// Coordinates names the message's place in the broker, such as its stream
	// and sequence. With Capabilities.StableID it is the same in every
	// delivery of the message, and no other message's; else it may be empty.
	Coordinates() string
	// Attempt returns the broker's count from 1, or 0 when it doesn't count;
	// redelivered is a hint.
	Attempt() (n int, redelivered bool)
	// Ack settles it as done and returns when the broker has confirmed,
	// where it confirms.
	Ack(ctx context.Context) error
	// Nack gives it back; delay is honoured where Capabilities.NackDelay
	// says so.
	Nack(ctx context.Context, delay time.Duration) error
	// Extend renews the lease to its full length, and returns an error where
	// Capabilities.Extendable is false.
	Extend(ctx context.Context) error
	// Lost is closed when the lease, partition or channel is gone; settling
	// then fails with ErrLost.
	Lost() <-chan struct{}
}

// A Publisher sends messages. It is safe for concurrent use.
type Publisher interface {
	// Publish returns nil when the broker has confirmed and routed all, else
	// a *PublishError or an outage (ErrOutage).
	Publish(ctx context.Context, ms []*yekbar.Message) error
	// MaxSize returns the largest payload in bytes, or 0 when unknown.
	MaxSize() int
	Close(ctx context.Context) error
}

// A PublishError says which messages were confirmed; an index in neither list
// counts as failed.
type PublishError struct {
	Confirmed []int
	Failed    map[int]error
}

func (e *PublishError) Error() string {
	first := -1
	for i := range e.Failed {
		if first < 0 || i < first {
			first = i
		}
	}
	if first < 0 {
		return fmt.Sprintf("yekbar/broker: only %d messages were confirmed", len(e.Confirmed))
	}
	return fmt.Sprintf("yekbar/broker: %d messages failed, %d were confirmed; the first, message %d: %v",
		len(e.Failed), len(e.Confirmed), first, e.Failed[first])
}

// Unwrap returns the errors of the failed messages.
func (e *PublishError) Unwrap() []error {
	errs := make([]error, 0, len(e.Failed))
	for _, err := range e.Failed {
		errs = append(errs, err)
	}
	return errs
}

// Capabilities declares what a source's broker does.
type Capabilities struct {
	StableID    bool          // Delivery.Coordinates survives redelivery
	Counts      bool          // Attempt is the broker's count
	NackDelay   bool          // Nack's delay is honoured
	Lease       time.Duration // how long a delivery may stay unsettled; 0: no limit
	Extendable  bool          // Extend works
	Order       Order         // what order the broker keeps
	AckInOrder  bool          // the adapter commits a contiguous prefix: a held delivery holds back all after it
	ConfirmsAck bool          // Ack's nil means that the broker has it
	Redelivery  time.Duration // the longest time after which it may deliver again; 0: unknown
	ManyTopics  bool          // covers several topics: the consumer must say whose IDs they are (Config.Scope)
	MaxAttempts int           // the broker's own delivery limit; 0: none
	KeyAffinity bool          // messages of one ordering key go to one process at a time
	// Subscription names what is consumed ("nats ORDERS/inventory"), without
	// hosts or credentials: it must stay the same over restarts.
	Subscription string
}

// A Stamped delivery knows when the broker received it.
type Stamped interface {
	// ReceivedAt is by the broker's clock; zero: unknown.
	ReceivedAt() time.Time
}

// A Positioner is a Source whose broker keeps what was acknowledged and can go
// back to it. Implementing it is optional.
type Positioner interface {
	// Positions returns, by partition, how far the subscription has
	// acknowledged: everything before it.
	Positions(ctx context.Context) (map[string]string, error)
	// Acknowledged yields messages that were acknowledged, the last ones
	// first, down to the given positions, at most limit of each partition. A
	// partition that from does not name is yielded down to limit.
	Acknowledged(ctx context.Context, from map[string]string, limit int) iter.Seq2[*yekbar.Message, error]
	// Rewind makes everything from the given positions on be delivered again,
	// also what was acknowledged. No Source of the subscription may be
	// receiving.
	Rewind(ctx context.Context, positions map[string]string) error
}

// Order is the order a broker keeps.
type Order uint8

const (
	Unordered Order = iota
	PerKey
	Total
)

// Sentinels for errors.Is.
var (
	ErrClosed     = errors.New("yekbar/broker: closed")
	ErrLost       = errors.New("yekbar/broker: delivery no longer ours")
	ErrSettled    = errors.New("yekbar/broker: delivery already settled")
	ErrOutage     = errors.New("yekbar/broker: broker unreachable")
	ErrUnroutable = errors.New("yekbar/broker: message not routed")
	ErrTooLarge   = errors.New("yekbar/broker: message too large")
)
