package integration

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/schema"
)

// eachMode runs a test on a shop of its own in every query mode.
func eachMode(t *testing.T, run func(t *testing.T, s *shop)) {
	t.Parallel()
	for _, mode := range pgxModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			run(t, openShop(t, servers.PostgreSQL(t), "", func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
		})
	}
}

// All of pgx's methods work in a handler.
func TestPgxStoreTxMethods(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shop) {
		var kept pgx.Tx
		var oid uint32
		_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
			kept = tx
			n, err := tx.CopyFrom(ctx, pgx.Identifier{"stock"}, []string{"sku", "units"}, pgx.CopyFromRows([][]any{{"salt", 1}, {"oil", 2}}))
			if err != nil || n != 2 {
				return errors.Join(err, errors.New("CopyFrom"))
			}
			if _, err := tx.Prepare(ctx, "look", "SELECT units FROM stock WHERE sku = $1"); err != nil {
				return err
			}
			var units int
			if err := tx.QueryRow(ctx, "look", "oil").Scan(&units); err != nil || units != 2 {
				return errors.Join(err, errors.New("QueryRow of a prepared statement"))
			}
			if err := tx.QueryRow(ctx, "SELECT units FROM stock WHERE sku = $1", "none").Scan(&units); !errors.Is(err, pgx.ErrNoRows) {
				return errors.Join(err, errors.New("QueryRow without rows"))
			}
			rows, err := tx.Query(ctx, "SELECT sku FROM stock WHERE sku <> @sku ORDER BY sku", pgx.NamedArgs{"sku": "oil"})
			if err != nil {
				return err
			}
			skus, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil || strings.Join(skus, " ") != "salt tea" {
				return errors.Join(err, errors.New("Query: "+strings.Join(skus, " ")))
			}
			b := &pgx.Batch{}
			b.Queue("UPDATE stock SET units = units + 1 WHERE sku = $1", "oil")
			b.Queue("SELECT units FROM stock WHERE sku = $1", "oil").QueryRow(func(row pgx.Row) error { return row.Scan(&units) })
			if err := tx.SendBatch(ctx, b).Close(); err != nil || units != 3 {
				return errors.Join(err, errors.New("SendBatch"))
			}
			lo := tx.LargeObjects()
			if oid, err = lo.Create(ctx, 0); err != nil {
				return err
			}
			o, err := lo.Open(ctx, oid, pgx.LargeObjectModeWrite|pgx.LargeObjectModeRead)
			if err != nil {
				return err
			}
			if _, err := o.Write([]byte("large")); err != nil {
				return err
			}
			if _, err := o.Seek(0, io.SeekStart); err != nil {
				return err
			}
			if got, err := io.ReadAll(io.LimitReader(o, 5)); err != nil || string(got) != "large" {
				return errors.Join(err, errors.New("LargeObjects"))
			}
			if tx.Conn() == nil {
				return errors.New("Conn")
			}
			return takeOne(ctx, tx, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		s.wantStored(1)
		if s.number("SELECT count(*) FROM pg_largeobject_metadata WHERE oid = $1", oid) != 1 {
			t.Error("the large object is not there")
		}
		lo := kept.LargeObjects()
		if _, err := lo.Create(t.Context(), 0); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("a large object after the end: %v", err)
		}
		for name, use := range txUses {
			if err := use(t.Context(), kept); !errors.Is(err, yekbar.ErrTxDone) {
				t.Errorf("%s after the end: %v", name, err)
			}
		}
	})
}

