package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/yekbar-go/yekbar"
)

func contextChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "a context that ended before", run: cancelledBefore[Tx]},
		{name: "a context that ends in the attempt leaves nothing", run: cancelledInside[Tx], single: true},
		{name: "a context that ends during the wait for a copy", run: cancelledWaiting[Tx], single: true},
		{name: "a context that ends at any moment: all or nothing", run: cancelledAnywhere[Tx]},
	}
}

func cancelledBefore[Tx any](e *env[Tx]) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := e.Store.Attempt(ctx, claimsOf("m-1"), func(context.Context, Tx, []int) error {
		e.Error("the function was called with a context that had ended")
		return nil
	})
	e.wantError(err, context.Canceled)
	e.wantNothing("m-1", "n")
}

func cancelledInside[Tx any](e *env[Tx]) {
	for name, fn := range map[string]func(ctx context.Context, tx Tx, end func()) error{
		"before the statement": func(ctx context.Context, tx Tx, end func()) error {
			end()
			_ = e.Add(ctx, tx, "n", 1) // swallowed: the context decides
			return nil
		},
		"after the statement": func(ctx context.Context, tx Tx, end func()) error {
			err := e.Add(ctx, tx, "n", 1)
			end()
			return err
		},
		"and an own error is returned": func(ctx context.Context, tx Tx, end func()) error {
			end()
			return errBusiness
		},
		"and the handler goes on without it": func(ctx context.Context, tx Tx, end func()) error {
			end()
			_ = e.Add(context.WithoutCancel(ctx), tx, "n", 1)
			return nil
		},
	} {
		for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx, cancel := context.WithCancel(e.ctx)
			end := cancel
			if errors.Is(want, context.DeadlineExceeded) {
				ctx, cancel = context.WithTimeout(e.ctx, 200*time.Millisecond)
				end = func() { <-ctx.Done() }
			}
			got, err := e.Store.Attempt(ctx, claimsOf("m-1"), func(ctx context.Context, tx Tx, _ []int) error {
				return fn(ctx, tx, end)
			})
			cancel()
			if !errors.Is(err, want) {
				e.Errorf("ended (%v) %s: %+v, error %v, which is not the context's", want, name, got, err)
			}
			e.wantNot(err, yekbar.ErrCommitUnknown)
			e.wantClaims(0)
			e.wantCounter("n", 0)
		}
	}
	e.wantNothing("m-1", "n")
}

func cancelledWaiting[Tx any](e *env[Tx]) {
	first := e.hold("m-1", "n")
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	second := e.start(func() ([]yekbar.Claimed, error) { return e.Store.Attempt(ctx, claimsOf("m-1"), e.adds("n")) })
	e.blocked(second)
	cancel()
	e.await(second, "the second, whose context ended,")
	e.wantError(second.err, context.Canceled)
	first.release <- nil
	if e.await(first.running, "the first"); first.err != nil {
		e.Errorf("the first: %v", first.err)
	}
	e.wantClaims(1)
	e.wantCounter("n", 1)
	if e.apply("m-1", e.adds("n")) {
		e.Error("m-1 was applied again")
	}
	if !e.apply("m-2", e.adds("n")) {
		e.Error("m-2 was not fresh")
	}
}

func cancelledAnywhere[Tx any](e *env[Tx]) {
	began := time.Now()
	const warm = 5
	for i := range warm {
		e.apply(fmt.Sprintf("warm-%d", i), e.adds("warm"))
	}
	usual := time.Since(began) / warm
	claims, committed := warm, 0
	for i := range 150 {
		id := fmt.Sprintf("m-%d", i)
		ctx, cancel := context.WithTimeout(e.ctx, rand.N(usual*3/2+1))
		_, err := e.Store.Attempt(ctx, claimsOf(id), func(ctx context.Context, tx Tx, _ []int) error {
			if err := e.Insert(ctx, tx, id); err != nil {
				return err
			}
			return e.Add(ctx, tx, "n", 1)
		})
		cancel()
		stored, readErr := e.Read(e.ctx, id)
		if readErr != nil {
			e.Fatalf("Read(%q): %v", id, readErr)
		}
		claims += stored
		committed += stored
		switch {
		case err == nil && stored == 0:
			e.Errorf("%s: no error, and nothing stored", id)
		case err != nil && stored == 1 && !errors.Is(err, yekbar.ErrCommitUnknown):
			e.Errorf("%s: stored, and the error does not say that it may be: %v", id, err)
		case err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, yekbar.ErrCommitUnknown):
			e.Errorf("%s: the context ended, and the error is another: %v", id, err)
		}
		if e.Failed() {
			return
		}
	}
	e.wantClaims(claims)
	e.wantCounter("n", committed)
	for i := range 150 {
		id := fmt.Sprintf("m-%d", i)
		e.apply(id, e.adds("n"))
	}
	e.wantClaims(warm + 150)
	e.wantCounter("n", 150)
}
