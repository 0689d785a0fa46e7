package yekbar_test

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const rootModule = "github.com/yekbar-go/yekbar"

// The promise of go.mod: who takes this module takes nothing else.
func TestTheModuleRequiresNothing(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) > 0 {
			switch words[0] {
			case "module", "go", "//":
			default:
				t.Errorf("go.mod has %q; nothing but the standard library is used here", strings.TrimSpace(line))
			}
		}
	}
}

// go.mod alone could be silent: in a workspace a package finds the modules of
// its neighbours without a require.
func TestTheModuleImportsOnlyTheStandardLibraryAndItself(t *testing.T) {
	t.Parallel()
	files, nested := 0, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path == "." {
				return nil
			}
			if name := entry.Name(); name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				nested[rootModule+"/"+filepath.ToSlash(path)] = true
				return fs.SkipDir
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if foreign(imported, nested) {
				t.Errorf("%s imports %s; code that needs it belongs in a module of its own", path, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 || len(nested) == 0 {
		t.Fatalf("looked at %d files and %d nested modules: this test looks in the wrong place", files, len(nested))
	}
}

// foreign tells whether an import leaves the standard library (whose paths
// have no dot in their first part) and this module.
func foreign(imported string, nested map[string]bool) bool {
	if imported == "C" {
		return true
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return false
	}
	if imported != rootModule && !strings.HasPrefix(imported, rootModule+"/") {
		return true
	}
	// A leaf module lies below the root's path and is still another module.
	for at := imported; at != rootModule; at = at[:strings.LastIndexByte(at, '/')] {
		if nested[at] {
			return true
		}
	}
	return false
}

func TestForeignImportsAreTold(t *testing.T) {
	t.Parallel()
	nested := map[string]bool{rootModule + "/store/pgxstore": true}
	for imported, want := range map[string]bool{
		"fmt":                               false,
		"database/sql/driver":               false,
		rootModule:                          false,
		rootModule + "/store/schema":        false,
		rootModule + "/store/pgxstore":      true,
		rootModule + "/store/pgxstore/deep": true,
		rootModule + "ish":                  true,
		"github.com/jackc/pgx/v5":           true,
		"golang.org/x/sync":                 true,
		"C":                                 true,
	} {
		if got := foreign(imported, nested); got != want {
			t.Errorf("%s: foreign %v, want %v", imported, got, want)
		}
	}
}