// txUses are ways to use a transaction.
var txUses = map[string]func(context.Context, pgx.Tx) error{
	"Exec":  func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELECT 1"); return err },
	"Query": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Query(ctx, "SELECT 1"); return err },
	"QueryRow": func(ctx context.Context, tx pgx.Tx) error {
		var n int
		return tx.QueryRow(ctx, "SELECT 1").Scan(&n)
	},
	"Begin":    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Begin(ctx); return err },
	"Prepare":  func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Prepare(ctx, "x", "SELECT 1"); return err },
	"Commit":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
	"Rollback": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	"SendBatch": func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		return tx.SendBatch(ctx, b).Close()
	},
	"CopyFrom": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"stock"}, []string{"sku"}, pgx.CopyFromRows(nil))
		return err
	},
	"Queue": func(ctx context.Context, tx pgx.Tx) error {
		return pgxstore.Queue(ctx, tx, yekbar.Statement{SQL: "SELECT 1"})
	},
}

// What comes after a queued statement sees it.
func TestPgxStoreQueueComesBeforeWhatFollows(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shop) {
		take := yekbar.Statement{SQL: "UPDATE stock SET units = units - $1 WHERE sku = $2;", Args: []any{10, "tea"}, MinRows: 1}
		want := 100
		look := func(ctx context.Context, tx pgx.Tx) error {
			var units int
			if err := tx.QueryRow(ctx, "SELECT units FROM stock WHERE sku = 'tea'").Scan(&units); err != nil {
				return err
			}
			if units != want {
				t.Errorf("%d units, want %d", units, want)
			}
			return nil
		}
		_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
			for range 2 {
				want -= 10
				if err := errors.Join(pgxstore.Queue(ctx, tx, take), look(ctx, tx)); err != nil {
					return err
				}
			}
			if err := pgxstore.Queue(ctx, tx, take); err != nil {
				return err
			}
			want -= 10
			nested, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if err := errors.Join(pgxstore.Queue(ctx, nested, take), nested.Rollback(ctx), look(ctx, tx)); err != nil {
				return err
			}
			return errors.Join(pgxstore.Queue(ctx, tx, take), pgxstore.Queue(ctx, tx, take)) // with COMMIT
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.number("SELECT units FROM stock WHERE sku = 'tea'"); got != 50 {
			t.Errorf("%d units, want 50", got)
		}
	})
}

