package yekbar_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar"
)

func TestJSON(t *testing.T) {
	type order struct{ SKU string }
	var got order
	h := yekbar.JSON(func(_ context.Context, _ *fakeTx, _ *yekbar.Message, o order) error {
		got = o
		return nil
	})
	for payload, ok := range map[string]bool{
		`{"sku":"85123A"}`:         true,
		" {\"sku\":\"85123A\"}\n ": true,
		`{"sku":"85123A"} x`:       false,
		`{"sku":"85123A"}{}`:       false,
		`{"sku":1}`:                false,
		`{"sku"`:                   false,
		``:                         false,
	} {
		err := h(t.Context(), nil, &yekbar.Message{Payload: []byte(payload)})
		if ok && (err != nil || got.SKU != "85123A") || !ok && !yekbar.IsPermanent(err) {
			t.Errorf("%q: %v, %+v", payload, err, got)
		}
	}
}

func TestByType(t *testing.T) {
	var got string
	say := func(what string) yekbar.Handler[*fakeTx] {
		return func(context.Context, *fakeTx, *yekbar.Message) error {
			got = what
			return nil
		}
	}
	handlers := map[string]yekbar.Handler[*fakeTx]{"order.placed": say("placed")}
	h := yekbar.ByType(handlers)
	handlers["late"] = say("late")
	if err := h(t.Context(), nil, &yekbar.Message{Type: "order.placed"}); err != nil || got != "placed" {
		t.Errorf("%v, %q", err, got)
	}
	err := h(t.Context(), nil, &yekbar.Message{Type: "late"})
	if !yekbar.IsPermanent(err) || !strings.Contains(err.Error(), `"order.placed"`) {
		t.Errorf("unknown type: %v", err)
	}
	h = yekbar.ByType(map[string]yekbar.Handler[*fakeTx]{"": say("rest")})
	if err := h(t.Context(), nil, &yekbar.Message{Type: "x"}); err != nil || got != "rest" {
		t.Errorf("%v, %q", err, got)
	}
}

// A mapped store keeps the abilities of the one it wraps.
func TestMapTx(t *testing.T) {
	type other struct{ tx *fakeTx }
	f := newFake()
	s := yekbar.MapTx(f, func(_ context.Context, tx *fakeTx) (*other, error) { return &other{tx}, nil },
		func(o *other) (*fakeTx, error) { return o.tx, nil })
	c, err := yekbar.NewResultConsumer("inventory", s, func(_ context.Context, o *other, m *yekbar.Message) ([]byte, error) {
		o.tx.Add(m.ID)
		return []byte("r"), nil
	}, yekbar.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := c.Process(t.Context(), message("1")); err != nil || string(r.Value) != "r" || f.effects["1"] != 1 {
			t.Errorf("%+v, %v, %v", r, err, f.effects)
		}
	}
	if f.checks != 1 {
		t.Error("the wrapped store's Checker was not found")
	}
	if _, ok := yekbar.Find[yekbar.HoldingStore](c); !ok {
		t.Error("the wrapped store's HoldingStore was not found through the consumer")
	}
	if _, ok := yekbar.Find[yekbar.Migrator](c); ok {
		t.Error("found a Migrator that is not there")
	}
	if s.Features() != f.Features() {
		t.Error("features are lost")
	}
	refuse := errors.New("no connection for the ORM")
	bad := yekbar.MapTx(f, func(context.Context, *fakeTx) (*other, error) { return nil, refuse },
		func(*other) (*fakeTx, error) { return nil, refuse })
	if _, err := consumerOver(bad); !errors.Is(err, refuse) || f.effects["2"] != 0 {
		t.Errorf("got %v", err)
	}
	if _, err := yekbar.ClaimTx(t.Context(), bad, nil, "http", message("3")); !errors.Is(err, refuse) {
		t.Errorf("ClaimTx: %v", err)
	}
}

func consumerOver[Tx any](s yekbar.Store[Tx]) (yekbar.Result, error) {
	c, err := yekbar.NewConsumer("inventory", s, func(context.Context, Tx, *yekbar.Message) error { return nil }, yekbar.Config{})
	if err != nil {
		return yekbar.Result{}, err
	}
	return c.Process(context.Background(), message("2"))
}

func TestMarkedErrors(t *testing.T) {
	if yekbar.Permanent(nil) != nil || yekbar.RetryAfter(nil, 1) != nil || yekbar.IsPermanent(nil) || yekbar.CountsAsAttempt(nil) {
		t.Error("nil became an error")
	}
	mine := errors.New("later")
	err := yekbar.RetryAfter(mine, 42)
	if d, ok := yekbar.RetryPause(err); !ok || d != 42 || !errors.Is(err, mine) || err.Error() != "later" {
		t.Errorf("%v, %v, %v", d, ok, err)
	}
	if _, ok := yekbar.RetryPause(mine); ok {
		t.Error("an unmarked error has a pause")
	}
}
