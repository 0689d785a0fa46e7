package integration

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// keeper is a store, and its database beside it.
type keeper struct {
	testing.TB
	*sqlstore.Store
	db      *sql.DB
	dialect sqlstore.Dialect
}

func newKeeper(t testing.TB, d sqlDriver) *keeper {
	t.Helper()
	dsn := d.dsn(t)
	s := sqlstore.New(d.open(t, dsn, true), d.dialect, sqlstore.Config{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &keeper{t, s, d.open(t, dsn, false), d.dialect}
}

func (k *keeper) table(name string) string {
	return schema.Names{}.Table(schema.Dialect(k.dialect.String()), name)
}

func (k *keeper) exec(text string) {
	k.Helper()
	if _, err := k.db.ExecContext(k.Context(), text); err != nil {
		k.Fatalf("%s: %v", text, err)
	}
}

func (k *keeper) count(text string) (n int) {
	k.Helper()
	if err := k.db.QueryRowContext(k.Context(), text).Scan(&n); err != nil {
		k.Fatalf("%s: %v", text, err)
	}
	return n
}

// year is a time of the tables.
func (k *keeper) year(n int) string {
	text := map[sqlstore.Dialect]string{
		sqlstore.PostgreSQL: "%d-01-01 00:00:00+00", sqlstore.MariaDB: "%d-01-01 00:00:00", sqlstore.SQLite: "%d-01-01T00:00:00.000Z",
	}[k.dialect]
	return fmt.Sprintf("'"+text+"'", n)
}

// applied inserts claims as of long ago.
func (k *keeper) applied(consumer string, ids ...string) {
	k.Helper()
	for _, id := range ids {
		k.exec(fmt.Sprintf("INSERT INTO %s (consumer_name, message_id, state, processed_at) VALUES ('%s', '%s', 'applied', %s)", k.table(schema.ProcessedMessages), consumer, id, k.year(2001)))
	}
}

func (k *keeper) park(id string) {
	k.Helper()
	h := &yekbar.HeldMessage{Consumer: "c", MessageID: id, State: yekbar.StateParked, Reason: yekbar.ReasonDelayed, Message: yekbar.Message{ID: id}}
	if held, err := k.Hold(k.Context(), h); err != nil || !held {
		k.Fatalf("Hold: %v, %v", held, err)
	}
}

// lock locks rows in a transaction of its own, as another process does.
func (k *keeper) lock(table, condition string) (release func()) {
	k.Helper()
	tx, err := k.db.BeginTx(k.Context(), nil)
	if err != nil {
		k.Fatal(err)
	}
	rows, err := tx.QueryContext(k.Context(), "SELECT consumer_name FROM "+k.table(table)+" WHERE "+condition+" FOR UPDATE")
	if err != nil {
		k.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 { //nolint:sqlclosecheck // its error counts
		k.Fatalf("%d rows locked: %v", n, err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			k.Error(err)
		}
	}
}

// lockers runs a test over the drivers of databases that lock rows.
func lockers(t *testing.T, run func(k *keeper)) {
	eachDriver(t, func(t *testing.T, d sqlDriver) {
		if d.dialect == sqlstore.SQLite {
			t.Skip("SQLite has one writer and no locks of rows")
		}
		run(newKeeper(t, d))
	})
}

// What another process has in its hands keeps nobody from the rest.
func TestSQLStoreTakeDueSkipsLocked(t *testing.T) {
	t.Parallel()
	lockers(t, func(k *keeper) {
		for _, id := range []string{"m-1", "m-2", "m-3"} {
			k.park(id)
		}
		release := k.lock(schema.HeldMessages, "consumer_name = 'c' AND message_id = 'm-1'")
		begun := time.Now()
		hs, err := k.TakeDue(k.Context(), "c", 10, time.Hour)
		if took := time.Since(begun); err != nil || len(hs) != 2 || hs[0].MessageID != "m-2" || hs[1].MessageID != "m-3" || took > 10*time.Second {
			k.Errorf("TakeDue beside a locked message, after %v: %+v, %v; want the other two", took, hs, err)
		}
		release()
		if hs, err := k.TakeDue(k.Context(), "c", 10, time.Hour); err != nil || len(hs) != 1 || hs[0].MessageID != "m-1" {
			k.Errorf("TakeDue afterwards: %+v, %v; want the first", hs, err)
		}
	})
}

// aged makes it have a consumer whose claims of 2001 may be pruned.
func (k *keeper) aged() {
	k.Helper()
	if _, err := k.Watermark(k.Context(), "c", time.Hour); err != nil {
		k.Fatal(err)
	}
	k.exec("UPDATE " + k.table(schema.Consumers) + " SET prunable_watermark = " + k.year(2002))
}

func (k *keeper) prune(limit, wantDeleted int, wantMore bool) {
	k.Helper()
	if n, more, err := k.Prune(k.Context(), "c", limit); err != nil || n != wantDeleted || more != wantMore {
		k.Errorf("Prune(%d): %d, more: %v, %v; want %d, %v", limit, n, more, err, wantDeleted, wantMore)
	}
}

// Who finds another instance at pruning goes away at once, and claims that are
// locked are left for the next walk.
func TestSQLStorePruneSkipsLocked(t *testing.T) {
	t.Parallel()
	lockers(t, func(k *keeper) {
		k.aged()
		k.applied("c", "m-1", "m-2", "m-3")
		release := k.lock(schema.Consumers, "consumer_name = 'c'")
		k.prune(10, 0, false)
		release()
		release = k.lock(schema.ProcessedMessages, "consumer_name = 'c' AND message_id = 'm-2'")
		k.prune(10, 2, false)
		release()
		k.prune(10, 1, false)
	})
}

// A call of Prune looks at a bounded number of claims, and the next one goes
// on behind them, in whatever process.
func TestSQLStorePruneWalks(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d sqlDriver) {
		k := newKeeper(t, d)
		k.aged()
		var young []string
		for i := range 25 {
			young = append(young, fmt.Sprintf("a-%02d", i))
		}
		k.applied("c", young...)
		k.exec("UPDATE " + k.table(schema.ProcessedMessages) + " SET processed_at = " + k.year(2003))
		k.applied("c", "z-1", "z-2")
		k.prune(1, 0, true) // a-00 to a-09
		k.prune(1, 0, true)
		k.prune(1, 1, true) // behind a-19: z-1 is found before z-2
		k.prune(1, 1, true)
		k.prune(1, 0, false)
		k.prune(1, 0, true) // and from the beginning
		if n := k.count("SELECT COUNT(*) FROM " + k.table(schema.ProcessedMessages)); n != len(young) {
			k.Errorf("%d claims are left, want %d", n, len(young))
		}
	})
}

// A start that died while it moved a former name's claims is finished by the
// next one.
func TestSQLStoreRegisterGoesOn(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d sqlDriver) {
		k := newKeeper(t, d)
		register := func(consumer string, former ...string) {
			k.Helper()
			if err := k.Register(k.Context(), yekbar.Registration{Consumer: consumer, FormerNames: former}); err != nil {
				k.Fatal(err)
			}
		}
		register("two", "one")
		k.applied("one", "m-1") // not moved yet
		register("three", "two")
		k.applied("one", "m-2") // as if that had died too
		register("three")
		for _, id := range []string{"m-1", "m-2"} {
			if _, err := k.Claim(k.Context(), "three", id); err != nil {
				k.Error(err)
			}
		}
		if n := k.count("SELECT COUNT(*) FROM " + k.table(schema.ProcessedMessages) + " WHERE consumer_name <> 'three'"); n != 0 {
			k.Errorf("%d claims are left under former names", n)
		}
	})
}

