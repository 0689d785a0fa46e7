// Package memfixture is the fixture of memstore for storetest, shared by the
// tests of both.
package memfixture

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

type tx = *memstore.Tx

// New returns an instance over a new memstore.
func New(testing.TB) *storetest.Instance[tx] {
	s := memstore.New()
	i := Over(func() *memstore.Store { return s })
	i.Store = s
	return i
}

// Over returns an instance, without a Store, whose data are in what current
// returns at the moment.
func Over(current func() *memstore.Store) *storetest.Instance[tx] {
	return &storetest.Instance[tx]{
		Add:    func(_ context.Context, tx tx, key string, n int) error { return Add(tx, key, n) },
		Insert: func(_ context.Context, tx tx, key string) error { return tx.Insert(key, []byte("1")) },
		Read: func(_ context.Context, key string) (int, error) {
			v, _ := current().Get(key)
			return number(v)
		},
		Begin: func(ctx context.Context) (tx, func(context.Context, bool) error, error) {
			tx, err := current().Begin(ctx)
			return tx, func(ctx context.Context, commit bool) error {
				if commit {
					return tx.Commit(ctx)
				}
				return tx.Rollback()
			}, err
		},
		Claims: func(context.Context) (int, error) { return current().Claims(), nil },
		Held: func(ctx context.Context) (n int, _ error) {
			for _, err := range current().Held(ctx, yekbar.HeldFilter{}) {
				if err != nil {
					return 0, err
				}
				n++
			}
			return n, nil
		},
		Later:     func(_ context.Context, d time.Duration) error { current().Later(d); return nil },
		Savepoint: savepoint,
		Blocked:   func(ctx context.Context, n int) error { return current().AwaitWaiters(ctx, n) },
		Exec:      func(_ context.Context, tx tx, sql string) error { return exec(tx, sql) },
		Ends: map[string]func(context.Context, tx) error{
			"Commit":   func(ctx context.Context, tx tx) error { return tx.Commit(ctx) },
			"Rollback": func(_ context.Context, tx tx) error { return tx.Rollback() },
		},
		Violations: map[string]func(context.Context, tx) error{
			"unique": func(_ context.Context, tx tx) error {
				return errors.Join(tx.Insert("once", nil), tx.Insert("once", nil))
			},
		},
	}
}

// Add adds n to the counter key.
func Add(tx *memstore.Tx, key string, n int) error {
	v, _ := tx.Get(key)
	old, err := number(v)
	if err != nil {
		return err
	}
	return tx.Put(key, []byte(strconv.Itoa(old+n)))
}

func number(v []byte) (int, error) {
	if v == nil {
		return 0, nil
	}
	return strconv.Atoi(string(v))
}

func savepoint(ctx context.Context, tx tx, fn func(context.Context, tx) error) error {
	if err := tx.Savepoint("suite"); err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		return errors.Join(err, tx.RollbackTo("suite"))
	}
	return tx.Release("suite")
}

// exec knows just enough SQL for the suite's raw statements.
func exec(tx tx, sql string) error {
	words := strings.Fields(strings.ToUpper(strings.TrimRight(sql, "; ")))
	name := words[len(words)-1]
	switch {
	case words[0] == "SAVEPOINT":
		return tx.Savepoint(name)
	case words[0] == "RELEASE":
		return tx.Release(name)
	case len(words) > 1 && words[0] == "ROLLBACK" && words[1] == "TO":
		return tx.RollbackTo(name)
	case name == "COMMIT":
		return tx.Commit(context.Background())
	case name == "ROLLBACK":
		return tx.Rollback()
	}
	return fmt.Errorf("memfixture: no statement %q", sql)
}
