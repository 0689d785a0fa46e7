package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// memConsumer counts each message's effects in a memstore.
func memConsumer(t testing.TB, store *memstore.Store) *yekbar.Consumer[*memstore.Tx] {
	t.Helper()
	c, err := yekbar.NewConsumer("inventory", store, func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
		n := 0
		if v, ok := tx.Get(m.ID); ok {
			var err error
			if n, err = strconv.Atoi(string(v)); err != nil {
				return err
			}
		}
		return tx.Put(m.ID, []byte(strconv.Itoa(n+1)))
	}, yekbar.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// drain runs a worker until the subscription has nothing left, and ends it.
func (s *natsSubscription) drain(t testing.TB, p worker.Processor, c worker.Config) {
	t.Helper()
	source := s.source(t)
	_, stop := startWorker(t, source, p, c)
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		held, waiting := unacknowledged(t, s)
		if held == 0 && waiting == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are unacknowledged and %d wait", held, waiting)
		}
		<-tick.C
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func (s *natsSubscription) positions(t testing.TB) map[string]string {
	t.Helper()
	source := s.source(t)
	defer func() { _ = source.Close(context.WithoutCancel(t.Context())) }()
	at, err := source.Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestNATSBrokerPositions has a stream of two subjects with a gap, and a
// consumer of one of them.
func TestNATSBrokerPositions(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), 30*time.Second)
	ctx := t.Context()
	name := s.subject + "-two"
	config := natsbroker.SourceConfig{Stream: name, Durable: "inventory", Subjects: []string{name + ".orders"}}
	if err := natsbroker.EnsureStream(ctx, s.js, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".*"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.js.DeleteStream(context.WithoutCancel(ctx), name) })
	if err := natsbroker.EnsureConsumer(ctx, s.js, config); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p, err := natsbroker.NewPublisher(s.js, natsbroker.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		for _, subject := range []string{"orders", "refunds"} {
			if err := p.Publish(ctx, []*yekbar.Message{{ID: fmt.Sprintf("%s-%d", subject, i+1), Topic: name + "." + subject}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(ctx, 11); err != nil { // orders-6
		t.Fatal(err)
	}
	source, err := natsbroker.NewSource(ctx, s.js, config)
	if err != nil {
		t.Fatal(err)
	}
	if got := source.Capabilities().Subscription; got != "nats "+name+"/inventory" {
		t.Errorf("the subscription is %q", got)
	}
	got := 0
	for got < 8 {
		ds, err := source.Receive(ctx, 8-got)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if at := d.(broker.Stamped).ReceivedAt(); at.Before(began.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
				t.Errorf("received at %v, between %v and now", at, began)
			}
			if err := d.Ack(ctx); err != nil {
				t.Fatal(err)
			}
			got++
		}
	}
	at, err := source.Positions(ctx)
	if err != nil || at[name] != "18" { // orders-9 is at 17
		t.Errorf("positions are %v, %v", at, err)
	}
	list := func(from map[string]string, limit int) (ids []string) {
		for m, err := range source.Acknowledged(ctx, from, limit) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, m.ID)
		}
		return ids
	}
	for _, test := range []struct {
		from  string
		limit int
		want  string
	}{
		{"", 100, "[orders-9 orders-8 orders-7 orders-5 orders-4 orders-3 orders-2 orders-1]"},
		{"", 2, "[orders-9 orders-8]"},
		{"13", 100, "[orders-9 orders-8 orders-7]"},
		{"18", 100, "[]"},
		{"999", 100, "[]"},
	} {
		from := map[string]string{name: test.from}
		if test.from == "" {
			from = nil
		}
		if got := fmt.Sprint(list(from, test.limit)); got != test.want {
			t.Errorf("from %q, at most %d: %s, want %s", test.from, test.limit, got, test.want)
		}
	}
	if err := source.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := source.Rewind(ctx, map[string]string{name: "15"}); err != nil {
		t.Fatal(err)
	}
	again, err := natsbroker.NewSource(ctx, s.js, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close(context.WithoutCancel(ctx)) }()
	ds, err := again.Receive(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := ds[0].Message(); err != nil || m.ID != "orders-8" {
		t.Errorf("after going back, the first is %v, %v", m, err)
	}
	for _, bad := range []map[string]string{{}, {name: "yesterday"}} {
		if err := again.Rewind(ctx, bad); err == nil {
			t.Errorf("went back to %v", bad)
		}
	}
}

func TestNATSBrokerDoesNotRewindWhatIsDeleted(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), 30*time.Second)
	name := s.subject + "-queue"
	if err := natsbroker.EnsureStream(t.Context(), s.js, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.js.DeleteStream(context.WithoutCancel(t.Context()), name) })
	s.config.Stream = name
	if err := natsbroker.EnsureConsumer(t.Context(), s.js, s.config); err != nil {
		t.Fatal(err)
	}
	source := s.source(t)
	defer func() { _ = source.Close(context.WithoutCancel(t.Context())) }()
	if err := source.Rewind(t.Context(), map[string]string{name: "1"}); err == nil {
		t.Error("a work queue was rewound")
	}
	if at, err := source.Positions(t.Context()); err != nil || at[name] != "1" {
		t.Errorf("the consumer is gone: %v, %v", at, err)
	}
}

