package yekbar_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName  = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	checkName = regexp.MustCompile(`"([a-zA-Z][^"\n…]{9,}[a-z])"`)
)

// What docs/guarantees.md names as proof is there.
func TestTheGuaranteesNameTestsThatExist(t *testing.T) {
	doc, err := os.ReadFile("docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, checks := map[string]bool{}, ""
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(source), -1) {
			tests[m[1]] = true
		}
		if strings.HasPrefix(path, filepath.Join("store", "storetest")) {
			checks += string(source)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range testName.FindAllStringSubmatch(string(doc), -1) {
		if !tests[m[1]] {
			t.Errorf("there is no test %s", m[1])
		}
	}
	for _, m := range checkName.FindAllStringSubmatch(string(doc), -1) {
		if !strings.Contains(checks, `"`+m[1]+`"`) {
			t.Errorf("storetest has no check %q", m[1])
		}
	}
}
