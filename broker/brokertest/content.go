package brokertest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// contentChecks are about what a message carries, and about publishing.
var contentChecks = []check{
	{name: "a message keeps its fields", run: fieldsKept},
	{name: "headers are kept byte for byte", run: headersKept},
	{name: "a message without ID has none", run: noID},
	{name: "an empty payload", run: emptyPayload},
	{name: "the largest payload", run: largest},
	{name: "too large", run: tooLarge},
	{name: "unroutable", needs: needUnroutable, run: unroutable},
	{name: "a closed publisher", run: publisherClosed},
	{name: "Message gives each caller its own", run: ownMessage},
}

func needUnroutable(f *Fixture, _ broker.Capabilities) string {
	if f.Unroutable == "" {
		return "the fixture names no topic that goes nowhere"
	}
	return ""
}

func fieldsKept(b *bench) {
	for _, want := range []*yekbar.Message{
		{ID: "m-1"},
		{ID: "A b|c%41 \"q\" é €", Source: "/shop/1?x=y", Type: "order.placed", Subject: "ART 7", OrderingKey: "kéy",
			Time: time.Date(2026, 2, 3, 4, 5, 6, 123456789, time.UTC), Payload: []byte("\x00\xff\r\n")},
	} {
		b.publish(want)
		d := b.one()
		got := b.message(d)
		if got.ID != want.ID || got.Source != want.Source || got.Type != want.Type || got.Subject != want.Subject || got.OrderingKey != want.OrderingKey ||
			got.Topic != want.Topic || !got.Time.Equal(want.Time) || !bytes.Equal(got.Payload, want.Payload) {
			b.fail("published %+v, received %+v", want, got)
		}
		b.ack(d)
	}
}

func headersKept(b *bench) {
	m := &yekbar.Message{ID: "m-1"}
	m.Header.Add("Trace", "a")
	m.Header.Add("x-empty", "")
	m.Header.Add("trace", "in other case")
	m.Header.Add("Trace", "b")
	m.Header.Add("Trace", "a")
	for i, v := range b.f.HeaderValues {
		m.Header = append(m.Header, yekbar.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: v})
	}
	b.publish(m)
	d := b.one()
	got := b.message(d)
	for _, f := range m.Header {
		if have, want := got.Header.Values(f.Name), m.Header.Values(f.Name); !slices.EqualFunc(have, want, bytes.Equal) {
			b.fail("header %q is %q, was published as %q", f.Name, have, want)
		}
	}
	b.ack(d)
}

func noID(b *bench) {
	b.publish(&yekbar.Message{Payload: []byte("x")})
	d := b.one()
	if m := b.message(d); m.ID != "" {
		b.fail("a message without ID came with the ID %q", m.ID)
	}
	b.ack(d)
}

func emptyPayload(b *bench) {
	b.publish(&yekbar.Message{ID: "m-1", Payload: []byte{}})
	d := b.one()
	if m := b.message(d); len(m.Payload) != 0 || m.ID != "m-1" {
		b.fail("received %+v", m)
	}
	b.ack(d)
}

func largest(b *bench) {
	size := b.publishing().MaxSize()
	if size == 0 {
		return // the adapter doesn't know
	}
	payload := bytes.Repeat([]byte("payload "), size/8+1)[:size]
	b.publish(&yekbar.Message{ID: "m-1", Payload: payload})
	d := b.one()
	if got := b.message(d).Payload; !bytes.Equal(got, payload) {
		b.fail("a payload of %d bytes came with %d bytes, or others", size, len(got))
	}
	b.ack(d)
}

func tooLarge(b *bench) {
	size := b.publishing().MaxSize()
	if size == 0 {
		return // the adapter doesn't know
	}
	ms := []*yekbar.Message{
		{ID: "m-1", Topic: b.f.Topic},
		{ID: "m-2", Topic: b.f.Topic, Payload: make([]byte, size+64<<10)},
		{ID: "m-3", Topic: b.f.Topic},
	}
	b.partly(b.publishing().Publish(b.ctx, ms), 1, broker.ErrTooLarge)
	b.bothCame()
}

func unroutable(b *bench) {
	ms := []*yekbar.Message{{ID: "m-1", Topic: b.f.Topic}, {ID: "m-2", Topic: b.f.Unroutable}, {ID: "m-3", Topic: b.f.Topic}}
	b.partly(b.publishing().Publish(b.ctx, ms), 1, broker.ErrUnroutable)
	b.bothCame()
}

// partly demands that of three messages all but one were confirmed.
func (b *bench) partly(err error, failed int, want error) {
	var p *broker.PublishError
	if !errors.As(err, &p) || !errors.Is(err, want) {
		b.fail("Publish returned %v, want a *PublishError with %v", err, want)
	}
	if len(p.Failed) != 1 || !errors.Is(p.Failed[failed], want) {
		b.fail("the failed ones are %v, want message %d alone", p.Failed, failed)
	}
	confirmed := slices.Sorted(slices.Values(p.Confirmed))
	if !slices.Equal(confirmed, []int{0, 2}) {
		b.fail("the confirmed ones are %v, want 0 and 2", confirmed)
	}
}

func (b *bench) bothCame() {
	for _, d := range b.take(b.sources[0], 2, b.patience()) {
		if id := b.message(d).ID; id != "m-1" && id != "m-3" {
			b.fail("%q came", id)
		}
		b.ack(d)
	}
}

func publisherClosed(b *bench) {
	p := b.publishing()
	b.must(p.Close(b.ctx), "Close")
	if err := p.Publish(b.ctx, []*yekbar.Message{{ID: "m-1", Topic: b.f.Topic}}); !errors.Is(err, broker.ErrClosed) {
		b.fail("Publish after Close returned %v, want ErrClosed", err)
	}
}

// ownMessage finds adapters whose Raw changes with what a handler does to the
// message.
func ownMessage(b *bench) {
	b.publish(&yekbar.Message{ID: "m-1", Header: yekbar.Header{{Name: "a", Value: []byte("b")}}})
	d := b.one()
	raw := bytes.Clone(d.Raw())
	m := b.message(d)
	m.ID = "other"
	m.Header.Set("a", "c")
	if !bytes.Equal(raw, d.Raw()) || b.message(d).ID != "m-1" || b.message(d).Header.Get("a") != "b" {
		b.fail("changing a message changed the delivery")
	}
	b.ack(d)
}
