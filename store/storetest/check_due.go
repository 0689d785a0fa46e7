package storetest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

func dueChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "TakeDue leases what is due, the longest due first", run: takeDue[Tx], single: true},
		{name: "TakeDue gives whole messages", run: takeDueWhole[Tx]},
		{name: "TakeDue by several gives each message once", run: takeDueRace[Tx], single: true},
		{name: "ordered messages wait for the first of their key", run: takeDueOrdered[Tx], single: true},
		{name: "ordering keys are compared byte for byte, at any length", run: takeDueKeys[Tx]},
	}
}

func (e *env[Tx]) wantDue(limit int, lease time.Duration, want ...string) {
	e.Helper()
	if got := e.due(limit, lease); !slices.Equal(got, want) {
		e.Errorf("TakeDue gave %q, want %q", got, want)
	}
}

func takeDue[Tx any](e *env[Tx]) {
	e.holding()
	e.park("in-30", 30*time.Minute)
	e.park("in-10", 10*time.Minute)
	e.park("in-20", 20*time.Minute)
	e.park("in-1000", 1000*time.Minute)
	e.bury("dead")
	e.park("others", 0, func(h *yekbar.HeldMessage) { h.Consumer = "other" })
	e.wantDue(10, time.Hour)
	e.later(40 * time.Minute)
	e.wantDue(2, 10*time.Minute, "in-10", "in-20")
	e.wantDue(2, 100*time.Minute, "in-30")
	e.wantDue(2, time.Hour)
	e.later(11 * time.Minute) // the lease ends of the first two
	again := e.due(10, 100*time.Minute)
	slices.Sort(again)
	if !slices.Equal(again, []string{"in-10", "in-20"}) {
		e.Errorf("after their lease TakeDue gave %q, want those two again", again)
	}
	e.park("in-20", 0) // it failed again
	e.wantDue(10, 100*time.Minute, "in-20")
	e.unpark("in-10", "n")
	e.later(101 * time.Minute)
	rest := e.due(10, time.Hour)
	slices.Sort(rest)
	if !slices.Equal(rest, []string{"in-20", "in-30"}) {
		e.Errorf("after all leases, with one applied, TakeDue gave %q, want the other two", rest)
	}
	e.wantCounter("n", 1)
	e.wantHeld(5)
}

func takeDueWhole[Tx any](e *env[Tx]) {
	s := e.holding()
	want := e.park("m-1", 0, ofKey("k"), func(h *yekbar.HeldMessage) {
		h.Message.Source, h.Message.Type, h.Message.Subject, h.Message.Time = "/shop", "order", "17", time.Unix(1_700_000_000, 123_456_789)
		h.Message.Header = yekbar.Header{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte("3")}}
		h.Attempts, h.Errors = 3, []string{"one", "two", "three"}
	})
	got := get(e, "TakeDue", func() ([]*yekbar.HeldMessage, error) { return s.TakeDue(e.ctx, suite, 1, time.Hour) })
	if len(got) != 1 {
		e.Fatalf("TakeDue gave %d messages, want 1", len(got))
	}
	e.wantWhole(got[0], want)
}

func takeDueRace[Tx any](e *env[Tx]) {
	s := e.holding()
	ids := numbered("m", 24)
	for _, id := range ids {
		e.park(id, 0)
	}
	var (
		mu    sync.Mutex
		taken []string
		all   sync.WaitGroup
	)
	for range 4 {
		all.Go(func() {
			for range len(ids) {
				hs, err := retry(e.ctx, func() ([]*yekbar.HeldMessage, error) { return s.TakeDue(e.ctx, suite, 3, time.Hour) })
				if err != nil {
					e.Errorf("TakeDue, four at once: %v", err)
					return
				}
				mu.Lock()
				for _, h := range hs {
					taken = append(taken, h.MessageID)
				}
				done := len(taken) >= len(ids)
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	all.Wait()
	slices.Sort(taken)
	if !slices.Equal(taken, ids) {
		e.Errorf("four who take at once got %q, want each of %q once", taken, ids)
	}
}

func (e *env[Tx]) wantKeys(want ...string) {
	e.Helper()
	got := get(e, "HeldKeys", func() ([]string, error) { return e.holding().HeldKeys(e.ctx, suite) })
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		e.Errorf("HeldKeys gave %.40q, want %.40q", got, want)
	}
}

func takeDueOrdered[Tx any](e *env[Tx]) {
	e.holding()
	e.wantKeys()
	e.park("k-0", 0, ofKey("k"), func(h *yekbar.HeldMessage) { h.Consumer = "other" })
	e.park("k-1", time.Hour, ofKey("k"))
	e.park("k-2", 0, ofKey("k"))
	e.park("k-3", 0, ofKey("k"))
	e.park("j-1", 0, ofKey("j"))
	e.park("free", 0, func(h *yekbar.HeldMessage) { h.Message.OrderingKey = "k" })
	e.wantKeys("j", "k")
	e.wantDue(10, 100*time.Hour, "j-1", "free")
	e.later(61 * time.Minute)
	e.wantDue(10, time.Hour, "k-1")
	e.wantDue(10, time.Hour) // its successors wait while it is leased
	e.park("k-1", 0, ofKey("k"))
	e.wantDue(10, time.Hour, "k-1") // and when it failed again, for it kept its place
	e.unpark("k-1", "n")
	e.wantDue(10, time.Hour, "k-2")
	e.unpark("k-2", "n")
	e.wantDue(10, time.Hour, "k-3")
	e.unpark("k-3", "n")
	e.wantKeys("j")

	e.bury("d-1", ofKey("d"))
	e.park("d-2", 0, ofKey("d"))
	e.park("g-1", 0, ofKey("g"))
	e.wantDue(10, time.Hour, "g-1") // a dead head that is ordered holds its key
	e.wantKeys("d", "g", "j")
	if !e.take(e.holding(), held("g-1", yekbar.StateDead, yekbar.ReasonPermanent)) {
		e.Error("Hold of a parked message as dead was answered with: applied meanwhile")
	}
	e.park("g-2", 0, ofKey("g"))
	e.wantDue(10, time.Hour, "g-2") // one that is not, doesn't
}

func takeDueKeys[Tx any](e *env[Tx]) {
	e.holding()
	long := strings.Repeat("key", 3000)
	keys := []string{"k", "K", "k ", "", "\u00e9", "e\u0301", "\xff\x00", long + "1", long + "2", "base64:AAE="}
	var heads []string
	for i, key := range keys {
		id := numbered("head", len(keys))[i]
		heads = append(heads, id)
		e.park(id, 0, ofKey(key))
		e.park("next-"+id, 0, ofKey(key))
	}
	e.wantKeys(keys...)
	got := e.due(100, time.Hour)
	slices.Sort(got)
	if !slices.Equal(got, heads) {
		e.Errorf("with %d keys TakeDue gave %q, want the head of each", len(keys), got)
	}
}
