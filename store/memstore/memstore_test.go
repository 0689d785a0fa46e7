package memstore_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Fixture[*memstore.Tx]{New: newInstance})
}

func newInstance(testing.TB) *storetest.Instance[*memstore.Tx] {
	s := memstore.New()
	return &storetest.Instance[*memstore.Tx]{
		Store: s,
		Add: func(_ context.Context, tx *memstore.Tx, key string, n int) error {
			v, ok := tx.Get(key)
			if ok {
				old, err := strconv.Atoi(string(v))
				if err != nil {
					return err
				}
				n += old
			}
			return tx.Put(key, []byte(strconv.Itoa(n)))
		},
		Insert: func(_ context.Context, tx *memstore.Tx, key string) error { return tx.Insert(key, []byte("1")) },
		Read: func(_ context.Context, key string) (int, error) {
			v, ok := s.Get(key)
			if !ok {
				return 0, nil
			}
			return strconv.Atoi(string(v))
		},
		Begin: func(ctx context.Context) (*memstore.Tx, func(context.Context, bool) error, error) {
			tx, err := s.Begin(ctx)
			return tx, func(ctx context.Context, commit bool) error {
				if commit {
					return tx.Commit(ctx)
				}
				return tx.Rollback()
			}, err
		},
		Claims: func(context.Context) (int, error) { return s.Claims(), nil },
		Held:   func(context.Context) (int, error) { return len(s.Held()), nil },
		Savepoint: func(ctx context.Context, tx *memstore.Tx, fn func(context.Context, *memstore.Tx) error) error {
			return tx.Savepoint(func() error { return fn(ctx, tx) })
		},
		Ends: map[string]func(context.Context, *memstore.Tx) error{
			"Commit":   func(ctx context.Context, tx *memstore.Tx) error { return tx.Commit(ctx) },
			"Rollback": func(_ context.Context, tx *memstore.Tx) error { return tx.Rollback() },
		},
	}
}
