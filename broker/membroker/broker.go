package membroker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

const defaultMaxSize = 1 << 20

// A Broker holds topics in memory. It is safe for concurrent use.
type Broker struct {
	config Config

	mu      sync.Mutex
	topics  map[string]*topic
	random  *rand.Rand
	changed chan struct{} // closed and replaced when something may be delivered
	faults  faults
}

// New returns an empty broker.
func New(c Config) *Broker {
	c.Topics = slices.Clone(c.Topics)
	if c.MaxSize == 0 {
		c.MaxSize = defaultMaxSize
	}
	return &Broker{
		config:  c,
		topics:  map[string]*topic{},
		random:  rand.New(rand.NewPCG(c.Seed, 0)),
		changed: make(chan struct{}),
	}
}

// Messages returns everything published to a topic, in order.
func (b *Broker) Messages(name string) []*yekbar.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ms []*yekbar.Message
	for _, e := range b.topic(name).all {
		if e.message != nil {
			ms = append(ms, clone(e.message))
		}
	}
	return ms
}

// Counts says where a topic's messages are.
type Counts struct {
	Waiting    int // not delivered, or given back
	Held       int // delivered and not settled
	MostHeld   int // the most that were ever held at once
	Acked      int // done, for good
	Exhausted  int // delivered Capabilities.MaxAttempts times, then dropped
	Deliveries int // all together
}

// Counts returns a topic's counts.
func (b *Broker) Counts(name string) Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topic(name)
	c := t.counts
	for _, e := range t.all {
		switch e.state {
		case waiting:
			c.Waiting++
		case acked:
			c.Acked++
		case exhausted:
			c.Exhausted++
		}
	}
	return c
}

// topic returns a topic; b.mu is held.
func (b *Broker) topic(name string) *topic {
	t := b.topics[name]
	if t == nil {
		t = &topic{name: name}
		b.topics[name] = t
	}
	return t
}

func (b *Broker) exists(name string) bool {
	return len(b.config.Topics) == 0 || slices.Contains(b.config.Topics, name)
}

// wake lets every waiting Receive look again; b.mu is held.
func (b *Broker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

type state uint8

const (
	waiting state = iota
	held
	ackedBehind // acknowledged behind a held delivery, where acknowledgements keep order
	acked
	exhausted
)

// An entry is one published message.
type entry struct {
	topic    *topic
	message  *yekbar.Message // nil when published raw
	raw      []byte
	at       time.Time // when it was published
	number   int       // in its topic, from 1
	state    state
	attempts int
	due      time.Time // while waiting: not before
	delivery *delivery // while held or acked behind: whose
	repeats  int       // deliveries still to come after an acknowledgement
	repeated bool
}

// set changes the state and counts what is held; broker.mu is held.
func (e *entry) set(s state, d *delivery) {
	c := &e.topic.counts
	if e.state == held {
		c.Held--
	}
	if s == held {
		c.Held++
		c.MostHeld = max(c.MostHeld, c.Held)
	}
	e.state, e.delivery = s, d
}

type topic struct {
	name   string
	all    []*entry
	done   int // entries before this index need no more attention
	counts Counts
}

// skipDone moves done past what is settled for good; b.mu is held.
func (t *topic) skipDone() {
	for t.done < len(t.all) && (t.all[t.done].state == acked || t.all[t.done].state == exhausted) {
		t.done++
	}
}

// commitPrefix makes the contiguous prefix of acknowledgements final; b.mu is
// held.
func (t *topic) commitPrefix() {
	for _, e := range t.all[t.done:] {
		switch e.state {
		case ackedBehind:
			e.set(acked, nil)
		case acked, exhausted:
		default:
			t.skipDone()
			return
		}
	}
	t.skipDone()
}

// next returns up to limit deliverable entries; b.mu is held.
func (b *Broker) next(t *topic, limit int, now time.Time) []*entry {
	t.skipDone()
	var ready []*entry
	for _, e := range t.all[t.done:] {
		if e.state == waiting && !e.due.After(now) {
			ready = append(ready, e)
			if b.config.Capabilities.Order == broker.Total && len(ready) == limit {
				return ready
			}
		}
	}
	switch b.config.Capabilities.Order {
	case broker.Unordered:
		b.random.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	case broker.PerKey:
		ready = b.mixKeys(ready)
	}
	return ready[:min(limit, len(ready))]
}

// mixKeys shuffles keys among each other and keeps each key's order.
func (b *Broker) mixKeys(es []*entry) []*entry {
	byKey := map[string][]*entry{}
	keys := make([]string, len(es))
	for i, e := range es {
		if e.message != nil {
			keys[i] = e.message.OrderingKey
		}
		byKey[keys[i]] = append(byKey[keys[i]], e)
	}
	b.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	mixed := make([]*entry, len(es))
	for i, k := range keys {
		mixed[i], byKey[k] = byKey[k][0], byKey[k][1:]
	}
	return mixed
}

// release makes a held entry deliverable again after delay; b.mu is held.
func (b *Broker) release(e *entry, delay time.Duration) {
	if limit := b.config.Capabilities.MaxAttempts; limit > 0 && e.attempts >= limit {
		e.set(exhausted, nil)
		e.topic.skipDone()
		return
	}
	e.set(waiting, nil)
	e.due = time.Now().Add(delay)
	if delay > 0 {
		time.AfterFunc(delay, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.wake()
		})
	}
	b.wake()
}

func (b *Broker) outage() error {
	return fmt.Errorf("%w: membroker is switched off", broker.ErrOutage)
}
