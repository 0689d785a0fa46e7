package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

var checks = []check{
	{name: "every message is delivered", run: delivered},
	{name: "order is kept as declared", needs: needOrder, run: order},
	{name: "Receive honours its limit", run: limit},
	{name: "Receive holds nothing back", run: demand},
	{name: "Receive honours its context", run: receiveContext},
	{name: "Receive ends when the source closes", run: receiveClosed},
	{name: "acknowledged is done", run: acked},
	{name: "Nack brings it again at once", run: nacked},
	{name: "Nack honours its delay", needs: needDelay, run: nackDelay},
	{name: "unsettled comes again after the lease", needs: needLease, run: leaseEnds},
	{name: "Extend holds the lease", needs: needExtend, run: extend},
	{name: "Extend says when it can't", needs: needNoExtend, run: noExtend},
	{name: "Close gives back", run: closeGivesBack},
	{name: "a held delivery holds back what AckInOrder says", run: ackBehind},
	{name: "settled once", run: settledOnce},
	{name: "settled once by many at a time", run: settledConcurrently},
	{name: "a cancelled settling leaves it open", run: settleCancelled},
	{name: "a thousand redeliveries", run: manyRedeliveries},
	{name: "undecodable", needs: needUndecodable, run: undecodable},
	{name: "an outage of the broker", needs: needOutage, run: outage, outage: true},
}

// leaks runs alone.
var leaks = check{name: "nothing runs after Close", run: noLeak}

func needOrder(_ *Fixture, c broker.Capabilities) string {
	if c.Order == broker.Unordered {
		return "the broker declares no order"
	}
	return ""
}

func needDelay(_ *Fixture, c broker.Capabilities) string {
	if !c.NackDelay {
		return "the broker declares no delayed give-back"
	}
	return ""
}

func needLease(_ *Fixture, c broker.Capabilities) string {
	if c.Lease == 0 {
		return "the broker declares no lease"
	}
	return ""
}

func needExtend(_ *Fixture, c broker.Capabilities) string {
	if c.Lease == 0 || !c.Extendable {
		return "the broker declares no lease that can be extended"
	}
	return ""
}

func needNoExtend(_ *Fixture, c broker.Capabilities) string {
	if c.Extendable {
		return "the broker declares that leases can be extended"
	}
	return ""
}

func needUndecodable(f *Fixture, _ broker.Capabilities) string {
	if f.PublishUndecodable == nil {
		return "the fixture can't publish anything undecodable"
	}
	return ""
}

func needOutage(f *Fixture, _ broker.Capabilities) string {
	if f.Stop == nil || f.Start == nil {
		return "the fixture can't stop the broker"
	}
	return ""
}

func delivered(b *bench) {
	const n = 50
	b.publishNumbered(n)
	seen, places := map[string]bool{}, map[string]string{}
	for len(seen) < n {
		for _, d := range b.take(b.sources[0], 1, b.patience()) {
			m := b.message(d)
			if m.Topic != b.f.Topic {
				b.fail("a message came from topic %q, want %q", m.Topic, b.f.Topic)
			}
			if other, taken := places[d.Coordinates()]; b.caps.StableID && taken && other != m.ID {
				b.fail("messages %q and %q have the coordinates %q", other, m.ID, d.Coordinates())
			}
			places[d.Coordinates()] = m.ID
			seen[m.ID] = true
			if k, _ := d.Attempt(); b.caps.Counts != (k > 0) {
				b.fail("Attempt is %d, and Capabilities.Counts is %v", k, b.caps.Counts)
			}
			b.ack(d)
		}
	}
}

func order(b *bench) {
	const n = 60
	ms := make([]*yekbar.Message, n)
	for i := range ms {
		ms[i] = &yekbar.Message{ID: fmt.Sprintf("m-%d", i), OrderingKey: fmt.Sprintf("k-%d", i%3), Payload: []byte{byte(i)}}
	}
	b.publish(ms...)
	last := map[string]int{}
	for range n {
		d := b.one()
		m := b.message(d)
		key := ""
		if b.caps.Order == broker.PerKey {
			key = m.OrderingKey
		}
		at := int(m.Payload[0]) + 1
		if at <= last[key] {
			b.fail("message %d came after message %d (key %q)", at, last[key], key)
		}
		last[key] = at
		b.ack(d)
	}
}

func limit(b *bench) {
	b.publishNumbered(10)
	for n := 0; n < 10; {
		ds, err := b.sources[0].Receive(b.ctx, 3)
		b.must(err, "Receive")
		if len(ds) < 1 || len(ds) > 3 {
			b.fail("Receive with limit 3 returned %d deliveries", len(ds))
		}
		n += len(ds)
		b.ack(ds...)
	}
}

