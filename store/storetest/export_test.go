package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Names returns the names of all checks.
func Names() []string {
	var names []string
	for _, c := range checks[any]() {
		names = append(names, c.name)
	}
	return names
}

// A Verdict is what a check said about a store.
type Verdict struct {
	Failed, Skipped bool
	Said            string
}

// Judge runs one check as Run does, and returns its verdict instead of failing
// t. Patience bounds what the check waits for.
func Judge[Tx any](t *testing.T, f Fixture[Tx], name string, patience time.Duration) Verdict {
	t.Helper()
	all := checks[Tx]()
	i := slices.IndexFunc(all, func(c check[Tx]) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	r := &recorder{TB: t, ctx: ctx}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer r.cleanUp()
		defer cancel()
		runCheck(r, f, all[i])
	}()
	<-ended
	return Verdict{r.failed, r.skipped, strings.Join(r.said, "\n")}
}

// A recorder is a testing.TB whose failures are its own.
type recorder struct {
	testing.TB
	ctx context.Context

	mu              sync.Mutex
	failed, skipped bool
	said            []string
	cleanups        []func()
}

func (r *recorder) note(failed, skipped bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.skipped = r.skipped || skipped
	r.said = append(r.said, text)
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Log(args ...any)          { r.note(false, false, fmt.Sprint(args...)) }
func (r *recorder) Logf(format string, args ...any) {
	r.note(false, false, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any) { r.note(true, false, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.note(true, false, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)                  { r.note(false, true, fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Skipf(format string, args ...any)  { r.Skip(fmt.Sprintf(format, args...)) }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) cleanUp() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}
