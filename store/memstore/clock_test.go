package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
)

// What is due, leased or kept depends on the clock alone: on Later's, and on
// that of a synctest bubble.
func TestClock(t *testing.T) {
	for name, later := range map[string]func(*memstore.Store, time.Duration){
		"Later":    func(s *memstore.Store, d time.Duration) { s.Later(d) },
		"synctest": func(_ *memstore.Store, d time.Duration) { time.Sleep(d) }, //nolint:forbidigo // the bubble's clock
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				h := &yekbar.HeldMessage{Consumer: "c", MessageID: "m", State: yekbar.StateParked, Reason: yekbar.ReasonDelayed, Delay: time.Minute}
				if ok, err := s.Hold(t.Context(), h); err != nil || !ok {
					t.Fatal(ok, err)
				}
				due := func(want int) {
					t.Helper()
					hs, err := s.TakeDue(t.Context(), "c", 10, time.Hour)
					if err != nil || len(hs) != want {
						t.Errorf("%d messages are due, %v; want %d", len(hs), err, want)
					}
				}
				due(0)
				later(s, time.Minute)
				due(1)
				later(s, time.Hour-time.Second)
				due(0)
				later(s, time.Second)
				due(1)
				if a, err := s.Start(t.Context(), "c", "n", time.Minute); err != nil || a.Running {
					t.Error(a, err)
				}
				later(s, time.Minute)
				if a, err := s.Start(t.Context(), "c", "n", time.Minute); err != nil || a.Crashed != 1 {
					t.Error(a, err)
				}
			})
		})
	}
}

// In the middle of an attempt nothing is known of its message but what was
// committed before.
func TestClaimOfAnAttemptInFlight(t *testing.T) {
	s := memstore.New()
	_, err := s.Attempt(t.Context(), []yekbar.Claim{claimOf("m")}, func(ctx context.Context, _ *memstore.Tx, _ []int) error {
		if got, err := s.Claim(ctx, "c", "m"); err == nil {
			t.Errorf("a claim in flight is seen: %+v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Claim(t.Context(), "c", "m"); err != nil || got.State != yekbar.StateApplied {
		t.Error(got, err)
	}
}
