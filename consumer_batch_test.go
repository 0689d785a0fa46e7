package yekbar_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
)

func batch(ids ...string) []*yekbar.Message {
	ms := make([]*yekbar.Message, len(ids))
	for i, id := range ids {
		ms[i] = message(id)
	}
	return ms
}

// outcomes says in a word what became of each message.
func outcomes(rs []yekbar.BatchResult) []string {
	words := make([]string, len(rs))
	for i, r := range rs {
		switch {
		case r.Err == nil:
			words[i] = r.Outcome.String()
		case yekbar.IsPermanent(r.Err):
			words[i] = "permanent"
		case yekbar.CountsAsAttempt(r.Err):
			words[i] = "failed"
		default:
			words[i] = "again"
		}
	}
	return words
}

func expect(t *testing.T, f *fake, got []yekbar.BatchResult, want ...string) {
	t.Helper()
	if !slices.Equal(outcomes(got), want) {
		t.Errorf("outcomes %q, want %q", outcomes(got), want)
		for i, r := range got {
			t.Logf("message %d: %v", i, r.Err)
		}
	}
	for effect, n := range f.effects {
		if n != 1 {
			t.Errorf("%q took effect %d times", effect, n)
		}
	}
	applied := 0
	for _, w := range want {
		if w == "applied" {
			applied++
		}
	}
	if len(f.effects) < applied {
		t.Errorf("%d messages applied, effects %v", applied, f.effects)
	}
}

func TestProcessBatchIsOneTransaction(t *testing.T) {
	f := newFake()
	c := consumer(t, f, add, yekbar.Config{})
	expect(t, f, c.ProcessBatch(t.Context(), batch("3", "1", "2")), "applied", "applied", "applied")
	if want := [][]string{{"1", "2", "3"}}; !reflect.DeepEqual(f.calls, want) {
		t.Errorf("attempts %v, want one with sorted claims", f.calls)
	}
	expect(t, f, c.ProcessBatch(t.Context(), batch("4", "2", "3")), "applied", "duplicate", "duplicate")
	expect(t, f, c.ProcessBatch(t.Context(), batch("1", "2", "3")), "duplicate", "duplicate", "duplicate")
	expect(t, f, c.ProcessBatch(t.Context(), nil))
}

func TestARepeatAndAConflictWithinABatch(t *testing.T) {
	f := newFake()
	c := consumer(t, f, add, yekbar.Config{})
	ms := batch("1", "2", "1", "", "1")
	ms[4].Payload = []byte("other")
	expect(t, f, c.ProcessBatch(t.Context(), ms), "applied", "applied", "duplicate", "permanent", "permanent")
}

func TestOneFailingMessageCostsItsNeighboursNothing(t *testing.T) {
	for name, fails := range map[string]func() error{
		"error":     func() error { return errors.New("bad message") },
		"permanent": func() error { return yekbar.Permanent(errors.New("bad message")) },
		"panic":     func() error { panic("bad message") },
		"no column": func() error { return yekbar.ErrEnvironment },
	} {
		for _, at := range []int{0, 3, 6} {
			t.Run(fmt.Sprint(name, " at ", at), func(t *testing.T) {
				f := newFake()
				calls := map[string]int{}
				c := consumer(t, f, func(_ context.Context, tx *fakeTx, m *yekbar.Message) error {
					calls[m.ID]++
					tx.Add(m.ID)
					if m.ID == strconv.Itoa(at) {
						return fails()
					}
					return nil
				}, yekbar.Config{})
				want := slices.Repeat([]string{"applied"}, 7)
				want[at] = map[string]string{"permanent": "permanent", "no column": "again"}[name]
				if want[at] == "" {
					want[at] = "failed"
				}
				expect(t, f, c.ProcessBatch(t.Context(), batch("0", "1", "2", "3", "4", "5", "6")), want...)
				if len(f.calls) != 3 || calls[strconv.Itoa(at)] != 2 {
					t.Errorf("attempts %v, handler calls %v", f.calls, calls)
				}
			})
		}
	}
}

func TestAFailureAtCommitIsFoundByHalving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.atCommit = func(_ int, claims []yekbar.Claim) (error, bool) {
			for _, c := range claims {
				if c.MessageID == "5" {
					return errors.New("deferred constraint"), false
				}
			}
			return nil, true
		}
		expect(t, f, consumer(t, f, add, yekbar.Config{}).ProcessBatch(t.Context(), batch("1", "2", "3", "4", "5", "6", "7", "8")),
			"applied", "applied", "applied", "applied", "failed", "applied", "applied", "applied")
	})
}

func TestDeadlocksHalveTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.atCommit = func(_ int, claims []yekbar.Claim) (error, bool) {
			if len(claims) > 2 {
				return yekbar.ErrTransient, false
			}
			return nil, true
		}
		expect(t, f, consumer(t, f, add, yekbar.Config{}).ProcessBatch(t.Context(), batch("1", "2", "3", "4", "5", "6", "7", "8")), slices.Repeat([]string{"applied"}, 8)...)
		if len(f.calls) != 7 {
			t.Errorf("attempts %v", f.calls)
		}
	})
}

