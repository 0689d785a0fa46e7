package storetest_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

// taking is the right store with another TakeDue.
type taking struct {
	*right
	take func(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error)
}

func (s taking) TakeDue(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
	return s.take(ctx, consumer, limit, lease)
}

func takes(wrong func(r *right, ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error)) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] {
		return taking{r, func(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
			return wrong(r, ctx, consumer, limit, lease)
		}}
	}
}

// listing is the right store with another Held.
type listing struct {
	*right
	change func(f *yekbar.HeldFilter, hs []*yekbar.HeldMessage) []*yekbar.HeldMessage
}

func (s listing) Held(ctx context.Context, f yekbar.HeldFilter) iter.Seq2[*yekbar.HeldMessage, error] {
	s.change(&f, nil)
	var hs []*yekbar.HeldMessage
	for h, err := range s.right.Held(ctx, f) {
		if err != nil {
			return func(yield func(*yekbar.HeldMessage, error) bool) { yield(nil, err) }
		}
		hs = append(hs, h)
	}
	return func(yield func(*yekbar.HeldMessage, error) bool) {
		for _, h := range s.change(&f, hs) {
			if !yield(h, nil) {
				return
			}
		}
	}
}

func lists(change func(f *yekbar.HeldFilter, hs []*yekbar.HeldMessage) []*yekbar.HeldMessage) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] { return listing{r, change} }
}

const (
	leases  = "TakeDue leases what is due, the longest due first"
	whole   = "TakeDue gives whole messages"
	several = "TakeDue by several gives each message once"
	inOrder = "ordered messages wait for the first of their key"
	keys    = "ordering keys are compared byte for byte, at any length"
	pages   = "held messages are listed newest first, in pages"
)

var dueTwins = []twin{
	{"takes what is not due", []string{leases, inOrder},
		takes(func(r *right, ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
			var hs []*yekbar.HeldMessage
			for h, err := range r.Held(ctx, yekbar.HeldFilter{Consumer: consumer, State: yekbar.StateParked, Limit: limit}) {
				if err != nil {
					return nil, err
				}
				hs = append(hs, h)
			}
			return hs, nil
		})},
	{"takes without a lease", []string{leases, several, inOrder},
		takes(func(r *right, ctx context.Context, consumer string, limit int, _ time.Duration) ([]*yekbar.HeldMessage, error) {
			return r.TakeDue(ctx, consumer, limit, 0)
		})},
	{"takes the newest first", []string{leases},
		takes(func(r *right, ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
			hs, err := r.TakeDue(ctx, consumer, limit, lease)
			slices.Reverse(hs)
			return hs, err
		})},
	{"gives messages without their headers", []string{whole},
		takes(func(r *right, ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
			hs, err := r.TakeDue(ctx, consumer, limit, lease)
			for _, h := range hs {
				h.Message.Header = nil
			}
			return hs, err
		})},
	{"forgets that messages are ordered", []string{inOrder, keys, whole},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			h.Ordered = false
			return r.Hold(ctx, &h)
		})},
	{"cuts and folds ordering keys", []string{keys},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			k := h.Message.OrderingKey
			h.Message.OrderingKey = strings.ToLower(strings.TrimSpace(k[:min(len(k), 255)]))
			return r.Hold(ctx, &h)
		})},
	{"gives what is parked again a new place", []string{inOrder, pages},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			if c, err := r.Claim(ctx, h.Consumer, h.MessageID); err == nil && c.State == yekbar.StateParked {
				if err := r.Forget(ctx, h.Consumer, h.MessageID, yekbar.Actor{Name: "twin", Reason: "wrong"}); err != nil {
					return false, err
				}
			}
			return r.Hold(ctx, &h)
		})},
}

