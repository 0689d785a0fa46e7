package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
)

// What the suite can't see, because it is memstore's own.

func Example() {
	store := memstore.New()
	consumer, err := yekbar.NewConsumer("inventory", store, func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
		last, _ := tx.Get("orders")
		return tx.Put("orders", append(last, m.Payload...))
	}, yekbar.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		result, err := consumer.Process(context.Background(), &yekbar.Message{ID: "order-17", Payload: []byte("17 ")})
		fmt.Println(result.Outcome, err)
	}
	orders, _ := store.Get("orders")
	fmt.Printf("orders: %s\n", orders)
	// Output:
	// applied <nil>
	// duplicate <nil>
	// duplicate <nil>
	// orders: 17
}

func claimOf(id string) yekbar.Claim {
	return yekbar.Claim{Consumer: "c", MessageID: id, Fingerprint: []byte("f")}
}

func begin(t *testing.T, s *memstore.Store) (*memstore.Tx, yekbar.Session) {
	t.Helper()
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	session, err := s.Bind(tx)
	if err != nil {
		t.Fatal(err)
	}
	return tx, session
}

func TestClaimGivenUpAtSavepoint(t *testing.T) {
	s := memstore.New()
	tx, session := begin(t, s)
	if err := tx.Savepoint("sp"); err != nil {
		t.Fatal(err)
	}
	if got, err := session.Claim(t.Context(), claimOf("m")); err != nil || !got.Fresh {
		t.Fatal(got, err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		c := claimOf("m")
		c.Wait = time.Minute
		got, err := s.Attempt(t.Context(), []yekbar.Claim{c}, func(context.Context, *memstore.Tx, []int) error { return nil })
		if err != nil || !got[0].Fresh {
			t.Errorf("who waited for a claim that was given up at a savepoint: %+v, %v", got, err)
		}
	})
	if err := s.AwaitWaiters(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.RollbackTo("sp"); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if s.Claims() != 1 {
		t.Errorf("%d claims", s.Claims())
	}
}

func TestLostUpdateIsRefused(t *testing.T) {
	s := memstore.New()
	a, _ := begin(t, s)
	b, _ := begin(t, s)
	for _, tx := range []*memstore.Tx{a, b} {
		if _, ok := tx.Get("k"); ok {
			t.Fatal("k is there")
		}
		if err := tx.Insert("k", []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.Commit(t.Context()); !errors.Is(err, yekbar.ErrTransient) {
		t.Errorf("the second of two that had read the same key committed: %v", err)
	}
}

func TestSessionRefuses(t *testing.T) {
	s := memstore.New()
	if _, err := s.Bind(nil); err == nil {
		t.Error("Bind(nil)")
	}
	foreign, _ := begin(t, memstore.New())
	if _, err := s.Bind(foreign); err == nil {
		t.Error("Bind of another store's transaction")
	}

	tx, session := begin(t, s)
	if err := session.SetResult(t.Context(), claimOf("m"), []byte("r")); err == nil {
		t.Error("a result without a claim")
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, yekbar.ErrRolledBack) {
		t.Errorf("a statement that failed was swallowed: %v", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, yekbar.ErrTxDone) {
		t.Errorf("a second Commit: %v", err)
	}
	if err := tx.Rollback(); !errors.Is(err, yekbar.ErrTxDone) {
		t.Errorf("Rollback after Commit: %v", err)
	}

	_, session = begin(t, s)
	for range 2 {
		if err := session.SetResult(t.Context(), claimOf("m"), nil); err == nil {
			t.Error("a result without a claim, or a statement after one that failed")
		}
	}
}

func TestHeldIsKeptWhole(t *testing.T) {
	s := memstore.New()
	h := &yekbar.HeldMessage{
		Consumer: "c", MessageID: "m", State: yekbar.StateParked, Reason: yekbar.ReasonPermanent, Fingerprint: []byte("f"),
		Raw: []byte("raw"), Errors: []string{"e"}, Attempts: 1,
		Message: yekbar.Message{ID: "m", Header: yekbar.Header{{Name: "h", Value: []byte("v")}}, Payload: []byte("p")},
	}
	if ok, err := s.Hold(t.Context(), h); err != nil || !ok {
		t.Fatal(ok, err)
	}
	h.Raw[0], h.Errors[0], h.Message.Payload[0], h.Message.Header[0].Value[0], h.Fingerprint[0] = 'x', "x", 'x', 'x', 'x'
	kept := heldBy(t, s)
	if len(kept) != 1 {
		t.Fatalf("%d are held", len(kept))
	}
	got := fmt.Sprintf("%s %s %s %s %s", kept[0].Raw, kept[0].Errors[0], kept[0].Message.Payload, kept[0].Message.Header.Get("h"), kept[0].Fingerprint)
	if want := "raw e p v f"; got != want {
		t.Errorf("held %q, want %q", got, want)
	}
	if kept[0].At.IsZero() {
		t.Error("At is not set")
	}

	c := claimOf("m")
	c.FromParked = true
	if _, err := s.Attempt(t.Context(), []yekbar.Claim{c}, func(context.Context, *memstore.Tx, []int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := len(heldBy(t, s)); n != 0 {
		t.Errorf("%d are held after the parked one was applied", n)
	}
}

func heldBy(t *testing.T, s *memstore.Store) (all []*yekbar.HeldMessage) {
	t.Helper()
	for h, err := range s.Held(t.Context(), yekbar.HeldFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

func TestAwaitWaitersEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := memstore.New().AwaitWaiters(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
