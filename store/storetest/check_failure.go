package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/yekbar-go/yekbar"
)

// errBusiness is a handler's own error.
var errBusiness = errors.New("storetest: the handler's own error")

// notTheMessages are the sentinels that a failure of the message's own must
// not be taken for.
var notTheMessages = []error{
	yekbar.ErrTransient, yekbar.ErrUnavailable, yekbar.ErrEnvironment, yekbar.ErrSchema, yekbar.ErrInFlight,
	yekbar.ErrCommitUnknown, yekbar.ErrBoundary,
}

func failureChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "an attempt that fails leaves nothing", run: fails[Tx], single: true},
		{name: "an attempt that panics leaves nothing", run: panics[Tx], single: true},
		{name: "a unique violation of the business is no duplicate", run: businessUnique[Tx], single: true},
		{name: "a constraint of the business is no duplicate", run: violations[Tx]},
		{name: "a swallowed error doesn't commit", run: swallowed[Tx], single: true},
		{name: "a savepoint forgives a failed statement", run: savepoints[Tx]},
		{name: "a transaction kept after its end does nothing", run: keptTx[Tx], single: true},
	}
}

func fails[Tx any](e *env[Tx]) {
	for range 3 {
		got, err := e.settle(claimsOf("m-1"), func(ctx context.Context, tx Tx, fresh []int) error {
			if err := e.adds("n")(ctx, tx, fresh); err != nil {
				return err
			}
			return fmt.Errorf("wrapped: %w", errBusiness)
		})
		e.wantError(err, errBusiness)
		e.wantNot(err, notTheMessages...)
		if err == nil {
			e.Errorf("answer: %+v", got)
		}
	}
	_, err := e.settle(claimsOf("m-1"), func(context.Context, Tx, []int) error { return yekbar.Permanent(errBusiness) })
	if !yekbar.IsPermanent(err) {
		e.Errorf("a permanent error came back as one that is not: %v", err)
	}
	e.wantNothing("m-1", "n")
}

func panics[Tx any](e *env[Tx]) {
	for range 3 { // a connection lost with each would show in a small pool
		err := func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = &yekbar.PanicError{Value: v}
				}
			}()
			_, err = e.Store.Attempt(e.ctx, claimsOf("m-1"), func(ctx context.Context, tx Tx, fresh []int) error {
				if err := e.adds("n")(ctx, tx, fresh); err != nil {
					return err
				}
				panic(errBusiness)
			})
			return err
		}()
		e.wantError(err, errBusiness)
	}
	e.wantNothing("m-1", "n")
}

func businessUnique[Tx any](e *env[Tx]) {
	e.apply("m-0", func(ctx context.Context, tx Tx, _ []int) error { return e.Insert(ctx, tx, "taken") })
	for range 2 {
		got, err := e.settle(claimsOf("m-1"), func(ctx context.Context, tx Tx, fresh []int) error {
			if err := e.adds("n")(ctx, tx, fresh); err != nil {
				return err
			}
			return e.Insert(ctx, tx, "taken")
		})
		if err == nil {
			e.Errorf("a unique violation of the business was answered with %+v: the message is lost", got)
		}
		e.wantNot(err, notTheMessages...)
		e.wantClaims(1)
		e.wantCounter("n", 0)
		e.wantCounter("taken", 1)
	}
	// An ID that is also the violated key's value.
	got, err := e.settle(claimsOf("taken"), func(ctx context.Context, tx Tx, _ []int) error { return e.Insert(ctx, tx, "taken") })
	if err == nil {
		e.Errorf("a unique violation on a key like the ID was answered with %+v", got)
	}
	if !e.apply("m-1", e.adds("n")) {
		e.Error("after a unique violation of the business the next delivery was called a duplicate")
	}
	e.wantClaims(2)
	e.wantCounter("n", 1)
}

func violations[Tx any](e *env[Tx]) {
	if len(e.Violations) == 0 {
		e.Skip("the fixture has no Violations")
	}
	claims := 0
	for _, name := range slices.Sorted(maps.Keys(e.Violations)) {
		violate := e.Violations[name]
		for _, swallow := range []bool{false, true} {
			claims++
			id, key := fmt.Sprintf("v-%d", claims), fmt.Sprintf("n-%d", claims)
			got, err := e.settle(claimsOf(id), func(ctx context.Context, tx Tx, fresh []int) error {
				if err := e.adds(key)(ctx, tx, fresh); err != nil {
					return err
				}
				if err := violate(ctx, tx); !swallow {
					return err
				}
				return nil
			})
			if err == nil {
				e.Errorf("%s (swallowed: %v): answered with %+v", name, swallow, got)
			}
			for _, s := range notTheMessages {
				if errors.Is(err, s) {
					e.Errorf("%s: error %q is taken for %q", name, err, s)
				}
			}
			e.wantClaims(claims - 1)
			e.wantCounter(key, 0)
			if !e.apply(id, e.adds(key)) {
				e.Errorf("%s: the next delivery was called a duplicate", name)
			}
			e.wantCounter(key, 1)
		}
	}
}

