package yekbar_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar"
)

func TestIdentity(t *testing.T) {
	long := strings.Repeat("x", 513)
	hash := sha256.Sum256([]byte(long))
	for _, c := range []struct{ source, id, want string }{
		{"", "42", "42"},
		{"", "a b", " a b"},
		{"", " a", "  a"},
		{"", "a|b", " a|b"},
		{"", "sha256:00", " sha256:00"},
		{"/shop", "42", "/shop 42"},
		{"/shop", "a b|c", "/shop a b|c"},
		{"", "\u00e9", "\u00e9"},
		{"", "e\u0301", "e\u0301"},
		{"", "Order-A1 ", " Order-A1 "},
		{"", "a\nb\tc", "a\nb\tc"},
		{"", long[:512], long[:512]},
		{"", long, "sha256:" + hex.EncodeToString(hash[:])},
	} {
		got, err := (&yekbar.Message{Source: c.source, ID: c.id}).Identity()
		if err != nil || got != c.want {
			t.Errorf("Identity(%q, %q) = %q, %v; want %q", c.source, c.id, got, err, c.want)
		}
	}
}

func TestIdentityIsNeverGuessed(t *testing.T) {
	for _, c := range []struct{ source, id, problem string }{
		{"", "", "missing"},
		{"/shop", "", "missing"},
		{"", " \t ", "blank"},
		{"", "\u00a0", "blank"},
		{"", "a\xff\xfe", "not UTF-8"},
		{"", "m\x001", "has NUL"},
		{"/my shop", "1", "source has a space"},
		{"a|b", "1", "source has a |"},
		{"/\x00", "1", "source has NUL"},
		{"/\xff", "1", "source not UTF-8"},
	} {
		got, err := (&yekbar.Message{Source: c.source, ID: c.id}).Identity()
		bad := (*yekbar.IdentityError)(nil)
		if !errors.As(err, &bad) || bad.Problem != c.problem || got != "" {
			t.Errorf("Identity(%q, %q) = %q, %v; want the problem %q", c.source, c.id, got, err, c.problem)
		}
		if !yekbar.IsPermanent(err) {
			t.Errorf("Identity(%q, %q): %v is not permanent", c.source, c.id, err)
		}
	}
}

// identify is what a consumer with a scope stores.
func identify(scope, source, id string) (string, error) {
	c, err := yekbar.NewConsumer("c", nothing{}, func(context.Context, struct{}, *yekbar.Message) error { return nil },
		yekbar.Config{Scope: func(*yekbar.Message) string { return scope }})
	if err != nil {
		return "", err
	}
	claim, err := c.Identify(&yekbar.Message{Source: source, ID: id})
	return claim.MessageID, err
}

func TestScope(t *testing.T) {
	for _, c := range []struct{ scope, source, id, want string }{
		{"orders", "", "42", "orders|42"},
		{"orders", "/shop", "42", "orders|/shop 42"},
		{"", "/shop", "42", "/shop 42"},
		{"orders", "", "sha256:1", "orders| sha256:1"},
	} {
		if got, err := identify(c.scope, c.source, c.id); err != nil || got != c.want {
			t.Errorf("identity in scope %q of (%q, %q): %q, %v; want %q", c.scope, c.source, c.id, got, err, c.want)
		}
	}
	for _, scope := range []string{"a b", "a|b", "a\x00", "\xff"} {
		if got, err := identify(scope, "", "1"); err == nil {
			t.Errorf("scope %q was accepted as %q", scope, got)
		}
	}
}

func FuzzIdentityIsInjective(f *testing.F) {
	f.Add("", "", "a b", "", "a", "b")
	f.Add("a", "", "b", "", "", "a|b")
	f.Add("", "a", "b", "", "", "a b")
	f.Add("", "", "sha256:"+strings.Repeat("0", 64), "", "", strings.Repeat("x", 600))
	f.Add("s", "a", "b c", "s", "", "a b c")
	f.Add("", "", " x", "", "", "x")
	f.Fuzz(func(t *testing.T, scope1, source1, id1, scope2, source2, id2 string) {
		one, err1 := identify(scope1, source1, id1)
		two, err2 := identify(scope2, source2, id2)
		if err1 != nil || err2 != nil {
			return
		}
		same := scope1 == scope2 && source1 == source2 && id1 == id2
		if (one == two) != same {
			t.Errorf("(%q, %q, %q) is %q, (%q, %q, %q) is %q", scope1, source1, id1, one, scope2, source2, id2, two)
		}
		if len(one) > 512 {
			t.Errorf("message_id of %d bytes", len(one))
		}
		if raw := yekbar.HeldID([]byte(id1)); raw == one || raw == two {
			t.Errorf("an identity looks like the key of a message without one: %q", raw)
		}
	})
}

func TestIDFuncs(t *testing.T) {
	m := &yekbar.Message{ID: "t", Source: "/s"}
	m.Header.Add("Order", "o-1")
	m.Header.Add("Twice", "1")
	m.Header.Add("Twice", "1")
	m.Header.Add("Two", "1")
	m.Header.Add("Two", "2")
	for _, c := range []struct {
		name       string
		f          yekbar.IDFunc
		source, id string
		bad        bool
	}{
		{"transport", yekbar.IDFromTransport, "/s", "t", false},
		{"CloudEvents", yekbar.IDFromCloudEvents, "/s", "t", false},
		{"header", yekbar.IDFromHeader("Order"), "", "o-1", false},
		{"header in other case", yekbar.IDFromHeader("order"), "", "", false},
		{"header twice, equal", yekbar.IDFromHeader("Twice"), "", "1", false},
		{"header twice, unequal", yekbar.IDFromHeader("Two"), "", "", true},
		{"first", yekbar.FirstID(yekbar.IDFromHeader("No"), yekbar.IDFromHeader("Order")), "", "o-1", false},
		{"first of none", yekbar.FirstID(), "", "", false},
		{"first with an error", yekbar.FirstID(yekbar.IDFromHeader("Two"), yekbar.IDFromHeader("Order")), "", "", true},
	} {
		source, id, err := c.f(m)
		if source != c.source || id != c.id || (err != nil) != c.bad {
			t.Errorf("%s: %q, %q, %v", c.name, source, id, err)
		}
	}
	if _, _, err := yekbar.IDFromCloudEvents(&yekbar.Message{ID: "1"}); err == nil {
		t.Error("CloudEvents without a source were accepted")
	}
}
