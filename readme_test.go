package yekbar_test

import (
	"os"
	"strings"
	"testing"
)

// The first consumer in the READMEs is the example that the compiler sees.
func TestTheReadmesShowTheExample(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, want, ok := strings.Cut(read("store/pgxstore/example_test.go"), "\nfunc takeStock(")
	if !ok {
		t.Fatal("the example has no takeStock")
	}
	want = "func takeStock(" + strings.TrimSpace(want)
	for _, name := range []string{"README.md", "README.fa.md"} {
		_, rest, _ := strings.Cut(read(name), "```go\n")
		if got, _, _ := strings.Cut(rest, "\n```"); got != want {
			t.Errorf("%s shows another consumer than store/pgxstore/example_test.go:\n%s", name, got)
		}
	}
}