func swallowed[Tx any](e *env[Tx]) {
	e.apply("m-0", func(ctx context.Context, tx Tx, _ []int) error { return e.Insert(ctx, tx, "taken") })
	for name, after := range map[string]func(context.Context, Tx) error{
		"at the end":              func(context.Context, Tx) error { return nil },
		"then another statement":  func(ctx context.Context, tx Tx) error { _ = e.Add(ctx, tx, "n", 1); return nil },
		"then the same statement": func(ctx context.Context, tx Tx) error { _ = e.Insert(ctx, tx, "taken"); return nil },
	} {
		got, err := e.settle(claimsOf("m-1"), func(ctx context.Context, tx Tx, _ []int) error {
			if err := e.Add(ctx, tx, "n", 1); err != nil {
				return err
			}
			if e.Insert(ctx, tx, "taken") == nil {
				e.Error("Insert of a key that is there did not fail")
			}
			return after(ctx, tx)
		})
		if err == nil {
			e.Errorf("a swallowed error, %s: answered with %+v", name, got)
		}
		e.wantError(err, yekbar.ErrRolledBack)
		e.wantNot(err, notTheMessages...)
		e.wantClaims(1)
		e.wantCounter("n", 0)
	}
	if !e.apply("m-1", e.adds("n")) {
		e.Error("after a swallowed error the next delivery was called a duplicate")
	}
}

func savepoints[Tx any](e *env[Tx]) {
	e.need(e.features.Savepoints, "Savepoints")
	if e.Savepoint == nil {
		e.Fatal("storetest: Instance.Savepoint is required with Features.Savepoints")
	}
	e.apply("m-0", func(ctx context.Context, tx Tx, _ []int) error { return e.Insert(ctx, tx, "taken") })
	took := e.apply("m-1", func(ctx context.Context, tx Tx, _ []int) error {
		if err := e.Add(ctx, tx, "before", 1); err != nil {
			return err
		}
		for range 2 {
			if err := e.Savepoint(ctx, tx, func(ctx context.Context, tx Tx) error {
				if err := e.Add(ctx, tx, "inside", 1); err != nil {
					return err
				}
				return e.Insert(ctx, tx, "taken")
			}); err == nil {
				e.Error("Savepoint swallowed its function's error")
			}
		}
		if err := e.Savepoint(ctx, tx, func(ctx context.Context, tx Tx) error { return e.Add(ctx, tx, "kept", 1) }); err != nil {
			return err
		}
		return e.Add(ctx, tx, "after", 1)
	})
	if !took {
		e.Error("m-1 was not fresh")
	}
	e.wantClaims(2)
	for key, want := range map[string]int{"before": 1, "inside": 0, "kept": 1, "after": 1} {
		e.wantCounter(key, want)
	}

	// What failed before the savepoint is not forgiven by it.
	got, err := e.settle(claimsOf("m-2"), func(ctx context.Context, tx Tx, _ []int) error {
		_ = e.Insert(ctx, tx, "taken")
		_ = e.Savepoint(ctx, tx, func(context.Context, Tx) error { return errBusiness })
		return nil
	})
	if err == nil {
		e.Errorf("a savepoint forgave what had failed before it: %+v", got)
	}
	e.wantError(err, yekbar.ErrRolledBack)
	e.wantClaims(2)
}

func keptTx[Tx any](e *env[Tx]) {
	for i, result := range []error{nil, errBusiness} {
		var kept Tx
		id := fmt.Sprintf("m-%d", i)
		_, err := e.settle(claimsOf(id), func(ctx context.Context, tx Tx, fresh []int) error {
			kept = tx
			return result
		})
		if !errors.Is(err, result) {
			e.Fatalf("%s: %v", id, err)
		}
		if err := e.Add(e.ctx, kept, "late", 1); err == nil {
			e.Errorf("Add in a transaction that had ended (with %v) did not fail", result)
		}
		if s, err := e.Store.Bind(kept); err == nil {
			if _, err := s.Claim(e.ctx, claim("late")); err == nil {
				e.Errorf("Claim in a transaction that had ended (with %v) did not fail", result)
			}
		}
		e.wantClaims(1)
		e.wantCounter("late", 0)
	}
	if !e.apply("m-1", e.adds("n")) {
		e.Error("m-1 was called a duplicate")
	}
}
