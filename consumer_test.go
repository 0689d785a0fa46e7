package yekbar_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
)

// add is a handler whose effect is named by the message's type, or its ID.
func add(_ context.Context, tx *fakeTx, m *yekbar.Message) error {
	tx.Add(m.ID + m.Type)
	return nil
}

func consumer(t *testing.T, f *fake, h yekbar.Handler[*fakeTx], c yekbar.Config) *yekbar.Consumer[*fakeTx] {
	t.Helper()
	got, err := yekbar.NewConsumer("inventory", f, h, c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func message(id string) *yekbar.Message { return &yekbar.Message{ID: id, Payload: []byte("p")} }

func TestProcess(t *testing.T) {
	f := newFake()
	c := consumer(t, f, add, yekbar.Config{})
	for i, want := range []yekbar.Outcome{yekbar.Applied, yekbar.Duplicate, yekbar.Duplicate} {
		r, err := c.Process(t.Context(), message("1"))
		if err != nil || r.Outcome != want || r.State != yekbar.StateApplied || !r.AppliedAt.Equal(time.Unix(1, 0)) {
			t.Errorf("delivery %d: %+v, %v; want %v", i, r, err, want)
		}
	}
	if f.effects["1"] != 1 {
		t.Errorf("the message took effect %d times", f.effects["1"])
	}
	if f.checks != 1 {
		t.Errorf("the store was checked %d times", f.checks)
	}
}

func TestTheSameIDWithAnotherPayloadIsAConflict(t *testing.T) {
	f := newFake()
	c := consumer(t, f, add, yekbar.Config{})
	if _, err := c.Process(t.Context(), message("1")); err != nil {
		t.Fatal(err)
	}
	other := &yekbar.Message{ID: "1", Payload: []byte("secret other")}
	_, err := c.Process(t.Context(), other)
	conflict := (*yekbar.ConflictError)(nil)
	if !errors.As(err, &conflict) || conflict.MessageID != "1" || conflict.Consumer != "inventory" || !yekbar.IsPermanent(err) || !yekbar.CountsAsAttempt(err) {
		t.Errorf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the payload is in the error: %v", err)
	}
	for name, cfg := range map[string]yekbar.Config{
		"TreatAsDuplicate":     {OnConflict: yekbar.TreatAsDuplicate},
		"NoFingerprint":        {Fingerprint: yekbar.NoFingerprint},
		"fingerprint, new tag": {Fingerprint: func(*yekbar.Message) []byte { return []byte("\x80sixteen bytes ..") }},
	} {
		r, err := consumer(t, f, add, cfg).Process(t.Context(), other)
		if err != nil || r.Outcome != yekbar.Duplicate {
			t.Errorf("%s: %+v, %v; want a duplicate", name, r, err)
		}
	}
	if f.effects["1"] != 1 {
		t.Errorf("the message took effect %d times", f.effects["1"])
	}
}

func TestProcessTriesAgain(t *testing.T) {
	for name, test := range map[string]struct {
		atClaim  error
		atCommit error
		commits  bool
		outcome  yekbar.Outcome
	}{
		"deadlock at the claim":                      {atClaim: yekbar.ErrTransient, outcome: yekbar.Applied},
		"serialization failure at COMMIT":            {atCommit: yekbar.ErrTransient, outcome: yekbar.Applied},
		"lost connection":                            {atClaim: yekbar.ErrUnavailable, outcome: yekbar.Applied},
		"COMMIT's answer lost, it was done":          {atCommit: yekbar.ErrCommitUnknown, commits: true, outcome: yekbar.Duplicate},
		"COMMIT's answer lost, it had never arrived": {atCommit: yekbar.ErrCommitUnknown, outcome: yekbar.Applied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.atClaim = func(call int, _ []yekbar.Claim) error {
					if call < 2 {
						return test.atClaim
					}
					return nil
				}
				f.atCommit = func(call int, _ []yekbar.Claim) (error, bool) {
					if call < 2 && test.atCommit != nil {
						return test.atCommit, test.commits
					}
					return nil, true
				}
				r, err := consumer(t, f, add, yekbar.Config{}).Process(t.Context(), message("1"))
				if err != nil || r.Outcome != test.outcome || f.effects["1"] != 1 {
					t.Errorf("%+v, %v, %d effects", r, err, f.effects["1"])
				}
			})
		})
	}
}

