package integration

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/storetest"
)

// sqlTest is a store with business counters.
type sqlTest struct {
	*storetest.Instance[*sql.Tx]
	testing.TB
	ctx context.Context
	dsn string
	// beside is another pool, without the guard.
	beside *sql.DB
}

// newSQLTest makes one over a fresh database, which wrap may put something in
// front of.
func newSQLTest(t testing.TB, d sqlDriver, f sqlFixture) *sqlTest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	dsn := d.dsn(t)
	f.sqlDriver = d
	f.dsn = func(testing.TB) string { return dsn }
	return &sqlTest{f.instance(t, 8), t, ctx, dsn, d.open(t, dsn, false)}
}

func sqlClaim(id string) []yekbar.Claim {
	return []yekbar.Claim{{Consumer: "test", MessageID: id, Wait: time.Second}}
}

// attempt claims id and adds 1 to the counter of that name, then calls more.
func (s *sqlTest) attempt(ctx context.Context, id string, more func(ctx context.Context, tx *sql.Tx) error) (fresh bool, err error) {
	got, err := s.Store.Attempt(ctx, sqlClaim(id), func(ctx context.Context, tx *sql.Tx, _ []int) error {
		if err := s.Add(ctx, tx, id, 1); err != nil {
			return err
		}
		if more == nil {
			return nil
		}
		return more(ctx, tx)
	})
	return err == nil && got[0].Fresh, err
}

// stored reads how many claims of id, and which counter, are committed.
func (s *sqlTest) stored(id string) (claims, counter int) {
	s.Helper()
	n, err := s.Claims(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	c, err := s.Read(s.ctx, id)
	if err != nil {
		s.Fatal(err)
	}
	return n, c
}

func (s *sqlTest) want(id string, claims, counter int) {
	s.Helper()
	if n, c := s.stored(id); n != claims || c != counter {
		s.Errorf("%d claims, counter %q is %d; want %d and %d", n, id, c, claims, counter)
	}
}

// settle repeats an attempt as a consumer does.
func (s *sqlTest) settle(id string) (fresh bool) {
	s.Helper()
	pause := yekbar.Backoff{Min: 5 * time.Millisecond, Max: 200 * time.Millisecond}
	for n := 1; ; n++ {
		fresh, err := s.attempt(s.ctx, id, nil)
		if err == nil {
			return fresh
		}
		if yekbar.CountsAsAttempt(err) && !errors.Is(err, yekbar.ErrTransient) {
			s.Fatalf("settling %q: %v", id, err)
		}
		select {
		case <-time.After(pause.Pause(n)):
		case <-s.ctx.Done():
			s.Fatalf("settling %q: %v", id, err)
		}
	}
}

func (s *sqlTest) exec(tx *sql.Tx, text string) error { return s.Instance.Exec(s.ctx, tx, text) }

// outside executes a text on the other pool.
func (s *sqlTest) outside(text string) {
	s.Helper()
	if _, err := s.beside.ExecContext(s.ctx, text); err != nil {
		s.Fatalf("%s: %v", text, err)
	}
}

func (s *sqlTest) wantError(err error, targets ...error) {
	s.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			s.Errorf("error %v; want %v", err, target)
		}
	}
}