// demand finds sources that take more from the broker than they were asked
// for: then the other one would have to wait for the lease.
func demand(b *bench) {
	other := b.source()
	b.publishNumbered(10)
	mine := b.take(b.sources[0], 3, b.patience())
	start := time.Now()
	within := b.patience()
	if b.caps.Lease > 0 {
		within = b.caps.Lease * 3 / 4
	}
	theirs := b.take(other, 7, within)
	if d := time.Since(start); d > within {
		b.fail("the other source got its 7 messages only after %v", d)
	}
	b.ack(append(mine, theirs...)...)
}

func receiveContext(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := b.sources[0].Receive(ctx, 5)
		ended <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			b.fail("a cancelled Receive returned %v, want context.Canceled", err)
		}
	case <-time.After(b.patience()):
		b.fail("a cancelled Receive did not return")
	}
	if ds, err := b.sources[0].Receive(ctx, 1); !errors.Is(err, context.Canceled) || len(ds) > 0 {
		b.fail("Receive with a context that had ended returned %d deliveries, %v", len(ds), err)
	}
	// What comes now must not be lost in the request that was cancelled.
	b.publishNumbered(1)
	within := b.patience()
	if b.caps.Lease > 0 {
		within = b.caps.Lease * 3 / 4
	}
	b.ack(b.take(b.sources[0], 1, within)...)
}

func receiveClosed(b *bench) {
	s := b.source()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Receive(b.ctx, 1)
		ended <- err
	}()
	b.must(s.Close(b.ctx), "Close")
	select {
	case err := <-ended:
		if !errors.Is(err, broker.ErrClosed) {
			b.fail("Receive of a source that closes returned %v, want ErrClosed", err)
		}
	case <-time.After(b.patience()):
		b.fail("Receive of a source that closes did not return")
	}
	if _, err := s.Receive(b.ctx, 1); !errors.Is(err, broker.ErrClosed) {
		b.fail("Receive after Close returned %v, want ErrClosed", err)
	}
	b.must(s.Close(b.ctx), "the second Close")
}

func acked(b *bench) {
	b.publishNumbered(3)
	b.ack(b.take(b.sources[0], 3, b.patience())...)
	b.none(b.sources[0], b.caps.Lease+b.caps.Lease/2+500*time.Millisecond, "after Ack")
}

func nacked(b *bench) {
	b.publishNumbered(1)
	first := b.one()
	m := b.message(first)
	b.must(first.Nack(b.ctx, 0), "Nack")
	again := b.one()
	if m2 := b.message(again); m2.ID != m.ID || !bytes.Equal(first.Raw(), again.Raw()) {
		b.fail("after Nack came %q with raw bytes %q, want %q with %q", m2.ID, again.Raw(), m.ID, first.Raw())
	}
	n, redelivered := again.Attempt()
	if b.caps.Counts && n != 2 {
		b.fail("the second delivery is attempt %d", n)
	}
	if b.caps.StableID && again.Coordinates() != first.Coordinates() {
		b.fail("Capabilities.StableID, and the coordinates %q became %q", first.Coordinates(), again.Coordinates())
	}
	if b.caps.Counts && !redelivered {
		b.fail("the second delivery does not say that it is redelivered")
	}
	b.ack(again)
}

func nackDelay(b *bench) {
	const delay = 1500 * time.Millisecond
	b.publishNumbered(1)
	d := b.one()
	start := time.Now()
	b.must(d.Nack(b.ctx, delay), "Nack")
	again := b.one()
	if took := time.Since(start); took < delay-100*time.Millisecond {
		b.fail("given back with a delay of %v, it came again after %v", delay, took)
	}
	b.ack(again)
}

func leaseEnds(b *bench) {
	b.publishNumbered(1)
	d := b.one()
	select {
	case <-d.Lost():
	case <-time.After(b.afterLease()):
		b.fail("Lost was not closed after the lease of %v", b.caps.Lease)
	}
	if err := d.Ack(b.ctx); !errors.Is(err, broker.ErrLost) {
		b.fail("Ack after the lease returned %v, want ErrLost", err)
	}
	if err := d.Nack(b.ctx, 0); !errors.Is(err, broker.ErrLost) {
		b.fail("Nack after the lease returned %v, want ErrLost", err)
	}
	if err := d.Extend(b.ctx); err == nil {
		b.fail("Extend after the lease returned nil")
	}
	b.ack(b.take(b.sources[0], 1, b.afterLease())...)
	b.none(b.sources[0], b.caps.Lease+500*time.Millisecond, "after Ack of the second delivery")
}