// MinRows holds for every kind of statement, alone and in a batch, and a
// failure of any leaves nothing.
func TestPgxStoreMinRows(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shop) {
		s.exec("CREATE TABLE log (sku text); CREATE FUNCTION quietly() RETURNS void LANGUAGE sql AS ''")
		id := 0
		for _, c := range []struct {
			sql     string
			args    []any
			min     int
			rows    int // -2: no error
			anyFail bool
		}{
			{"UPDATE stock SET units = units - 1 WHERE sku = $1", []any{"tea"}, 1, -2, false},
			{"UPDATE stock SET units = units - 1 WHERE sku = $1 -- why", []any{"none"}, 1, 0, false},
			{"UPDATE stock SET units = units - 1 WHERE sku = 'tea'", nil, 2, 1, false},
			{"UPDATE stock SET units = units - 1 WHERE sku = 'tea' RETURNING units", nil, 1, -2, false},
			{"update stock set units = units - 1 where sku = 'none' returning units;", nil, 1, 0, false},
			{"INSERT INTO log VALUES ('a'), ('b')", nil, 2, -2, false},
			{"INSERT INTO log SELECT sku FROM stock WHERE false", nil, 1, 0, false},
			{"WITH x AS (SELECT 'tea'::text AS sku) UPDATE stock SET units = units - 1 FROM x WHERE stock.sku = x.sku", nil, 1, -2, false},
			{"WITH x AS (SELECT 'none'::text AS sku) UPDATE stock SET units = units - 1 FROM x WHERE stock.sku = x.sku", nil, 1, 0, false},
			{"DELETE FROM log", nil, 5, 4, false},
			{"SELECT quietly()", nil, 0, -2, false},
			{"INSERT INTO stock VALUES ('tea', 1)", nil, 1, 0, true},
			{"UPDATE stock SET units = 1 / 0", nil, 1, 0, true},
			{"UPDATE stock SET units = 'yekbar changed rows: 5'::text::int", nil, 1, 0, true},
		} {
			for _, n := range []int{1, 2} { // one message is one trip
				claims, ss := []yekbar.Claim(nil), [][]yekbar.Statement(nil)
				for range n {
					id++
					claims = append(claims, shopClaim("m-"+string(rune('a'+id)))...)
					ss = append(ss, []yekbar.Statement{{SQL: "SELECT 1"}})
				}
				ss[n-1] = append(ss[n-1], yekbar.Statement{SQL: c.sql, Args: c.args, MinRows: c.min})
				before := s.number("SELECT count(*) FROM yekbar.processed_messages")
				_, err := s.store.AttemptStatements(t.Context(), claims, ss)
				after := s.number("SELECT count(*) FROM yekbar.processed_messages")
				if c.rows == -2 {
					if err != nil || after != before+n {
						t.Errorf("%s: %v, %d claims more", c.sql, err, after-before)
					}
					continue
				}
				if after != before {
					t.Errorf("%s: %d claims were left", c.sql, after-before)
				}
				re := (*yekbar.RowsError)(nil)
				if errors.As(err, &re) == c.anyFail && !strings.Contains(c.sql, "changed rows") {
					t.Errorf("%s: error %v", c.sql, err)
				}
				if !c.anyFail && re != nil && (re.Rows != c.rows || re.Index != 1 || re.MinRows != c.min) {
					t.Errorf("%s: %+v, want %d rows", c.sql, re, c.rows)
				}
				if !yekbar.CountsAsAttempt(err) || errors.Is(err, yekbar.ErrTransient) {
					t.Errorf("%s: error %v is not the message's", c.sql, err)
				}
			}
		}
		_, err := s.store.AttemptStatements(t.Context(), shopClaim("m-end"), [][]yekbar.Statement{{{SQL: "UPDATE stock SET units = 0"}, {SQL: "/* x */ COMMIT"}}})
		wantIs(t, err, yekbar.ErrBoundary)
		if got := s.number("SELECT count(*) FROM stock WHERE units = 0"); got != 0 {
			t.Error("a refused message's statement was executed")
		}
	})
}

// A handler that returns while its transaction is in use does not commit, and
// nobody else gets its connection.
func TestPgxStoreTxInUseAtTheEnd(t *testing.T) {
	t.Parallel()
	s := openShop(t, servers.PostgreSQL(t), "", func(c *pgxpool.Config) { c.MaxConns = 1 })
	stray := make(chan error, 1)
	for name, leave := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"rows": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "SELECT generate_series(1, 100000)")
			if err == nil {
				rows.Next()
			}
			return err
		},
		"a row that was not scanned": func(ctx context.Context, tx pgx.Tx) error { tx.QueryRow(ctx, "SELECT 1"); return nil },
		"a batch": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			tx.SendBatch(ctx, b)
			return nil
		},
		"a goroutine": func(ctx context.Context, tx pgx.Tx) error {
			go func() {
				_, err := tx.Exec(context.WithoutCancel(ctx), "SELECT pg_sleep(60)")
				stray <- err
			}()
			s.waitFor("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%' AND state = 'active' AND datname = current_database()", 1)
			return nil
		},
	} {
		_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
			return errors.Join(takeOne(ctx, tx, nil), leave(ctx, tx))
		})
		if err == nil || !yekbar.CountsAsAttempt(err) {
			t.Errorf("%s: %v", name, err)
		}
		s.wantStored(0)
	}
	if err := <-stray; err == nil {
		t.Error("the goroutine's statement succeeded")
	}
	if got, err := s.store.Attempt(t.Context(), shopClaim("m-1"), takeOne); err != nil || !got[0].Fresh {
		t.Errorf("%+v, %v", got, err)
	}
	s.wantStored(1)
}

// waitFor waits until a query beside the store returns n.
func (s *shop) waitFor(sql string, n int) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); s.number(sql) != n; {
		select {
		case <-tick.C:
		case <-deadline:
			s.Fatalf("%s is not %d after 20 s", sql, n)
		}
	}
}