var heldTwins = []twin{
	{"takes an empty payload for none", []string{"held messages come back whole"},
		lists(func(_ *yekbar.HeldFilter, hs []*yekbar.HeldMessage) []*yekbar.HeldMessage {
			for _, h := range hs {
				if len(h.Message.Payload) == 0 {
					h.Message.Payload = nil
				}
			}
			return hs
		})},
	{"sorts headers", []string{"held messages come back whole"},
		lists(func(_ *yekbar.HeldFilter, hs []*yekbar.HeldMessage) []*yekbar.HeldMessage {
			for _, h := range hs {
				slices.SortFunc(h.Message.Header, func(a, b yekbar.HeaderField) int { return strings.Compare(a.Name, b.Name) })
			}
			return hs
		})},
	{"lists the oldest first", []string{pages},
		lists(func(_ *yekbar.HeldFilter, hs []*yekbar.HeldMessage) []*yekbar.HeldMessage {
			slices.Reverse(hs)
			return hs
		})},
	{"hides why the list ended", []string{pages},
		func(r *right, _ *instance) yekbar.Store[tx] { return silent{r} }},
	{"begins each page anew", []string{pages},
		lists(func(f *yekbar.HeldFilter, hs []*yekbar.HeldMessage) []*yekbar.HeldMessage {
			f.After = 0
			return hs
		})},
}

// silent is the right store without the errors of Held.
type silent struct{ *right }

func (s silent) Held(ctx context.Context, f yekbar.HeldFilter) iter.Seq2[*yekbar.HeldMessage, error] {
	return func(yield func(*yekbar.HeldMessage, error) bool) {
		for h, err := range s.right.Held(ctx, f) {
			if err != nil || !yield(h, nil) {
				return
			}
		}
	}
}

// counting is the right store with another count of attempts; what is nil is
// right.
type counting struct {
	*right
	fail  func(got yekbar.Attempts) yekbar.Attempts
	start func(got yekbar.Attempts) yekbar.Attempts
	clear func() error
}

func (s counting) AddFailure(ctx context.Context, consumer, messageID, failure string) (yekbar.Attempts, error) {
	got, err := s.right.AddFailure(ctx, consumer, messageID, failure)
	if err == nil && s.fail != nil {
		got = s.fail(got)
	}
	return got, err
}

func (s counting) Start(ctx context.Context, consumer, messageID string, within time.Duration) (yekbar.Attempts, error) {
	got, err := s.right.Start(ctx, consumer, messageID, within)
	if err == nil && s.start != nil {
		got = s.start(got)
	}
	return got, err
}

func (s counting) ClearAttempts(ctx context.Context, consumer, messageID string) error {
	if s.clear != nil {
		return s.clear()
	}
	return s.right.ClearAttempts(ctx, consumer, messageID)
}

const (
	counted = "failures are counted until they are cleared"
	crashes = "a start without an end is a crash"
	atOnce  = "failures and starts at the same moment"
)

var countTwins = []twin{
	{"counts each failure as the first", []string{counted, atOnce},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return counting{right: r, fail: func(got yekbar.Attempts) yekbar.Attempts { got.Failed = 1; return got }}
		}},
	{"never clears attempts", []string{counted, crashes},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return counting{right: r, clear: func() error { return nil }}
		}},
	{"takes what runs elsewhere for a crash", []string{crashes, atOnce},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return counting{right: r, start: func(got yekbar.Attempts) yekbar.Attempts {
				if got.Running {
					got.Running = false
					got.Crashed++
				}
				return got
			}}
		}},
	{"counts no crashes", []string{crashes, atOnce},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return counting{right: r, start: func(got yekbar.Attempts) yekbar.Attempts { got.Crashed = 0; return got }}
		}},
	{"keeps the attempts of what it holds", []string{"Hold clears attempts"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			ok, err := r.Hold(ctx, &h)
			if err == nil {
				_, err = r.AddFailure(ctx, h.Consumer, h.MessageID, "one")
			}
			return ok, err
		})},
	{"declares what it can't do", []string{"abilities are as declared"},
		func(r *right, _ *instance) yekbar.Store[tx] { return struct{ yekbar.Store[tx] }{r} }},
	{"does what it doesn't declare", []string{"abilities are as declared"},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return declaring{r, func(f *yekbar.Features) { f.Positions, f.Registry = false, false }}
		}},
}