func extend(b *bench) {
	b.publishNumbered(1)
	d := b.one()
	other := b.source()
	tick := time.NewTicker(b.caps.Lease / 4)
	defer tick.Stop()
	end := time.Now().Add(b.caps.Lease * 5 / 2)
	for time.Now().Before(end) {
		<-tick.C
		b.must(d.Extend(b.ctx), "Extend")
		b.none(other, 10*time.Millisecond, "while the lease is extended")
	}
	select {
	case <-d.Lost():
		b.fail("Lost was closed although the lease was extended")
	default:
	}
	b.ack(d)
	b.none(other, b.caps.Lease+500*time.Millisecond, "after Ack")
}

func noExtend(b *bench) {
	b.publishNumbered(1)
	d := b.one()
	if err := d.Extend(b.ctx); err == nil {
		b.fail("Extend returned nil, and Capabilities.Extendable is false")
	}
	b.ack(d)
}

func closeGivesBack(b *bench) {
	s := b.source()
	b.publishNumbered(3)
	ds := b.take(s, 3, b.patience())
	b.must(s.Close(b.ctx), "Close")
	for _, d := range ds {
		select {
		case <-d.Lost():
		default:
			b.fail("Lost is not closed after Close")
		}
		if err := d.Ack(b.ctx); !errors.Is(err, broker.ErrLost) {
			b.fail("Ack after Close returned %v, want ErrLost", err)
		}
	}
	b.ack(b.take(b.sources[0], 3, b.afterLease())...)
}

// ackBehind acknowledges behind a delivery that stays open: only where
// acknowledgements keep their order does that come again.
func ackBehind(b *bench) {
	s := b.source()
	b.publishNumbered(3)
	ds := b.take(s, 3, b.patience())
	open := b.message(ds[0]).ID
	b.ack(ds[1:]...)
	b.must(s.Close(b.ctx), "Close")
	want := 1
	if b.caps.AckInOrder {
		want = 3
	}
	for _, d := range b.take(b.sources[0], want, b.afterLease()) {
		if id := b.message(d).ID; id != open && want == 1 {
			b.fail("%q came again, which was acknowledged", id)
		}
		b.ack(d)
	}
	b.none(b.sources[0], b.caps.Lease+500*time.Millisecond, "all were acknowledged")
}

func settledOnce(b *bench) {
	for i, nackFirst := range []bool{false, true} {
		b.publish(&yekbar.Message{ID: fmt.Sprintf("m-%d", i)})
		d := b.one()
		if nackFirst {
			b.must(d.Nack(b.ctx, 0), "Nack")
		} else {
			b.ack(d)
		}
		if err := d.Ack(b.ctx); !errors.Is(err, broker.ErrSettled) {
			b.fail("Ack of a settled delivery returned %v, want ErrSettled", err)
		}
		if err := d.Nack(b.ctx, 0); !errors.Is(err, broker.ErrSettled) {
			b.fail("Nack of a settled delivery returned %v, want ErrSettled", err)
		}
		if err := d.Extend(b.ctx); err == nil {
			b.fail("Extend of a settled delivery returned nil")
		}
		if nackFirst {
			b.ack(b.one())
		}
		b.none(b.sources[0], b.caps.Lease+500*time.Millisecond, "acknowledged, and given back too late")
	}
}

func settledConcurrently(b *bench) {
	for round := range 20 {
		b.publish(&yekbar.Message{ID: fmt.Sprintf("r-%d", round)})
		d := b.one()
		const n = 16
		var (
			start = make(chan struct{})
			errs  [n]error
			group sync.WaitGroup
		)
		for i := range n {
			group.Go(func() {
				<-start
				if i%2 == 0 {
					errs[i] = d.Ack(b.ctx)
				} else {
					errs[i] = d.Nack(b.ctx, 0)
				}
			})
		}
		close(start)
		group.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				b.fail("two settlings of one delivery succeeded (%d and %d)", winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, broker.ErrSettled):
				b.fail("a settling that was too late returned %v, want ErrSettled", err)
			}
		}
		if winner < 0 {
			b.fail("no settling succeeded")
		}
		if winner%2 == 1 {
			b.ack(b.one())
		}
	}
}

func settleCancelled(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	b.publishNumbered(1)
	d := b.one()
	if err := d.Ack(ctx); err == nil {
		b.fail("Ack with a context that had ended returned nil")
	}
	b.ack(d)
}

func manyRedeliveries(b *bench) {
	n := 1000
	if b.caps.MaxAttempts > 0 {
		n = min(n, b.caps.MaxAttempts-1)
	}
	b.publishNumbered(1)
	before := runtime.NumGoroutine()
	for i := range n {
		d := b.one()
		if k, _ := d.Attempt(); b.caps.Counts && k < i+1 {
			b.fail("delivery %d says that it is attempt %d", i+1, k)
		}
		b.must(d.Nack(b.ctx, 0), "Nack")
	}
	// Others run at the same time; one goroutine a redelivery would show.
	if after := runtime.NumGoroutine(); after > before+n/2 {
		b.fail("%d goroutines before, %d after %d redeliveries", before, after, n)
	}
	b.ack(b.one())
}