func TestProcessGivesUp(t *testing.T) {
	for name, test := range map[string]struct {
		errs    []error // of the attempts' COMMITs, the last for all further ones
		calls   int
		is      error
		counts  bool
		unknown bool
	}{
		"deadlocks":           {errs: []error{yekbar.ErrTransient}, calls: 5, is: yekbar.ErrTransient, counts: true},
		"outage":              {errs: []error{yekbar.ErrUnavailable}, calls: 5, is: yekbar.ErrUnavailable},
		"unknown COMMITs":     {errs: []error{yekbar.ErrCommitUnknown}, calls: 5, is: yekbar.ErrCommitUnknown, unknown: true},
		"wrong environment":   {errs: []error{yekbar.ErrEnvironment}, calls: 1, is: yekbar.ErrEnvironment},
		"in flight":           {errs: []error{yekbar.ErrInFlight}, calls: 1, is: yekbar.ErrInFlight},
		"rolled back":         {errs: []error{yekbar.ErrRolledBack}, calls: 1, is: yekbar.ErrRolledBack, counts: true},
		"boundary, refused":   {errs: []error{&yekbar.BoundaryError{What: "COMMIT"}}, calls: 1, is: yekbar.ErrBoundary, counts: true},
		"known after unknown": {errs: []error{yekbar.ErrCommitUnknown, yekbar.ErrRolledBack}, calls: 2, is: yekbar.ErrRolledBack, counts: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.atCommit = func(call int, _ []yekbar.Claim) (error, bool) {
					return fmt.Errorf("%w: native", test.errs[min(call, len(test.errs)-1)]), false
				}
				_, err := consumer(t, f, add, yekbar.Config{}).Process(t.Context(), message("1"))
				if !errors.Is(err, test.is) || len(f.calls) != test.calls || yekbar.CountsAsAttempt(err) != test.counts ||
					errors.Is(err, yekbar.ErrCommitUnknown) != test.unknown || yekbar.IsPermanent(err) {
					t.Errorf("%d calls, %v", len(f.calls), err)
				}
				if !strings.Contains(err.Error(), `"inventory"`) || !strings.Contains(err.Error(), `"1"`) {
					t.Errorf("the error does not say whose: %v", err)
				}
			})
		})
	}
}

