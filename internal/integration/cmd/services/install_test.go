package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestDenyingServiceStartsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const theirs = "#!/bin/sh\nexit 0\n"
	for name, before := range map[string]string{"none before": "", "one before": theirs} {
		for _, killedOnce := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "policy-rc.d")
			if before != "" {
				if err := os.WriteFile(path, []byte(before), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			restore, err := denyServiceStarts(path)
			if err != nil {
				t.Fatal(err)
			}
			if killedOnce { // the first run never restored
				if restore, err = denyServiceStarts(path); err != nil {
					t.Fatal(err)
				}
			}
			if b, err := os.ReadFile(path); err != nil || string(b) == before {
				t.Errorf("%s: nothing denies: %v", name, err)
			}
			if err := restore(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if before == "" && !errors.Is(err, fs.ErrNotExist) || before != "" && string(b) != before {
				t.Errorf("%s, killed once %v: afterwards %q, %v", name, killedOnce, b, err)
			}
			left, err := os.ReadDir(filepath.Dir(path))
			if err != nil || before == "" && len(left) != 0 || before != "" && len(left) != 1 {
				t.Errorf("%s: left %v, %v", name, left, err)
			}
		}
	}
}
