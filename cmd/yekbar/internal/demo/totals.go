package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A totalsFile gets its content in the end or not at all. It is opened in the
// beginning, so that a wrong path does not come out after the run.
type totalsFile struct {
	path string
	f    *os.File
}

func openTotals(path string) (*totalsFile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--totals: %s is not a file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".yekbar-totals-*")
	if err != nil {
		var cause *os.PathError // its path is the temporary file's
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("--totals %s: can't make a file there: %w", path, err)
	}
	return &totalsFile{path, f}, nil
}

func (t *totalsFile) write(r *Report) error {
	if t == nil {
		return nil
	}
	err := r.WriteTotals(t.f)
	if err == nil {
		err = t.f.Chmod(0o644)
	}
	if err = errors.Join(err, t.f.Close()); err == nil {
		err = os.Rename(t.f.Name(), t.path)
	}
	if err != nil {
		return fmt.Errorf("--totals: %w", err)
	}
	return nil
}

// discard removes what was not written.
func (t *totalsFile) discard() error {
	if t == nil {
		return nil
	}
	_ = t.f.Close() // closed already when it was written
	if err := os.Remove(t.f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--totals: %w", err)
	}
	return nil
}
