package integration

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/worker"
)

// TestWorkerHoldsOverADatabaseOutage kills PostgreSQL three times under a
// worker over JetStream: each time nothing is fetched that can't be handled,
// no delivery is spent, and in the end each message took effect once.
func TestWorkerHoldsOverADatabaseOutage(t *testing.T) {
	const n = 3000
	server := servers.StartPostgreSQL(t, servers.Options{})
	s := subscribeNATS(t, servers.NATS(t), 2*time.Second)
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store := pgxstore.New(pool, pgxstore.Config{})
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE taken (id text NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{}, 1<<20)
	consumer, err := yekbar.NewConsumer("inventory", store, func(ctx context.Context, tx pgx.Tx, m *yekbar.Message) error {
		began <- struct{}{}
		_, err := tx.Exec(ctx, `INSERT INTO taken VALUES ($1)`, m.ID)
		return err
	}, yekbar.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.publish(t, n)
	w, stop := startWorker(t, s.source(t), consumer, worker.Config{})
	for range 3 {
		for range 100 {
			select {
			case <-began:
			case <-time.After(time.Minute):
				t.Fatalf("the worker does not go on: %+v", w.Stats())
			}
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		// Longer than a lease, so that holding takes extending.
		outage := time.After(3 * time.Second)
		<-outage
		if h := w.Stats().Held; h == 0 || h > 32 {
			t.Errorf("%d deliveries are held in the outage", h)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); w.Stats().Acked < n; {
		if time.Now().After(deadline) {
			t.Fatalf("not done: %+v", w.Stats())
		}
		select {
		case <-began:
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if st := w.Stats(); st.Received != n || st.Failed != 0 || st.GivenBack != 0 || st.SetAside != 0 || st.Lost != 0 {
		t.Errorf("deliveries were spent: %+v", st)
	}
	var rows, ids int
	if err := pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT id) FROM taken`).Scan(&rows, &ids); err != nil {
		t.Fatal(err)
	}
	if rows != n || ids != n {
		t.Errorf("%d messages took effect %d times, want %d once", ids, rows, n)
	}
}
