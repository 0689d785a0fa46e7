package storetest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

func heldChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "held messages come back whole", run: heldWhole[Tx]},
		{name: "held messages are listed newest first, in pages", run: heldPages[Tx], single: true},
	}
}

// list is OperatorStore.Held.
func (e *env[Tx]) list(f yekbar.HeldFilter) []*yekbar.HeldMessage {
	e.Helper()
	s := e.operator()
	return get(e, "Held", func() (all []*yekbar.HeldMessage, _ error) {
		for h, err := range s.Held(e.ctx, f) {
			if err != nil {
				return nil, err
			}
			all = append(all, h)
		}
		return all, nil
	})
}

// one returns the held message of that ID.
func (e *env[Tx]) one(id string) *yekbar.HeldMessage {
	e.Helper()
	hs := e.list(yekbar.HeldFilter{Consumer: suite, MessageID: id})
	if len(hs) != 1 {
		e.Fatalf("Held gave %d messages with the ID %q, want one", len(hs), id)
	}
	return hs[0]
}

// heldContents are messages that a careless store changes.
func heldContents() []*yekbar.HeldMessage {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	raw := held(yekbar.HeldID(all), yekbar.StateDead, yekbar.ReasonUndecodable)
	raw.Message, raw.Raw, raw.Fingerprint, raw.Attempts, raw.Errors = yekbar.Message{}, all, nil, 0, nil
	odd := held("odd", yekbar.StateDead, yekbar.ReasonIdentity)
	odd.Message = yekbar.Message{
		ID: "a\x00b\xff", Source: "\xfe", Type: "t\x00", Subject: "\u00e9", Time: time.Unix(1, 999_999_999), Topic: "x\x00", OrderingKey: "\xff",
		Header:  yekbar.Header{{Name: "b", Value: all}, {Name: "a", Value: nil}, {Name: "b", Value: []byte("<&>")}, {Name: "\xff\x00", Value: []byte{}}, {Name: "", Value: []byte("x")}},
		Payload: bytes.Repeat(all, 1000),
	}
	odd.Errors = []string{"an error with NUL \x00 and bytes \xff\xfe, in every handler's way", ""}
	odd.Ordered = true
	empty := held("empty", yekbar.StateDead, yekbar.ReasonPermanent)
	empty.Message.Payload, empty.Raw = []byte{}, []byte{}
	none := &yekbar.HeldMessage{Consumer: suite, MessageID: "none", State: yekbar.StateDead, Reason: yekbar.ReasonPermanent}
	prefixed := held("prefixed", yekbar.StateParked, yekbar.ReasonDelayed)
	prefixed.Message.Topic, prefixed.Message.Time = "base64:AAE=", time.Date(2026, 3, 1, 12, 0, 0, 1, time.FixedZone("", 3600))
	return []*yekbar.HeldMessage{raw, odd, empty, none, prefixed}
}

func heldWhole[Tx any](e *env[Tx]) {
	s := e.holding()
	e.operator()
	all := heldContents()
	for _, h := range all {
		if !e.take(s, h) {
			e.Errorf("Hold of %q was answered with: applied meanwhile", h.MessageID)
		}
	}
	for _, h := range all {
		e.wantWhole(e.one(h.MessageID), h)
	}
}

