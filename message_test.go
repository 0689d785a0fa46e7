package yekbar_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
)

func TestHeader(t *testing.T) {
	var h yekbar.Header
	h.Add("A", "1")
	h.Add("b", "2")
	h.Add("A", "3")
	if got := h.Get("A"); got != "1" {
		t.Errorf("Get: %q, want the first", got)
	}
	if got := h.Get("a"); got != "" {
		t.Errorf("names are not compared exactly: %q", got)
	}
	if vs := h.Values("A"); len(vs) != 2 || string(vs[1]) != "3" {
		t.Errorf("Values: %q", vs)
	}
	before := h
	h.Set("A", "4")
	if len(h) != 2 || h[0].Name != "A" || string(h[0].Value) != "4" || h[1].Name != "b" {
		t.Errorf("Set: %q", h)
	}
	if string(before[0].Value) != "1" {
		t.Error("Set changed the list it was copied from")
	}
	h.Set("c", "5")
	h.Del("b")
	if len(h) != 2 || h.Get("c") != "5" || h.Get("b") != "" {
		t.Errorf("Set of a new name, Del: %q", h)
	}
}

func TestFingerprint(t *testing.T) {
	of := func(payload string, f func(*yekbar.Message) []byte) []byte {
		return f(&yekbar.Message{Payload: []byte(payload)})
	}
	plain := (*yekbar.Message).Fingerprint
	json := yekbar.JSONFingerprint("sent_at", "try")
	for _, c := range []struct {
		name string
		f    func(*yekbar.Message) []byte
		a, b string
		same bool
	}{
		{"bytes", plain, `{"a":1}`, `{"a":1}`, true},
		{"bytes", plain, `{"a":1}`, `{"a": 1}`, false},
		{"JSON spacing and order", json, `{"a":1,"b":[1,2]}`, ` { "b" : [1 ,2], "a":1 } `, true},
		{"JSON ignored fields", json, `{"a":1,"sent_at":1}`, `{"a":1,"sent_at":2,"try":3}`, true},
		{"JSON ignores only outermost", json, `{"x":{"try":1}}`, `{"x":{"try":2}}`, false},
		{"JSON list order", json, `[1,2]`, `[2,1]`, false},
		{"JSON big numbers", json, `{"a":10000000000000000001}`, `{"a":10000000000000000002}`, false},
		{"no JSON", json, `{"a":1`, `{"a":1 `, false},
		{"JSON with bytes after it", json, `{}x`, `{} x`, false},
		{"JSON that is not UTF-8", json, "\"\xff\"", "\"\xfe\"", false},
		{"none", yekbar.NoFingerprint, `1`, `2`, true},
	} {
		if got := bytes.Equal(of(c.a, c.f), of(c.b, c.f)); got != c.same {
			t.Errorf("%s: equal fingerprints of %s and %s: %v", c.name, c.a, c.b, got)
		}
	}
	if n := len(of("", plain)); n != 17 {
		t.Errorf("%d bytes; want a tag and 16", n)
	}
	if bytes.Equal(of(`{}`, yekbar.JSONFingerprint("a"))[:5], of(`{}`, yekbar.JSONFingerprint("b"))[:5]) {
		t.Error("other ignored fields have the same tag: their fingerprints would be compared")
	}
	if !bytes.Equal(of(`{}`, yekbar.JSONFingerprint("a", "b")), of(`{}`, yekbar.JSONFingerprint("b", "a", "b"))) {
		t.Error("the order of ignored fields matters")
	}
}

func TestBackoffPause(t *testing.T) {
	b := yekbar.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for failures, whole := range map[int]time.Duration{0: 10 * time.Millisecond, 1: 10 * time.Millisecond, 2: 20 * time.Millisecond, 7: 640 * time.Millisecond, 8: time.Second, 1 << 40: time.Second} {
		for range 100 {
			if d := b.Pause(failures); d < whole/2 || d > whole {
				t.Fatalf("after %d failures: %v; want between %v and %v", failures, d, whole/2, whole)
			}
		}
	}
	if d := (yekbar.Backoff{}).Pause(3); d != 0 {
		t.Errorf("zero Backoff: %v", d)
	}
}