func TestAnOutageIsNotAnsweredWithMoreAttempts(t *testing.T) {
	for name, err := range map[string]error{"outage": yekbar.ErrUnavailable, "unknown COMMIT": yekbar.ErrCommitUnknown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.atCommit = func(int, []yekbar.Claim) (error, bool) { return err, false }
				expect(t, f, consumer(t, f, add, yekbar.Config{}).ProcessBatch(t.Context(), batch("1", "2", "3")), "again", "again", "again")
				if len(f.calls) != 5 {
					t.Errorf("attempts %v", f.calls)
				}
			})
		})
	}
}

func TestAnUnknownCommitOfABatchIsAnsweredByTheClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.atCommit = func(call int, _ []yekbar.Claim) (error, bool) {
			if call == 0 {
				return yekbar.ErrCommitUnknown, true
			}
			return nil, true
		}
		expect(t, f, consumer(t, f, add, yekbar.Config{}).ProcessBatch(t.Context(), batch("1", "2")), "duplicate", "duplicate")
		if f.effects["1"] != 1 || f.effects["2"] != 1 {
			t.Errorf("effects %v", f.effects)
		}
	})
}

func TestASlowMessageOfABatchIsBlamedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := consumer(t, f, func(ctx context.Context, tx *fakeTx, m *yekbar.Message) error {
			if m.ID == "2" {
				<-ctx.Done()
				return fmt.Errorf("%w: closed: %w", yekbar.ErrUnavailable, ctx.Err())
			}
			tx.Add(m.ID)
			return nil
		}, yekbar.Config{Timeout: time.Second})
		expect(t, f, c.ProcessBatch(t.Context(), batch("1", "2", "3")), "applied", "failed", "applied")
	})
}

func TestBatchHandler(t *testing.T) {
	f := newFake()
	var seen [][]string
	wrong := -1
	c, err := yekbar.NewBatchConsumer("inventory", f, func(_ context.Context, tx *fakeTx, ms []*yekbar.Message) error {
		var ids []string
		for i, m := range ms {
			ids = append(ids, m.OrderingKey+m.ID)
			tx.Add(m.ID)
			if m.ID == "bad" {
				return &yekbar.BatchError{Index: i + 1 + wrong, Err: yekbar.Permanent(errors.New("bad"))}
			}
		}
		seen = append(seen, ids)
		return nil
	}, yekbar.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ms := batch("9", "bad", "1", "5", "0")
	for i, key := range []string{"b", "a", "b", "a", "a"} {
		ms[i].OrderingKey = key
	}
	expect(t, f, c.ProcessBatch(t.Context(), ms), "applied", "permanent", "applied", "applied", "applied")
	if want := [][]string{{"a5", "a0", "b9", "b1"}}; !reflect.DeepEqual(seen, want) {
		t.Errorf("the handler saw %v, want %v: by key, then by arrival", seen, want)
	}
	wrong = 100
	ms = batch("11", "bad", "12")
	expect(t, f, c.ProcessBatch(t.Context(), ms), "applied", "failed", "applied")
	if r := c.ProcessBatch(t.Context(), batch("bad")); r[0].Err == nil || !strings.Contains(r[0].Err.Error(), "blames") {
		t.Errorf("a blame out of range: %v", r[0].Err)
	}
}

func TestAnEscapedBoundaryOfABatchSparesOldClaims(t *testing.T) {
	f := newFake()
	c := consumer(t, f, add, yekbar.Config{})
	expect(t, f, c.ProcessBatch(t.Context(), batch("1")), "applied")
	f.atCommit = func(int, []yekbar.Claim) (error, bool) { return &yekbar.BoundaryError{Escaped: true}, true }
	c.ProcessBatch(t.Context(), batch("1", "2"))
	if len(f.held) != 1 || f.held[0].MessageID != "2" {
		t.Errorf("held %+v", f.held)
	}
}

func TestBatchesWithTheSameMessagesAtTheSameMoment(t *testing.T) {
	f := newFake()
	c := consumer(t, f, add, yekbar.Config{ClaimWait: time.Minute})
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			mine := slices.Clone(ids)
			slices.Reverse(mine)
			for _, r := range c.ProcessBatch(t.Context(), batch(mine...)) {
				if r.Err != nil {
					t.Error(r.Err)
				}
			}
			slices.Reverse(mine)
			for _, r := range c.ProcessBatch(t.Context(), batch(mine...)) {
				if r.Err != nil {
					t.Error(r.Err)
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if f.effects[id] != 1 {
			t.Errorf("message %s took effect %d times", id, f.effects[id])
		}
	}
}
