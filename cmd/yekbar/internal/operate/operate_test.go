package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
	"github.com/yekbar-go/yekbar/store/memstore"
)

var ada = yekbar.Actor{Name: "ada", Reason: "a test"}

// A bench is a desk over a memstore.
type bench struct {
	*Desk
	t     *testing.T
	store *memstore.Store
	out   bytes.Buffer
	notes bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, store: memstore.New()}
	b.Desk = &Desk{
		Store: b.store, Out: &b.out, Notes: &b.notes,
		Now: func(context.Context) (time.Time, error) { return time.Now(), nil },
	}
	if err := b.store.Register(t.Context(), yekbar.Registration{Consumer: "c", Subscription: "s"}); err != nil {
		t.Fatal(err)
	}
	return b
}

// recorded is the audit log, oldest first.
func (b *bench) recorded() (all []*yekbar.AuditEntry) {
	b.t.Helper()
	for e, err := range b.store.Audit(b.t.Context(), yekbar.AuditFilter{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, e)
	}
	slices.Reverse(all)
	return all
}

func (b *bench) hold(id, key string, state yekbar.State, ordered bool) {
	b.t.Helper()
	h := &yekbar.HeldMessage{
		Consumer: "c", MessageID: id, State: state, Reason: yekbar.ReasonAttempts, Ordered: ordered,
		Message: yekbar.Message{ID: id, OrderingKey: key, Payload: []byte("payload of " + id)},
	}
	if _, err := b.store.Hold(b.t.Context(), h); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) apply(id string) {
	b.t.Helper()
	_, err := b.store.Attempt(b.t.Context(), []yekbar.Claim{{Consumer: "c", MessageID: id}}, func(context.Context, *memstore.Tx, []int) error { return nil })
	if err != nil {
		b.t.Fatal(err)
	}
}

// said returns what was printed since, and begins anew.
func (b *bench) said() string {
	s := b.out.String() + b.notes.String()
	b.out.Reset()
	b.notes.Reset()
	b.t.Log(s)
	return s
}

func (b *bench) want(err error, texts ...string) {
	b.t.Helper()
	said := b.said()
	if err != nil {
		b.t.Errorf("%v", err)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			b.t.Errorf("no %q", text)
		}
	}
}

func TestReplayWarnsOfOrder(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	replay := func(id string) error { return b.Replay(ctx, Choice{Consumer: "c", IDs: []string{id}}, nil, ada) }
	b.hold("1", "k", yekbar.StateDead, false)
	b.hold("other", "l", yekbar.StateDead, false)
	b.want(replay("1"), "no later message was applied")

	b.hold("2", "k", yekbar.StateDead, false)
	b.hold("3", "k", yekbar.StateParked, false)
	b.store.Later(time.Second)
	b.apply("4")
	b.want(replay("2"), "1 message is of its ordering key held earlier", "1 message is of its ordering key held later", "may have been applied")

	b.hold("5", "k", yekbar.StateDead, true)
	b.want(replay("5"), "later messages of its ordering key wait for it")
	b.hold("6", "", yekbar.StateDead, false)
	if b.want(replay("6"), "replayed"); b.said() != "" {
		t.Error("a message without an ordering key is warned of")
	}
}

func TestListsGoOnWhereTheyEnded(t *testing.T) {
	b := newBench(t)
	for i := range 7 {
		b.hold(fmt.Sprint("m-", i), "", yekbar.StateDead, false)
	}
	b.JSON = true
	var got []string
	for after, pages := int64(0), 0; pages < 5; pages++ {
		if err := b.List(t.Context(), yekbar.StateDead, ListFilter{After: after, Limit: 3}); err != nil {
			t.Fatal(err)
		}
		var list heldListJSON
		if err := json.Unmarshal([]byte(b.said()), &list); err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Messages {
			got = append(got, m.MessageID)
		}
		if after = list.Next; after == 0 {
			break
		}
	}
	if strings.Join(got, " ") != "m-6 m-5 m-4 m-3 m-2 m-1 m-0" {
		t.Errorf("%v", got)
	}
}

// A message that somebody else deals with meanwhile doesn't stop the others.
func TestChangesGoOnAfterOneThatIsGone(t *testing.T) {
	b := newBench(t)
	b.hold("1", "", yekbar.StateDead, false)
	b.hold("3", "", yekbar.StateDead, false)
	b.hold("4", "", yekbar.StateParked, false)
	err := b.Discard(t.Context(), Choice{Consumer: "c", IDs: []string{"1", "2", "4", "3"}}, ada)
	var part *PartError
	if said := b.said(); !errors.As(err, &part) || !strings.Contains(said, "3: discarded") || !strings.Contains(said, "not dead but parked") {
		t.Errorf("%v", err)
	}
	var missing *NotFoundError
	if err := b.Discard(t.Context(), Choice{Consumer: "c", IDs: []string{"1", "2"}}, ada); !errors.As(err, &missing) {
		t.Errorf("%v", err)
	}
}