// TestNATSBrokerIsAheadOfARestoredDatabase restores a database to a moment
// before the broker's: the worker refuses to start, and after going back
// nothing is lost and nothing doubled.
func TestNATSBrokerIsAheadOfARestoredDatabase(t *testing.T) {
	url := servers.NATS(t)
	s, other := subscribeNATS(t, url, 30*time.Second), subscribeNATS(t, url, 30*time.Second)
	s.publish(t, 100)
	other.publish(t, 100)
	store, backup := memstore.New(), memstore.New()
	s.drain(t, memConsumer(t, store), worker.Config{})
	other.drain(t, memConsumer(t, backup), worker.Config{})
	saved, err := store.Positions(t.Context(), "inventory")
	if err != nil || !maps.Equal(saved, s.positions(t)) || saved[s.subject] != "101" {
		t.Fatalf("saved are %v, %v", saved, err)
	}
	// The backup is as the database was now; but its subscription has another
	// name.
	by := yekbar.Actor{Name: "test", Reason: "the streams have the same messages"}
	if err := backup.ConfirmSubscription(t.Context(), "inventory", "nats "+s.subject+"/inventory", by); err != nil {
		t.Fatal(err)
	}
	if err := backup.SavePositions(t.Context(), "inventory", saved); err != nil {
		t.Fatal(err)
	}
	p, err := natsbroker.NewPublisher(s.js, natsbroker.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 101; i <= 150; i++ {
		if err := p.Publish(t.Context(), []*yekbar.Message{{ID: fmt.Sprintf("m-%d", i), Topic: s.subject}}); err != nil {
			t.Fatal(err)
		}
	}
	s.drain(t, memConsumer(t, store), worker.Config{})

	w, err := worker.New(s.source(t), memConsumer(t, backup), worker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, yekbar.ErrBehindBroker) {
		t.Fatalf("Run returned %v", err)
	}
	source := s.source(t)
	if err := source.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := source.Rewind(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	s.drain(t, memConsumer(t, backup), worker.Config{})
	for i := 1; i <= 150; i++ {
		if v, _ := backup.Get(fmt.Sprintf("m-%d", i)); string(v) != "1" {
			t.Errorf("m-%d took effect %q times", i, v)
		}
	}
}

// TestNATSBrokerCountsNoDeliveryInAnOutage probes a database that is away for
// several leases.
func TestNATSBrokerCountsNoDeliveryInAnOutage(t *testing.T) {
	s := subscribeNATS(t, servers.NATS(t), time.Second)
	var down atomic.Bool
	store := &outOfReach{Store: memstore.New(), down: &down}
	var attempts atomic.Int64
	consumer, err := yekbar.NewConsumer("inventory", store, func(_ context.Context, tx *memstore.Tx, m *yekbar.Message) error {
		return tx.Put(m.ID, []byte("1"))
	}, yekbar.Config{})
	if err != nil {
		t.Fatal(err)
	}
	source := s.source(t)
	w, stop := startWorker(t, &countsDeliveries{source, &attempts}, consumer, worker.Config{Concurrency: 4, Prefetch: 8})
	down.Store(true)
	s.publish(t, 50)
	over := time.After(6 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-over:
			waiting = false
		case <-tick.C:
			if held, _ := unacknowledged(t, s); held > 8 {
				t.Fatalf("%d are held", held)
			}
		}
	}
	if w.Health() == nil {
		t.Error("healthy without a database")
	}
	down.Store(false)
	for deadline := time.Now().Add(30 * time.Second); w.Stats().Acked < 50; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("stats are %+v", w.Stats())
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := attempts.Load(); n != 50 {
		t.Errorf("50 messages were delivered %d times", n)
	}
}

type outOfReach struct {
	*memstore.Store
	down *atomic.Bool
}

func (s *outOfReach) Attempt(ctx context.Context, cs []yekbar.Claim, fn func(context.Context, *memstore.Tx, []int) error) ([]yekbar.Claimed, error) {
	if s.down.Load() {
		return nil, yekbar.ErrUnavailable
	}
	return s.Store.Attempt(ctx, cs, fn)
}

type countsDeliveries struct {
	broker.Source
	n *atomic.Int64
}

func (s *countsDeliveries) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	ds, err := s.Source.Receive(ctx, limit)
	s.n.Add(int64(len(ds)))
	return ds, err
}