func heldTea() *yekbar.HeldMessage {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return &yekbar.HeldMessage{
		Consumer: "shop", MessageID: "m-1", State: yekbar.StateParked, Reason: yekbar.ReasonPermanent, Attempts: 3,
		Fingerprint: []byte{9}, Raw: all, Errors: []string{"one", "two"}, Delay: 3 * time.Hour,
		Message: yekbar.Message{
			ID: "a\x00b\xff", Source: "/s", Type: "base64:x", Subject: "", Topic: "orders", OrderingKey: "\xfe",
			Time:   time.Date(2020, 1, 2, 3, 4, 5, 678901234, time.FixedZone("", 3600)),
			Header: yekbar.Header{{Name: "b", Value: all}, {Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte{}}}, Payload: all,
		},
	}
}

// A held message comes back from its columns as it was.
func TestPgxStoreHeldMessageSurvives(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shop) {
		h := heldTea()
		if held, err := s.store.Hold(t.Context(), h); !held || err != nil {
			t.Fatal(held, err)
		}
		var id, source, kind, subject, topic, key, at, header, errs, state, reason string
		var payload, raw, fingerprint []byte
		var due time.Time
		var attempts int
		if err := s.beside.QueryRow(t.Context(), `SELECT event_id, event_source, event_type, event_subject, topic, ordering_key, event_time, headers, errors, state, reason,
			payload, raw, fingerprint, due_at, attempts FROM yekbar.held_messages`).Scan(&id, &source, &kind, &subject, &topic, &key, &at, &header, &errs, &state, &reason,
			&payload, &raw, &fingerprint, &due, &attempts); err != nil {
			t.Fatal(err)
		}
		text := func(s string) string {
			d, err := schema.DecodeText(s)
			if err != nil {
				t.Error(err)
			}
			return d
		}
		m := h.Message
		if text(id) != m.ID || text(source) != m.Source || text(kind) != m.Type || text(subject) != m.Subject || text(topic) != m.Topic || text(key) != m.OrderingKey {
			t.Errorf("attributes: %q %q %q %q %q %q", id, source, kind, subject, topic, key)
		}
		if gotHeader, err := schema.DecodeHeader(header); err != nil || !reflect.DeepEqual(gotHeader, m.Header) {
			t.Errorf("headers: %v, %v", gotHeader, err)
		}
		if gotErrs, err := schema.DecodeErrors(errs); err != nil || !reflect.DeepEqual(gotErrs, h.Errors) {
			t.Errorf("errors: %v, %v", gotErrs, err)
		}
		if gotAt, err := time.Parse(time.RFC3339Nano, at); err != nil || !gotAt.Equal(m.Time) {
			t.Errorf("time: %v, %v", gotAt, err)
		}
		if !bytes.Equal(payload, m.Payload) || !bytes.Equal(raw, h.Raw) || !bytes.Equal(fingerprint, h.Fingerprint) || time.Until(due).Round(time.Hour) != h.Delay ||
			attempts != 3 || state != "parked" || reason != h.Reason {
			t.Errorf("%x %x %x %v %d %s %s", payload, raw, fingerprint, due, attempts, state, reason)
		}
		take := shopClaim("m-1")
		take[0].FromParked = true
		if got, err := s.store.Attempt(t.Context(), take, takeOne); err != nil || !got[0].Fresh {
			t.Errorf("taken over from the parked: %+v, %v", got, err)
		}
		if s.number("SELECT count(*) FROM yekbar.held_messages") != 0 {
			t.Error("the message is applied and still held")
		}
		take[0].MessageID = "never parked"
		if got, err := s.store.Attempt(t.Context(), take, takeOne); err != nil || got[0].Fresh || got[0].State != "" {
			t.Errorf("taking over what was never parked: %+v, %v", got, err)
		}
		s.wantStored(1)
	})
}
