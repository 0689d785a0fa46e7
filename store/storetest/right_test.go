package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/internal/memfixture"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

type (
	tx       = *memstore.Tx
	instance = storetest.Instance[tx]
	body     = func(context.Context, tx, []int) error
)

// A right store is a memstore that also has statements and tables to migrate,
// so that it can be wrong in everything that the suite checks.
type right struct {
	mem     atomic.Pointer[memstore.Store]
	version atomic.Int32
}

func newRight() (*right, *instance) {
	r := &right{}
	r.mem.Store(memstore.New())
	r.version.Store(1)
	i := memfixture.Over(r.mem.Load)
	i.Store = r
	i.Statements = &storetest.Statements{
		Add:    func(key string, n int) yekbar.Statement { return yekbar.Statement{SQL: "add", Args: []any{key, n}} },
		Update: func(key string, n int) yekbar.Statement { return yekbar.Statement{SQL: "update", Args: []any{key, n}} },
		Insert: func(key string) yekbar.Statement { return yekbar.Statement{SQL: "insert", Args: []any{key}} },
	}
	return r, i
}

func fixture(open func(t testing.TB) *instance) storetest.Fixture[tx] {
	return storetest.Fixture[tx]{New: open, NewSingle: open, Dialect: "memory"}
}

func (r *right) Features() yekbar.Features {
	f := r.mem.Load().Features()
	f.Statements = true
	return f
}

func (r *right) Bind(t tx) (yekbar.Session, error) { return r.mem.Load().Bind(t) }

func (r *right) Attempt(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
	if err := r.Check(ctx); err != nil {
		return nil, err
	}
	return r.mem.Load().Attempt(ctx, cs, fn)
}

func (r *right) AttemptStatements(ctx context.Context, cs []yekbar.Claim, ss [][]yekbar.Statement) ([]yekbar.Claimed, error) {
	return r.Attempt(ctx, cs, func(_ context.Context, t tx, fresh []int) error {
		for _, i := range fresh {
			if err := execute(t, ss[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func execute(t tx, ss []yekbar.Statement) error {
	for i, s := range ss {
		rows, err := 1, error(nil)
		switch s.SQL {
		case "add":
			err = memfixture.Add(t, s.Args[0].(string), s.Args[1].(int))
		case "update":
			if _, ok := t.Get(s.Args[0].(string)); !ok {
				rows = 0
				break
			}
			err = memfixture.Add(t, s.Args[0].(string), s.Args[1].(int))
		case "insert":
			err = t.Insert(s.Args[0].(string), []byte("1"))
		default:
			err = errors.New("no statement: " + s.SQL)
		}
		if err != nil {
			return err
		}
		if rows < s.MinRows {
			return &yekbar.RowsError{Index: i, MinRows: s.MinRows, Rows: rows}
		}
	}
	return nil
}

func (r *right) Check(context.Context) error {
	if r.version.Load() == 0 {
		return fmt.Errorf("no tables: %w", yekbar.ErrSchema)
	}
	return nil
}

func (r *right) Migrate(ctx context.Context) error { return r.MigrateTo(ctx, 1) }

func (r *right) MigrateTo(_ context.Context, version int) error {
	if version < 0 || version > 1 {
		return fmt.Errorf("there is no version %d", version)
	}
	if r.version.Swap(int32(version)) == 1 && version == 0 {
		r.mem.Store(memstore.New())
	}
	return nil
}

func (r *right) MigrationSQL(from, to int) (string, error) { return fmt.Sprint(from, to), nil }

func (r *right) SchemaVersion(context.Context) (have, want int, err error) {
	return int(r.version.Load()), 1, nil
}

// TestRight: what is right passes, and nothing but the checks of what is not
// declared is skipped.
func TestRight(t *testing.T) {
	for _, name := range storetest.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := storetest.Judge(t, fixture(func(testing.TB) *instance { _, i := newRight(); return i }), name, time.Minute)
			if v.Failed {
				t.Error(v.Said)
			}
		})
	}
}
