package membroker

import "time"

// faults are what goes wrong on demand; they are under Broker.mu.
type faults struct {
	outage      bool
	dropAcks    int
	dropReplies int
	repeat      int
	slowReceive time.Duration
}

// take uses up one of a fault's occasions.
func (f *faults) take(n *int) bool {
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// SetOutage switches the broker off or on. While it is off everything that
// needs it returns ErrOutage, and leases go on ending.
func (b *Broker) SetOutage(off bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.outage = off
	b.wake()
}

// DropAcks lets the next n acknowledgements never arrive.
func (b *Broker) DropAcks(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.dropAcks = n
}

// DropAckReplies lets the next n acknowledgements arrive and their replies get
// lost: Ack returns ErrOutage although it is done.
func (b *Broker) DropAckReplies(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.dropReplies = n
}

// Repeat lets every message that is acknowledged from now on be delivered n
// more times.
func (b *Broker) Repeat(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.repeat = n
}

// SlowReceive lets every Receive wait for d first.
func (b *Broker) SlowReceive(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.slowReceive = d
}

// LoseLeases ends the lease of every held delivery of a topic now.
func (b *Broker) LoseLeases(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topic(name)
	for _, e := range t.all[t.done:] {
		if e.state == held {
			b.expire(e.delivery)
		}
	}
}
