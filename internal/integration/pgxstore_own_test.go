package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
)

// ripe makes n applied claims of consumer shop that are past a watermark of
// age, without statistics of the table.
func (s *shop) ripe(n int) {
	s.Helper()
	s.exec("ALTER TABLE yekbar.processed_messages SET (autovacuum_enabled = off)")
	s.exec(fmt.Sprintf(`INSERT INTO yekbar.processed_messages (consumer_name, message_id, state, processed_at)
  SELECT 'shop', md5(g::text), 'applied', clock_timestamp() - interval '3 days' FROM generate_series(1, %d) g`, n))
	s.exec(`INSERT INTO yekbar.consumers (consumer_name, first_seen, watermark, watermark_called_at, published_watermark, published_at, prunable_watermark)
  SELECT 'shop', now() - interval '9 days', w, now(), w, now() - interval '1 hour', w FROM (SELECT now() - interval '2 days' AS w) w`)
}

// TestPgxStorePruneWalksOn prunes few among many that are young: each call
// looks at some claims, and goes on there.
func TestPgxStorePruneWalksOn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.ripe(5000)
	s.exec("UPDATE yekbar.processed_messages SET processed_at = now() WHERE message_id >= '1'")
	old := s.number("SELECT count(*) FROM yekbar.processed_messages WHERE message_id < '1'")
	for round, want := range []int{old, 0} { // to the end, and then from the beginning
		total, calls, more := 0, 0, true
		for more && calls < 100 {
			var n int
			var err error
			if n, more, err = s.store.Prune(t.Context(), "shop", 50); err != nil {
				t.Fatal(err)
			}
			total, calls = total+n, calls+1
		}
		if total != want || calls < 5 || more {
			t.Errorf("round %d: %d claims were deleted in %d calls, want %d in at least 5 (5,000 claims, 1,000 a call); more: %v", round, total, calls, want, more)
		}
	}
	if n := s.number("SELECT count(*) FROM yekbar.processed_messages"); n != 5000-old {
		t.Errorf("%d claims are left, want %d", n, 5000-old)
	}
}

// TestPgxStorePruneIsAlone has another instance in the middle of it.
func TestPgxStorePruneIsAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.ripe(10)
	tx, err := s.beside.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('yekbar prune yekbar shop', 0))"); err != nil {
		t.Fatal(err)
	}
	if n, more, err := s.store.Prune(t.Context(), "shop", 100); n != 0 || more || err != nil {
		t.Errorf("while another one prunes: %d, %v, %v; want 0, false", n, more, err)
	}
	// What else is done with the consumer's row does not wait for it.
	if _, err := s.store.Watermark(t.Context(), "shop", time.Hour); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, more, err := s.store.Prune(t.Context(), "shop", 100); n != 10 || more || err != nil {
		t.Errorf("afterwards: %d, %v, %v; want 10, false", n, more, err)
	}
}

// TestPgxStoreRenameIsResumed finds what a start that was killed had not moved,
// also when the former name is not given any more.
func TestPgxStoreRenameIsResumed(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	if err := s.store.Register(ctx, yekbar.Registration{Consumer: "new", FormerNames: []string{"shop"}}); err != nil {
		t.Fatal(err)
	}
	s.exec(`INSERT INTO yekbar.processed_messages (consumer_name, message_id, state) SELECT 'shop', md5(g::text), 'applied' FROM generate_series(1, 1200) g`)
	s.exec(`INSERT INTO yekbar.results SELECT consumer_name, message_id, 'result' FROM yekbar.processed_messages`)
	s.exec(`INSERT INTO yekbar.attempts (consumer_name, message_id, failed) VALUES ('shop', 'failing', 2), ('new', 'failing', 1)`)
	s.exec(`INSERT INTO yekbar.positions (consumer_name, partition_name, position) VALUES ('shop', 'a', '1'), ('shop', 'b', '2'), ('new', 'b', '3')`)
	if err := s.store.Register(ctx, yekbar.Registration{Consumer: "new"}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"processed_messages", "results", "attempts", "positions"} {
		if n := s.number("SELECT count(*) FROM yekbar." + table + " WHERE consumer_name = 'shop'"); n != 0 {
			t.Errorf("%s has %d rows under the former name", table, n)
		}
	}
	if n := s.number("SELECT count(*) FROM yekbar.processed_messages JOIN yekbar.results USING (consumer_name, message_id) WHERE consumer_name = 'new'"); n != 1200 {
		t.Errorf("%d claims with their results have the new name, want 1200", n)
	}
	if n := s.number("SELECT failed FROM yekbar.attempts"); n != 1 {
		t.Errorf("%d failures are known under the new name, want its own 1", n)
	}
	if got, err := s.store.Positions(ctx, "new"); err != nil || got["a"] != "1" || got["b"] != "3" {
		t.Errorf("positions %q, %v", got, err)
	}
}

// TestPgxStoreTakeDueBehindManySuccessors takes one head after the other, with
// many behind them, and no statistics: a look that reads them all takes
// seconds, and would be one for each message.
func TestPgxStoreTakeDueBehindManySuccessors(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	s.exec("ALTER TABLE yekbar.held_messages SET (autovacuum_enabled = off)")
	s.exec(`INSERT INTO yekbar.held_messages (consumer_name, message_id, state, reason, attempts, errors, due_at, topic, ordering_key, ordered, key_hash,
    event_id, event_source, event_type, event_subject, headers)
  SELECT 'shop', 'm-' || g, 'parked', 'behind-key', 0, '[]', clock_timestamp(), 't', g % 2, true, decode(md5((g % 2)::text), 'hex'), '', '', '', '', '[]'
  FROM generate_series(1, 60000) g`)
	began := time.Now()
	for i := range 10 {
		hs, err := s.store.TakeDue(ctx, "shop", 10, time.Hour)
		if err != nil || len(hs) != 2 {
			t.Fatalf("look %d: %d messages, %v; want the head of each key", i, len(hs), err)
		}
		for j, h := range hs {
			if want := fmt.Sprintf("m-%d", 2*i+j+1); h.MessageID != want {
				t.Errorf("look %d: message %q, want %q", i, h.MessageID, want)
			}
			s.exec("DELETE FROM yekbar.held_messages WHERE message_id = '" + h.MessageID + "'")
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("ten looks took %v", took)
	}
	if keys, err := s.store.HeldKeys(ctx, "shop"); err != nil || len(keys) != 2 {
		t.Errorf("held keys %q, %v", keys, err)
	}
}
