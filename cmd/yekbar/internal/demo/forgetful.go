package demo

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/yekbar-go/yekbar/broker"
)

// How many of a thousand first deliveries are delivered again although they
// were handled and acknowledged.
const (
	acksLost   = 20 // the acknowledgement gets lost; the broker waits for it
	acksTurned = 30 // it arrives as "give it to me again", which the broker does at once
)

// forgetful is a source whose acknowledgements do not all arrive: what a lost
// connection or a slow worker does to a broker, only more often.
type forgetful struct {
	broker.Source
	mu     sync.Mutex
	random *rand.Rand
}

func newForgetful(s broker.Source, c workerConfig) *forgetful {
	return &forgetful{Source: s, random: rand.New(rand.NewPCG(c.Seed, uint64(c.Number)))}
}

func (f *forgetful) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	ds, err := f.Source.Receive(ctx, limit)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, d := range ds {
		if n, again := d.Attempt(); n > 1 || again {
			continue
		}
		switch n := f.random.IntN(1000); {
		case n < acksLost:
			ds[i] = lostAck{d}
		case n < acksLost+acksTurned:
			ds[i] = turnedAck{d}
		}
	}
	return ds, err
}

type lostAck struct{ broker.Delivery }

func (lostAck) Ack(context.Context) error { return nil }

type turnedAck struct{ broker.Delivery }

func (d turnedAck) Ack(ctx context.Context) error { return d.Nack(ctx, 0) }
