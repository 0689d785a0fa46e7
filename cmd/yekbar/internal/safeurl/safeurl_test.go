package safeurl

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestNoPasswordComesOut(t *testing.T) {
	for _, raw := range []string{
		"postgres://ada:s3cr3t!@db.example:5432/shop?sslmode=disable",
		"postgres://ada@db.example/shop?password=s3cr3t!",
		"nats://ada:s3cr3t%21@broker.example",
	} {
		u, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(u.String(), "s3cr3t") || !strings.Contains(u.String(), "ada@") {
			t.Errorf("%s prints as %s", raw, u)
		}
		got := u.Clean(fmt.Errorf("dial %s with s3cr3t! and s3cr3t%%21: %w", raw, io.EOF))
		if strings.Contains(got.Error(), "s3cr3t") || !errors.Is(got, io.EOF) {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func TestParseErrorsHaveNoSecret(t *testing.T) {
	for _, raw := range []string{
		"postgres://ada:s3cr3t/word@db.example/shop",
		"postgres://ada:s3cr3t%zz@db.example",
		"nats://ada:s3cr3t word@host",
		"mysql://ada:s3cr3t@[::1",
	} {
		if _, err := Parse(raw); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestPasswordLikeUserIsLeft(t *testing.T) {
	u, err := Parse("mysql://root:root@127.0.0.1/shop")
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Clean(errors.New("access denied for root")).Error(); got != "access denied for root" {
		t.Error(got)
	}
}

func TestMask(t *testing.T) {
	for text, want := range map[string]string{
		"unexpected argument postgres://ada:s3/cr:3t@h/x; see": "unexpected argument postgres://ada:xxxxx@h/x; see",
		"nats://s3cr3t@h:4222 and nats://h:4222":               "nats://xxxxx@h:4222 and nats://h:4222",
		"use mysql://USER:PASSWORD@HOST":                       "use mysql://USER:PASSWORD@HOST",
		"postgres://ada@h:5432/x: no":                          "postgres://ada@h:5432/x: no",
	} {
		if got := Mask(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
