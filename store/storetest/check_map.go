package storetest

import (
	"context"
	"errors"

	"github.com/yekbar-go/yekbar"
)

func mapChecks[Tx any]() []check[Tx] {
	return []check[Tx]{{name: "MapTx keeps what the store can do", run: mapTx[Tx], single: true}}
}

// A wrapped transaction is what an ORM's session is to a *sql.Tx.
type wrapped[Tx any] struct{ tx Tx }

func mapTx[Tx any](e *env[Tx]) {
	errForth := errors.New("storetest: no session")
	fail := false
	mapped := yekbar.MapTx(e.Store, func(_ context.Context, tx Tx) (*wrapped[Tx], error) {
		if fail {
			return nil, errForth
		}
		return &wrapped[Tx]{tx}, nil
	}, func(w *wrapped[Tx]) (Tx, error) { return w.tx, nil })

	if mapped.Features() != e.features {
		e.Errorf("Features are %+v, of the store itself %+v", mapped.Features(), e.features)
	}
	same[yekbar.StatementStore](e, mapped, "StatementStore")
	same[yekbar.HoldingStore](e, mapped, "HoldingStore")
	same[yekbar.Migrator](e, mapped, "Migrator")
	same[yekbar.Checker](e, mapped, "Checker")
	same[yekbar.Validator](e, mapped, "Validator")

	run := func(id string, result error) ([]yekbar.Claimed, error) {
		c := claim(id)
		return retry(e.ctx, func() ([]yekbar.Claimed, error) {
			return mapped.Attempt(e.ctx, []yekbar.Claim{c}, func(ctx context.Context, w *wrapped[Tx], _ []int) error {
				s, err := mapped.Bind(w)
				if err != nil {
					return err
				}
				return errors.Join(e.Add(ctx, w.tx, "n", 1), s.SetResult(ctx, c, []byte("one")), result)
			})
		})
	}
	fail = true
	_, err := run("m-1", nil)
	e.wantError(err, errForth)
	fail = false
	_, err = run("m-1", errBusiness)
	e.wantError(err, errBusiness)
	for _, fresh := range []bool{true, false} {
		got, err := run("m-1", nil)
		if err != nil || got[0].Fresh != fresh || !fresh && string(got[0].Result) != "one" {
			e.Errorf("through MapTx: %+v, %v; want fresh: %v", got, err, fresh)
		}
	}
	e.inUsers(false, func(tx Tx, _ yekbar.Session) {
		s, err := mapped.Bind(&wrapped[Tx]{tx})
		if err != nil {
			e.Fatalf("Bind through MapTx: %v", err)
		}
		if got, err := s.Claim(e.ctx, claim("m-1")); err != nil || got.Fresh {
			e.Errorf("Claim through MapTx: %+v, %v; want one that is not fresh", got, err)
		}
	})
	e.wantClaims(1)
	e.wantCounter("n", 1)
}

func same[T, Tx any](e *env[Tx], mapped any, name string) {
	e.Helper()
	_, before := yekbar.Find[T](e.Store)
	if _, after := yekbar.Find[T](mapped); after != before {
		e.Errorf("the store is a %s: %v; through MapTx: %v", name, before, after)
	}
}