func undecodable(b *bench) {
	raw, err := b.f.PublishUndecodable(b.ctx)
	b.must(err, "publishing something undecodable")
	first := b.one()
	if m, err := first.Message(); err == nil || m != nil {
		b.fail("Message of something undecodable returned %v, %v", m, err)
	}
	if !bytes.Contains(first.Raw(), raw) {
		b.fail("Raw is %q, want one with %q", first.Raw(), raw)
	}
	b.must(first.Nack(b.ctx, 0), "Nack")
	again := b.one()
	if !bytes.Equal(first.Raw(), again.Raw()) {
		b.fail("Raw is %q at the second delivery, was %q", again.Raw(), first.Raw())
	}
	b.ack(again)
	b.publishNumbered(1)
	b.ack(b.one())
}

func outage(b *bench) {
	b.publishNumbered(2)
	ds := b.take(b.sources[0], 2, b.patience())
	b.ack(ds[0])
	done, open := b.message(ds[0]).ID, b.message(ds[1]).ID
	b.must(b.f.Stop(), "stopping the broker")
	b.eventually("Receive in an outage returns ErrOutage", func() (bool, error) {
		ctx, cancel := context.WithTimeout(b.ctx, b.patience())
		defer cancel()
		got, err := b.sources[0].Receive(ctx, 1)
		return len(got) == 0 && errors.Is(err, broker.ErrOutage), err
	})
	ctx, cancel := context.WithTimeout(b.ctx, b.patience())
	defer cancel()
	if err := b.publishing().Publish(ctx, []*yekbar.Message{{ID: "lost", Topic: b.f.Topic}}); !errors.Is(err, broker.ErrOutage) {
		b.fail("Publish in an outage returned %v, want ErrOutage", err)
	}
	if err := ds[1].Ack(ctx); b.caps.ConfirmsAck && err == nil {
		b.fail("Ack in an outage returned nil")
	}
	b.must(b.f.Start(), "starting the broker")
	b.eventually("Publish works again", func() (bool, error) {
		err := b.publishing().Publish(b.ctx, []*yekbar.Message{{ID: "m-3", Topic: b.f.Topic}})
		return err == nil, err
	})
	seen := map[string]bool{}
	b.eventually("Receive works again, and brings what was not acknowledged", func() (bool, error) {
		ctx, cancel := context.WithTimeout(b.ctx, b.afterLease())
		defer cancel()
		got, err := b.sources[0].Receive(ctx, 10)
		for _, d := range got {
			seen[b.message(d).ID] = true
			b.ack(d)
		}
		return seen["m-3"] && (seen[open] || !b.caps.ConfirmsAck), err
	})
	if seen[done] && b.f.AcksSurvive {
		b.fail("what was acknowledged before the outage came again")
	}
}

// eventually tries until done, for a bounded time.
func (b *bench) eventually(what string, try func() (done bool, err error)) {
	end := time.Now().Add(b.afterLease() + b.patience())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for time.Now().Before(end) {
		done, err := try()
		if done {
			return
		}
		last = err
		<-tick.C
	}
	b.fail("%s: not within the time; last: %v", what, last)
}

func noLeak(b *bench) {
	b.publishNumbered(20)
	b.ack(b.one())
	use := func() {
		s := b.source()
		ctx, cancel := context.WithCancel(b.ctx)
		b.ack(b.take(s, 2, b.patience())...)
		b.take(s, 1, b.patience()) // stays unsettled
		cancel()
		if _, err := s.Receive(ctx, 1); err == nil {
			b.fail("Receive with a context that had ended returned nil")
		}
		b.must(s.Close(b.ctx), "Close")
	}
	use()
	before := settledGoroutines(0)
	for range 5 {
		use()
	}
	if after := settledGoroutines(before); after > before {
		stacks := make([]byte, 1<<20)
		b.fail("%d goroutines before five sources, %d after they were closed:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
}

// settledGoroutines waits until no more than want are left, or their number
// does not change any more.
func settledGoroutines(want int) int {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	n, same := runtime.NumGoroutine(), 0
	for range 250 {
		if want > 0 && n <= want {
			return n
		}
		<-tick.C
		if m := runtime.NumGoroutine(); m == n {
			same++
		} else {
			n, same = m, 0
		}
		if want == 0 && same == 10 {
			break
		}
	}
	return n
}