// Nothing is changed by hand without its entry in the audit log.
func TestSQLStoreAuditOrNothing(t *testing.T) {
	t.Parallel()
	by := yekbar.Actor{Name: "someone", Reason: "because"}
	eachDriver(t, func(t *testing.T, d sqlDriver) {
		k := newKeeper(t, d)
		ctx := k.Context()
		k.park("m-1")
		k.exec("DROP TABLE " + k.table(schema.AuditLog))
		for name, act := range map[string]func() error{
			"MakeDue": func() error { return k.MakeDue(ctx, "c", "m-1", by) },
			"Discard": func() error { return k.Discard(ctx, "c", "m-1", by) },
			"Forget":  func() error { return k.Forget(ctx, "c", "m-1", by) },
			"pause":   func() error { return k.SetPaused(ctx, "c", true, by) },
			"confirm": func() error { return k.ConfirmSubscription(ctx, "c", "s", by) },
		} {
			if err := act(); !errors.Is(err, yekbar.ErrSchema) {
				k.Errorf("%s without an audit log: %v", name, err)
			}
		}
		if c, err := k.Claim(ctx, "c", "m-1"); err != nil || c.State != yekbar.StateParked {
			k.Errorf("the claim: %+v, %v", c, err)
		}
		if all, err := k.Consumers(ctx); err != nil || slices.ContainsFunc(all, func(c yekbar.ConsumerStatus) bool { return c.Paused || c.Parked != 1 }) {
			k.Errorf("the consumers: %+v, %v", all, err)
		}
	})
}

// Who goes through a list may act on what it finds, also with one connection.
func TestSQLStoreActsWhileItLists(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d sqlDriver) {
		db := d.open(t, d.dsn(t), true)
		db.SetMaxOpenConns(1)
		s := sqlstore.New(db, d.dialect, sqlstore.Config{})
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		k := &keeper{t, s, db, d.dialect}
		const many = 45 // more than two pages
		for i := range many {
			k.park(fmt.Sprintf("m-%02d", i))
		}
		n := 0
		for h, err := range s.Held(t.Context(), yekbar.HeldFilter{Consumer: "c"}) {
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Discard(t.Context(), "c", h.MessageID, yekbar.Actor{Name: "someone", Reason: "because"}); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if left := k.count("SELECT COUNT(*) FROM " + k.table(schema.HeldMessages)); n != many || left != 0 {
			t.Errorf("%d of %d were listed and discarded, %d are left", n, many, left)
		}
	})
}
