package schema

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
)

func FuzzTextSurvives(f *testing.F) {
	for _, s := range []string{"", "plain", "naïve ü", "a\x00b", "\xff\xfe", "base64:", "base64:AAE=", "\u2028<&>"} {
		f.Add(s, "value")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		e := EncodeText(a)
		if !utf8.ValidString(e) || strings.IndexByte(e, 0) >= 0 {
			t.Fatalf("%q is stored as %q, which is no text", a, e)
		}
		if d, err := DecodeText(e); err != nil || d != a {
			t.Fatalf("%q came back as %q, %v", a, d, err)
		}
		if a != b && e == EncodeText(b) {
			t.Fatalf("%q and %q are stored as one", a, b)
		}
		h := yekbar.Header{{Name: a, Value: []byte(b)}, {Name: "x", Value: []byte(a)}, {Name: a, Value: []byte{}}}
		eh := EncodeHeader(h)
		if !utf8.ValidString(eh) || strings.IndexByte(eh, 0) >= 0 {
			t.Fatalf("headers are stored as %q, which is no text", eh)
		}
		back, err := DecodeHeader(eh)
		if err != nil || !reflect.DeepEqual(h, back) {
			t.Fatalf("headers %q came back as %q, %v", h, back, err)
		}
		if ee := EncodeErrors([]string{a, b}); !utf8.ValidString(ee) || strings.IndexByte(ee, 0) >= 0 {
			t.Fatalf("errors are stored as %q, which is no text", ee)
		}
	})
}

func TestErrorsSurvive(t *testing.T) {
	for _, want := range [][]string{nil, {"one"}, {"a\nb", `"q"`, ""}} {
		got, err := DecodeErrors(EncodeErrors(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q came back as %q, %v", want, got, err)
		}
	}
}

func TestBadStoredTextIsAnError(t *testing.T) {
	if _, err := DecodeText("base64:?"); err == nil {
		t.Error("bad base64: no error")
	}
	for _, s := range []string{"", "{}", `[["a","base64:?"]]`, `[["base64:?","a"]]`} {
		if _, err := DecodeHeader(s); err == nil {
			t.Errorf("headers %q: no error", s)
		}
	}
	if _, err := DecodeErrors("{}"); err == nil {
		t.Error("bad errors: no error")
	}
}

func TestNoHeaders(t *testing.T) {
	if s := EncodeHeader(nil); s != "[]" {
		t.Errorf("no headers are %s", s)
	}
	if h, err := DecodeHeader("[]"); h != nil || err != nil {
		t.Errorf("got %v, %v", h, err)
	}
}