func TestNothingIsDoneWithoutAReason(t *testing.T) {
	b := newBench(t)
	b.hold("1", "", yekbar.StateDead, false)
	ctx, one := t.Context(), Choice{Consumer: "c", IDs: []string{"1"}}
	for name, do := range map[string]func(yekbar.Actor) error{
		"replay":  func(by yekbar.Actor) error { return b.Replay(ctx, one, nil, by) },
		"discard": func(by yekbar.Actor) error { return b.Discard(ctx, one, by) },
		"due":     func(by yekbar.Actor) error { return b.MakeDue(ctx, one, by) },
		"pause":   func(by yekbar.Actor) error { return b.SetPaused(ctx, "c", true, by) },
		"forget":  func(by yekbar.Actor) error { return b.Forget(ctx, "c", "1", by) },
		"confirm": func(by yekbar.Actor) error { return b.Confirm(ctx, "c", "t", by) },
		"prune":   func(by yekbar.Actor) error { return b.Prune(ctx, "c", Pruning{Batch: 1}, by) },
		"rewind":  func(by yekbar.Actor) error { return b.Rewind(ctx, "c", Rewinding{}, by) },
	} {
		for _, by := range []yekbar.Actor{{}, {Name: "ada"}, {Reason: "why"}, {Name: " ", Reason: "why"}} {
			if err := do(by); err == nil {
				t.Errorf("%s by %+v was done", name, by)
			}
		}
	}
	for e, err := range b.store.Audit(ctx, yekbar.AuditFilter{}) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestPrune(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for i := range 5 {
		b.apply(fmt.Sprint("m-", i))
	}
	b.want(b.Prune(ctx, "c", Pruning{Retention: time.Hour, Batch: 2}, ada), "0 claims deleted", "no watermark")
	b.store.Later(61 * time.Minute)
	b.want(b.Prune(ctx, "c", Pruning{Retention: time.Hour, Batch: 2}, ada), "0 claims deleted", "younger than a minute")
	b.store.Later(2 * time.Minute)
	b.want(b.Prune(ctx, "c", Pruning{Batch: 2}, ada), "5 claims deleted")
	if b.store.Claims() != 0 || len(b.recorded()) != 3 || b.recorded()[0].Action != "prune" {
		t.Errorf("%d claims left, %v recorded", b.store.Claims(), b.recorded())
	}
}

func TestRewind(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	mem := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
	if err := mem.Publisher().Publish(ctx, []*yekbar.Message{{ID: "1", Topic: "t"}, {ID: "2", Topic: "t"}, {ID: "3", Topic: "t"}}); err != nil {
		t.Fatal(err)
	}
	source := mem.Source("t")
	deliver := func() (ids []string) {
		for range 3 {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			ds, err := source.Receive(ctx, 3)
			cancel()
			if err != nil {
				return ids
			}
			for _, d := range ds {
				m, err := d.Message()
				if err == nil {
					err = d.Ack(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, m.ID)
			}
		}
		return ids
	}
	deliver()
	w := Rewinding{Broker: source.(broker.Positioner), Subscription: "s"}
	var missing *NotFoundError
	if err := b.Rewind(ctx, "c", w, ada); !errors.As(err, &missing) {
		t.Errorf("without positions: %v", err)
	}
	if err := b.store.SavePositions(ctx, "c", map[string]string{"t": "1"}); err != nil {
		t.Fatal(err)
	}
	w.DryRun = true
	b.want(b.Rewind(ctx, "c", w, ada), "t would be rewound from 3 to 1")
	if got := deliver(); len(got) > 0 || len(b.recorded()) > 0 {
		t.Errorf("looking delivered %v and recorded %v", got, b.recorded())
	}
	w.DryRun = false
	b.want(b.Rewind(ctx, "c", w, ada), "t rewound from 3 to 1")
	if got := strings.Join(deliver(), " "); got != "2 3" || len(b.recorded()) != 1 {
		t.Errorf("delivered %q, recorded %v", got, b.recorded())
	}
	var usage *UsageError
	for _, to := range []map[string]string{{"t": "4"}, {"u": "1"}, {"t": "first"}} {
		w.To = to
		if err := b.Rewind(ctx, "c", w, ada); !errors.As(err, &usage) {
			t.Errorf("to %v: %v", to, err)
		}
	}
	w.To, w.Subscription = map[string]string{"t": "1"}, "another"
	if err := b.Rewind(ctx, "c", w, ada); !errors.As(err, &usage) {
		t.Errorf("over another subscription: %v", err)
	}
	w.To, w.Subscription = nil, "s"
	if err := b.store.SavePositions(ctx, "c", map[string]string{"t": "9"}); err != nil {
		t.Fatal(err)
	}
	b.want(b.Rewind(ctx, "c", w, ada), "nothing to do")
}

func TestNearest(t *testing.T) {
	names := []string{"inventory", "mailer", "billing"}
	for name, want := range map[string]string{"inventroy": "inventory", "Inventory": "inventory", "mail": "mailer", "biling": "billing", "zzz": ""} {
		if got := nearest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for s, want := range map[string]string{
		"a-1": "a-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "*": "'*'", "a\nb": `$'a\nb'`, "\x1b'": `$'\x1b\''`, "~": "'~'", "ü": "'ü'",
	} {
		if got := ShellQuote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

// FuzzSafe holds what is printed against what may do something to a terminal.
func FuzzSafe(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2J", "\u202eabc", "\xff\xfe", "می\u200cخواهم", "\u009b31m", "\ufffd", "\U000e0001", "a\\b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Safe(s) + ShellQuote(s) {
			if !printable(r) {
				t.Errorf("%q: %q is printed", s, r)
			}
		}
		var b bytes.Buffer
		if err := WriteJSON(&b, map[string]string{"s": s}); err != nil {
			t.Fatal(err)
		}
		var back map[string]string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || utf8.ValidString(s) && back["s"] != s {
			t.Errorf("%q came back as %q: %v", s, back["s"], err)
		}
		for _, r := range strings.TrimSuffix(b.String(), "\n") {
			if !printable(r) {
				t.Errorf("%q: %q is in the JSON", s, r)
			}
		}
		if IsText([]byte(s)) {
			for _, r := range s {
				if !printable(r) && r != '\n' && r != '\t' && r != '\r' {
					t.Errorf("%q is taken for text", s)
				}
			}
		}
	})
}