// The second attempt never reached the database: whether the first one's
// COMMIT was done is as open as before.
func TestAnUnknownCommitStaysUnknownThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.atClaim = func(call int, _ []yekbar.Claim) error {
			if call > 0 {
				return yekbar.ErrUnavailable
			}
			return nil
		}
		f.atCommit = func(int, []yekbar.Claim) (error, bool) { return yekbar.ErrCommitUnknown, true }
		_, err := consumer(t, f, add, yekbar.Config{}).Process(t.Context(), message("1"))
		if !errors.Is(err, yekbar.ErrCommitUnknown) || !errors.Is(err, yekbar.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

func TestHandlersThatFail(t *testing.T) {
	mine := errors.New("out of stock")
	for name, test := range map[string]struct {
		h         yekbar.Handler[*fakeTx]
		is        error
		permanent bool
		panics    bool
	}{
		"error":     {h: func(context.Context, *fakeTx, *yekbar.Message) error { return mine }, is: mine},
		"permanent": {h: func(context.Context, *fakeTx, *yekbar.Message) error { return yekbar.Permanent(mine) }, is: mine, permanent: true},
		"permanent about an outage": {h: func(context.Context, *fakeTx, *yekbar.Message) error {
			return yekbar.Permanent(fmt.Errorf("%w: %w", mine, yekbar.ErrEnvironment))
		}, is: mine},
		"panic":            {h: func(context.Context, *fakeTx, *yekbar.Message) error { panic("oh") }, panics: true},
		"panic with error": {h: func(context.Context, *fakeTx, *yekbar.Message) error { panic(mine) }, is: mine, panics: true},
		"panic(nil)":       {h: func(context.Context, *fakeTx, *yekbar.Message) error { panic(nil) }, panics: true},
		"nil map": {h: func(context.Context, *fakeTx, *yekbar.Message) error {
			var m map[string]int
			m["a"] = 1 //nolint:staticcheck // the panic is the test
			return nil
		}, panics: true},
		"Goexit": {h: func(context.Context, *fakeTx, *yekbar.Message) error { runtime.Goexit(); return nil }, panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			c := consumer(t, f, func(ctx context.Context, tx *fakeTx, m *yekbar.Message) error {
				tx.Add(m.ID)
				return test.h(ctx, tx, m)
			}, yekbar.Config{})
			_, err := c.Process(t.Context(), message("1"))
			p := (*yekbar.PanicError)(nil)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || yekbar.IsPermanent(err) != test.permanent || errors.As(err, &p) != test.panics {
				t.Errorf("got %v", err)
			}
			if p != nil && !strings.Contains(string(p.Stack), "consumer_test.go") {
				t.Errorf("the stack does not show the handler:\n%s", p.Stack)
			}
			if len(f.effects) != 0 || len(f.rows) != 0 || len(f.calls) != 1 {
				t.Errorf("effects %v, claims %v, %d attempts", f.effects, f.rows, len(f.calls))
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obeys := func(ctx context.Context, _ *fakeTx, _ *yekbar.Message) error {
			<-ctx.Done()
			// what a driver says whose connection was closed with the context
			return fmt.Errorf("%w: closed: %w", yekbar.ErrUnavailable, ctx.Err())
		}
		ignores := func(ctx context.Context, tx *fakeTx, m *yekbar.Message) error {
			time.Sleep(2 * time.Second) //nolint:forbidigo // time is fake in a synctest bubble
			tx.Add(m.ID)
			return nil
		}
		for name, h := range map[string]yekbar.Handler[*fakeTx]{"obeys": obeys, "ignores": ignores} {
			f := newFake()
			_, err := consumer(t, f, h, yekbar.Config{Timeout: time.Second}).Process(t.Context(), message("1"))
			if !errors.Is(err, yekbar.ErrTimeout) || !yekbar.CountsAsAttempt(err) || len(f.effects) != 0 || len(f.calls) != 1 {
				t.Errorf("%s: %v, effects %v, %d calls", name, err, f.effects, len(f.calls))
			}
		}
	})
}

func TestTimeoutBeforeTheHandlerIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := slowClaim{f}
		c, err := yekbar.NewConsumer("inventory", s, add, yekbar.Config{Timeout: time.Second, Retry: yekbar.Backoff{Tries: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Process(t.Context(), message("1")); !errors.Is(err, yekbar.ErrUnavailable) || yekbar.CountsAsAttempt(err) {
			t.Errorf("got %v", err)
		}
	})
}

type slowClaim struct{ *fake }

func (s slowClaim) Attempt(ctx context.Context, _ []yekbar.Claim, _ func(context.Context, *fakeTx, []int) error) ([]yekbar.Claimed, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTheCallersCancellationCostsNoAttempt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := newFake()
	c := consumer(t, f, func(ctx context.Context, _ *fakeTx, _ *yekbar.Message) error {
		cancel(errors.New("shutting down"))
		<-ctx.Done()
		return yekbar.Permanent(ctx.Err())
	}, yekbar.Config{})
	_, err := c.Process(ctx, message("1"))
	if yekbar.CountsAsAttempt(err) || yekbar.IsPermanent(err) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("got %v", err)
	}
	// A context that the handler made itself is the handler's own affair.
	c = consumer(t, newFake(), func(ctx context.Context, _ *fakeTx, _ *yekbar.Message) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx.Err()
	}, yekbar.Config{})
	if _, err := c.Process(t.Context(), message("1")); !yekbar.CountsAsAttempt(err) {
		t.Errorf("got %v", err)
	}
}

func TestASecondCopyWaitsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		inside, release := make(chan struct{}), make(chan struct{})
		c := consumer(t, f, func(ctx context.Context, tx *fakeTx, m *yekbar.Message) error {
			if m.ID == "1" {
				close(inside)
				<-release
			}
			tx.Add(m.ID)
			return nil
		}, yekbar.Config{})
		var all sync.WaitGroup
		outcomes := make(chan yekbar.Outcome, 6)
		process := func() {
			r, err := c.Process(t.Context(), message("1"))
			if err != nil {
				t.Error(err)
			}
			outcomes <- r.Outcome
		}
		all.Go(process)
		<-inside
		for range 5 {
			all.Go(process)
		}
		synctest.Wait()
		if len(f.calls) != 1 {
			t.Errorf("%d copies went to the database while the first was in flight", len(f.calls))
		}
		if r, err := c.Process(t.Context(), message("2")); err != nil || r.Outcome != yekbar.Applied {
			t.Errorf("another message waited: %v, %v", r, err)
		}
		close(release)
		all.Wait()
		close(outcomes)
		if got := slices.Sorted(func(yield func(yekbar.Outcome) bool) {
			for o := range outcomes {
				if !yield(o) {
					return
				}
			}
		}); got[0] != yekbar.Applied || got[1] != yekbar.Duplicate || f.effects["1"] != 1 {
			t.Errorf("outcomes %v, %d effects", got, f.effects["1"])
		}
	})
}

func TestWaitingForACopyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside, release := make(chan struct{}), make(chan struct{})
		c := consumer(t, newFake(), func(context.Context, *fakeTx, *yekbar.Message) error {
			close(inside)
			<-release
			return nil
		}, yekbar.Config{ClaimWait: 3 * time.Second})
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.Process(t.Context(), message("1")); err != nil {
				t.Error(err)
			}
		})
		<-inside
		begin := time.Now()
		_, err := c.Process(t.Context(), message("1"))
		if !errors.Is(err, yekbar.ErrInFlight) || yekbar.CountsAsAttempt(err) || time.Since(begin) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Process(ctx, message("1")); !errors.Is(err, context.Canceled) || yekbar.CountsAsAttempt(err) {
			t.Errorf("cancelled: %v", err)
		}
		close(release)
		all.Wait()
	})
}

