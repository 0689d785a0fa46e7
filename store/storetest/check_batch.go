package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/yekbar-go/yekbar"
)

func batchChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "a batch: new, mixed and old", run: batches[Tx], single: true},
		{name: "a batch that fails leaves nothing", run: batchFails[Tx]},
		{name: "overlapping batches in opposite order", run: overlappingBatches[Tx], single: true},
		{name: "a batch without Features.Batch is refused", run: batchUndeclared[Tx]},
	}
}

func batchUndeclared[Tx any](e *env[Tx]) {
	if e.features.Batch {
		e.Skip("the store declares Features.Batch")
	}
	_, err := e.Store.Attempt(e.ctx, claimsOf("m-1", "m-2"), e.adds("n"))
	e.wantError(err, yekbar.ErrUnsupported)
	e.wantClaims(0)
	e.wantCounter("n", 0)
}

// addsFresh adds to a counter of each fresh message, and to one for all.
func (e *env[Tx]) addsFresh(cs []yekbar.Claim) body[Tx] {
	return func(ctx context.Context, tx Tx, fresh []int) error {
		if len(fresh) == 0 {
			e.Error("the function was called for no fresh claim")
		}
		if err := e.Add(ctx, tx, "all", len(fresh)); err != nil {
			return err
		}
		for _, i := range fresh {
			if err := e.Add(ctx, tx, "of-"+cs[i].MessageID, 1); err != nil {
				return err
			}
		}
		return nil
	}
}

func batches[Tx any](e *env[Tx]) {
	e.need(e.features.Batch, "Batch")
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("n-%03d", i)
	}
	for _, step := range []struct {
		ids   []string
		fresh []int
	}{
		{[]string{"b", "d", "f"}, []int{0, 1, 2}},
		{[]string{"a", "b", "c", "d", "e", "f", "g"}, []int{0, 2, 4, 6}},
		{[]string{"a", "b", "c", "d", "e", "f", "g"}, nil},
		{[]string{"d"}, nil},
		{[]string{"d", "h"}, []int{1}},
		{[]string{"0", "h"}, []int{0}},
		{many, nil},
	} {
		cs := claimsOf(step.ids...)
		if len(step.ids) == len(many) {
			step.fresh = slices.Collect(func(yield func(int) bool) {
				for i := range many {
					if !yield(i) {
						return
					}
				}
			})
		}
		var given []int
		got, err := e.settle(cs, func(ctx context.Context, tx Tx, fresh []int) error {
			given = slices.Clone(fresh)
			return e.addsFresh(cs)(ctx, tx, fresh)
		})
		if err != nil {
			e.Fatalf("batch %.60q: %v", step.ids, err)
		}
		slices.Sort(given)
		if !slices.Equal(given, step.fresh) {
			e.Errorf("batch %.60q: the function got the indices %v as fresh, want %v", step.ids, given, step.fresh)
		}
		if len(got) != len(cs) {
			e.Fatalf("batch %.60q: %d answers to %d claims", step.ids, len(got), len(cs))
		}
		for i, c := range got {
			fresh := slices.Contains(step.fresh, i)
			if c.Fresh != fresh {
				e.Errorf("batch %.60q: fresh of %q is %v, want %v", step.ids, step.ids[i], c.Fresh, fresh)
			}
			if !fresh && string(c.Fingerprint) != string(cs[i].Fingerprint) {
				e.Errorf("batch %.60q: %q has the fingerprint of another", step.ids, step.ids[i])
			}
			if !fresh && c.State != yekbar.StateApplied {
				e.Errorf("batch %.60q: %q has state %q, want %q", step.ids, step.ids[i], c.State, yekbar.StateApplied)
			}
		}
	}
	e.wantClaims(9 + len(many))
	e.wantCounter("all", 9+len(many))
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "0", many[0], many[len(many)-1]} {
		e.wantCounter("of-"+id, 1)
	}
}

func batchFails[Tx any](e *env[Tx]) {
	e.need(e.features.Batch, "Batch")
	e.apply("b", e.adds("first"))
	cs := claimsOf("a", "b", "c")
	_, err := e.settle(cs, func(ctx context.Context, tx Tx, fresh []int) error {
		if err := e.addsFresh(cs)(ctx, tx, fresh); err != nil {
			return err
		}
		if slices.Contains(fresh, 2) {
			return &yekbar.BatchError{Index: 2, Err: errBusiness}
		}
		return nil
	})
	e.wantError(err, errBusiness)
	e.wantClaims(1)
	e.wantCounter("all", 0)
	if _, err := e.settle(cs, e.addsFresh(cs)); err != nil {
		e.Fatalf("the batch again: %v", err)
	}
	e.wantClaims(3)
	e.wantCounter("all", 2)
}

func overlappingBatches[Tx any](e *env[Tx]) {
	e.need(e.features.Batch, "Batch")
	const rounds, size = 30, 6
	for round := range rounds {
		ids := make([]string, size)
		for i := range ids {
			ids[i] = fmt.Sprintf("m-%03d-%d", round, i)
		}
		// One goes up through all, one down through the upper part: callers
		// sort, and a store that has to survive it when they don't says
		// ErrTransient or ErrInFlight.
		other := slices.Clone(ids[size/3:])
		if round%3 == 0 {
			slices.Reverse(other)
		}
		var both sync.WaitGroup
		for _, cs := range [][]yekbar.Claim{claimsOf(ids...), claimsOf(other...)} {
			both.Go(func() {
				if _, err := e.settle(cs, e.addsFresh(cs)); err != nil {
					e.Errorf("round %d: a batch of %d: %v", round, len(cs), err)
				}
			})
		}
		both.Wait()
		if e.Failed() {
			return
		}
	}
	e.wantClaims(rounds * size)
	e.wantCounter("all", rounds*size)
	for i := range size {
		e.wantCounter(fmt.Sprintf("of-m-000-%d", i), 1)
	}
}