// wantWhole asserts that a held message is as it was given to Hold.
func (e *env[Tx]) wantWhole(got, want *yekbar.HeldMessage) {
	e.Helper()
	g, w := got.Message, want.Message
	differ := func(what string, got, w any) {
		e.Errorf("message %q is held with %s %.80q, want %.80q", want.MessageID, what, got, w)
	}
	for _, f := range []struct{ what, got, want string }{
		{"consumer", got.Consumer, want.Consumer}, {"message ID", got.MessageID, want.MessageID},
		{"state", string(got.State), string(want.State)}, {"reason", got.Reason, want.Reason},
		{"ID", g.ID, w.ID}, {"source", g.Source, w.Source}, {"type", g.Type, w.Type}, {"subject", g.Subject, w.Subject},
		{"topic", g.Topic, w.Topic}, {"ordering key", g.OrderingKey, w.OrderingKey}, {"fingerprint", string(got.Fingerprint), string(want.Fingerprint)},
		{"payload", string(g.Payload), string(w.Payload)}, {"raw bytes", string(got.Raw), string(want.Raw)},
	} {
		if f.got != f.want {
			differ(f.what, f.got, f.want)
		}
	}
	if (g.Payload == nil) != (w.Payload == nil) || (got.Raw == nil) != (want.Raw == nil) {
		e.Errorf("message %q: of payload and raw bytes are there %v and %v, want %v and %v (an empty one is one)",
			want.MessageID, g.Payload != nil, got.Raw != nil, w.Payload != nil, want.Raw != nil)
	}
	if !g.Time.Equal(w.Time) {
		differ("time", g.Time.String(), w.Time.String())
	}
	if !slices.EqualFunc(g.Header, w.Header, func(a, b yekbar.HeaderField) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }) {
		differ("headers", g.Header, w.Header)
	}
	// Errors are for people: what is not UTF-8 may be replaced.
	if !slices.EqualFunc(got.Errors, want.Errors, func(a, b string) bool { return string([]rune(a)) == string([]rune(b)) }) {
		differ("errors", got.Errors, want.Errors)
	}
	if got.Attempts != want.Attempts || got.Ordered != want.Ordered {
		e.Errorf("message %q is held with %d attempts, ordered: %v; want %d, %v", want.MessageID, got.Attempts, got.Ordered, want.Attempts, want.Ordered)
	}
	if got.At.IsZero() || got.Position <= 0 || got.Due.IsZero() != (want.State == yekbar.StateDead) {
		e.Errorf("message %q is held since %v, due %v, at position %d", want.MessageID, got.At, got.Due, got.Position)
	}
}

func heldPages[Tx any](e *env[Tx]) {
	s := e.operator()
	ids := numbered("m", 7)
	for i, id := range ids {
		switch {
		case i%2 == 0:
			e.bury(id)
		default:
			e.park(id, time.Hour)
		}
	}
	e.bury("others", func(h *yekbar.HeldMessage) { h.Consumer = "other" })
	e.park(ids[1], 0) // keeps its place
	newest := slices.Clone(ids)
	slices.Reverse(newest)
	for _, c := range []struct {
		what string
		f    yekbar.HeldFilter
		want []string
	}{
		{"all", yekbar.HeldFilter{}, append([]string{"others"}, newest...)},
		{"of the consumer", yekbar.HeldFilter{Consumer: suite}, newest},
		{"two", yekbar.HeldFilter{Consumer: suite, Limit: 2}, newest[:2]},
		{"dead", yekbar.HeldFilter{Consumer: suite, State: yekbar.StateDead}, []string{ids[6], ids[4], ids[2], ids[0]}},
		{"delayed", yekbar.HeldFilter{Consumer: suite, Reason: yekbar.ReasonDelayed}, []string{ids[5], ids[3], ids[1]}},
		{"parked for a permanent error", yekbar.HeldFilter{State: yekbar.StateParked, Reason: yekbar.ReasonPermanent}, []string{}},
		{"one ID", yekbar.HeldFilter{MessageID: ids[3]}, []string{ids[3]}},
		{"of nobody", yekbar.HeldFilter{Consumer: "nobody"}, []string{}},
	} {
		got := []string{}
		for _, h := range e.list(c.f) {
			got = append(got, h.MessageID)
		}
		if !slices.Equal(got, c.want) {
			e.Errorf("held, %s: %q, want %q", c.what, got, c.want)
		}
	}
	got := []string{}
	f := yekbar.HeldFilter{Consumer: suite, Limit: 3}
	for range len(ids) {
		page := e.list(f)
		for _, h := range page {
			got = append(got, h.MessageID)
			f.After = h.Position
		}
		if len(page) < f.Limit {
			break
		}
	}
	if !slices.Equal(got, newest) {
		e.Errorf("held, in pages of three: %q, want %q", got, newest)
	}
	for h, err := range s.Held(e.ctx, yekbar.HeldFilter{}) { // and one may stop
		if err != nil || h.MessageID != "others" {
			e.Errorf("the newest held message: %+v, %v", h, err)
		}
		break
	}
	e.wantHeld(len(ids) + 1)
	gone, cancel := context.WithCancel(e.ctx)
	cancel()
	for h, err := range s.Held(gone, yekbar.HeldFilter{}) {
		if err != nil {
			return
		}
		e.Errorf("held, when the context had ended: %q", h.MessageID)
	}
	e.Error("Held, when the context had ended, gave no error: nothing would seem to be held")
}