func TestHandlersCannotChangeTheMessage(t *testing.T) {
	f := newFake()
	c := consumer(t, f, func(_ context.Context, _ *fakeTx, m *yekbar.Message) error {
		m.Header.Set("a", "changed")
		m.ID, m.Payload = "other", []byte("other")
		return nil
	}, yekbar.Config{})
	m := message("1")
	m.Header.Add("a", "1")
	if _, err := c.Process(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if m.ID != "1" || string(m.Payload) != "p" || m.Header.Get("a") != "1" {
		t.Errorf("the message became %+v", m)
	}
	if r, err := c.Process(t.Context(), message("1")); err != nil || r.Outcome != yekbar.Duplicate {
		t.Errorf("redelivered: %v, %v", r, err)
	}
}

func TestResultsAreGivenBackToDuplicates(t *testing.T) {
	f := newFake()
	n := 0
	c, err := yekbar.NewResultConsumer("inventory", f, func(_ context.Context, tx *fakeTx, m *yekbar.Message) ([]byte, error) {
		n++
		return fmt.Appendf(nil, "receipt %d", n), nil
	}, yekbar.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := c.Process(t.Context(), message("1")); err != nil || string(r.Value) != "receipt 1" {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestCauseIsInTheHandlersContext(t *testing.T) {
	m := message("1")
	c := consumer(t, newFake(), func(ctx context.Context, _ *fakeTx, _ *yekbar.Message) error {
		if cause, ok := yekbar.CauseFrom(ctx); !ok || cause.Consumer != "inventory" || cause.Message != m {
			t.Errorf("cause %+v, %v", cause, ok)
		}
		return nil
	}, yekbar.Config{})
	if _, err := c.Process(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, ok := yekbar.CauseFrom(t.Context()); ok {
		t.Error("a context without a cause has one")
	}
}

func TestAnEscapedBoundaryTurnsTheClaimToDead(t *testing.T) {
	f := newFake()
	f.atCommit = func(call int, _ []yekbar.Claim) (error, bool) {
		if call == 0 {
			return &yekbar.BoundaryError{What: "CALL", Escaped: true}, true
		}
		return nil, true
	}
	c := consumer(t, f, add, yekbar.Config{})
	if _, err := c.Process(t.Context(), message("1")); !errors.Is(err, yekbar.ErrBoundary) {
		t.Errorf("got %v", err)
	}
	if len(f.held) != 1 || f.held[0].Reason != yekbar.ReasonBoundary || f.held[0].State != yekbar.StateDead || string(f.held[0].Message.Payload) != "p" {
		t.Fatalf("held %+v", f.held)
	}
	if r, err := c.Process(t.Context(), message("1")); err != nil || r.Outcome != yekbar.Duplicate || r.State != yekbar.StateDead {
		t.Errorf("redelivered: %+v, %v", r, err)
	}
}

func TestTheStoreIsCheckedUntilItPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.check = func(call int) error {
			if call < 3 {
				return yekbar.ErrSchema
			}
			return nil
		}
		c := consumer(t, f, add, yekbar.Config{})
		for i := range 4 {
			_, err := c.Process(t.Context(), message("1"))
			if i < 2 && (!errors.Is(err, yekbar.ErrSchema) || yekbar.CountsAsAttempt(err)) || i >= 2 && err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		}
		if f.checks != 3 {
			t.Errorf("checked %d times", f.checks)
		}
	})
}

func TestNewConsumerReportsAllProblemsAtOnce(t *testing.T) {
	f := newFake()
	f.validate = errors.New("store is wrong")
	_, err := yekbar.NewConsumer(" x", f, nil, yekbar.Config{Timeout: -1, Retention: -2, OnConflict: 7, ClaimWait: -1,
		Retry: yekbar.Backoff{Tries: -1, Min: 3, Max: 2}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"space", "handler is nil", "store is wrong", "Timeout", "Retention", "OnConflict", "ClaimWait", "Retry is", "Retry.Max"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no word of %s in: %v", part, err)
		}
	}
	for _, name := range []string{"", " ", "a\x00", "\xff", strings.Repeat("x", 256)} {
		if _, err := yekbar.NewConsumer(name, newFake(), add, yekbar.Config{}); err == nil {
			t.Errorf("name %q was accepted", name)
		}
	}
	if _, err := yekbar.NewConsumer[*fakeTx]("x", nil, add, yekbar.Config{}); err == nil {
		t.Error("a nil store was accepted")
	}
	if _, err := yekbar.NewStatementConsumer("x", newFake(), func(context.Context, *yekbar.Message) ([]yekbar.Statement, error) { return nil, nil }, yekbar.Config{}); !errors.Is(err, yekbar.ErrUnsupported) {
		t.Errorf("statements over a store without them: %v", err)
	}
}

func TestFunctionsOfTheConfigThatPanic(t *testing.T) {
	c := consumer(t, newFake(), add, yekbar.Config{ID: func(*yekbar.Message) (string, string, error) { panic("oh") }})
	p := (*yekbar.PanicError)(nil)
	if _, err := c.Process(t.Context(), message("1")); !errors.As(err, &p) || !yekbar.CountsAsAttempt(err) {
		t.Errorf("got %v", err)
	}
	c = consumer(t, newFake(), add, yekbar.Config{Fingerprint: func(*yekbar.Message) []byte { return []byte("short") }})
	if _, err := c.Process(t.Context(), message("1")); err == nil || !strings.Contains(err.Error(), "Fingerprint") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Process(t.Context(), nil); err == nil {
		t.Error("a nil message was processed")
	}
}

func TestClaimTx(t *testing.T) {
	f := newFake()
	tx := &fakeTx{of: f}
	r, err := yekbar.ClaimTx(t.Context(), f, tx, "http", message("1"))
	if err != nil || r.Outcome != yekbar.Applied {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, do := range tx.commit {
		do()
	}
	if r, err := yekbar.ClaimTx(t.Context(), f, &fakeTx{of: f}, "http", message("1")); err != nil || r.Outcome != yekbar.Duplicate {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := yekbar.ClaimTx(t.Context(), f, &fakeTx{of: f}, "http", &yekbar.Message{ID: "1", Payload: []byte("other")}); !yekbar.IsPermanent(err) {
		t.Errorf("conflict: %v", err)
	}
	if _, err := yekbar.ClaimTx(t.Context(), f, &fakeTx{of: f}, "", message("2")); err == nil {
		t.Error("an empty consumer name was accepted")
	}
	if _, err := yekbar.ClaimTx(t.Context(), f, &fakeTx{of: f}, "http", message("")); !yekbar.IsPermanent(err) {
		t.Errorf("no ID: %v", err)
	}
}
