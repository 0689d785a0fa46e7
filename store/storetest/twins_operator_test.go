package storetest_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

// operating is the right store under another hand; what is nil is right.
type operating struct {
	*right
	replay    func(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error
	discard   func(ctx context.Context, consumer, messageID string, by yekbar.Actor) error
	makeDue   func() error
	forget    func() error
	consumers func(all []yekbar.ConsumerStatus)
	paused    func(by yekbar.Actor) yekbar.Actor
	audit     func(f *yekbar.AuditFilter, e *yekbar.AuditEntry)
	by        func(by yekbar.Actor) yekbar.Actor // SetPaused's
	record    func(e *yekbar.AuditEntry)
}

func (s operating) Record(ctx context.Context, e yekbar.AuditEntry) error {
	if s.record != nil {
		s.record(&e)
	}
	return s.right.Record(ctx, e)
}

func (s operating) Replay(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
	if s.replay != nil {
		return s.replay(ctx, consumer, messageID, payload, by)
	}
	return s.right.Replay(ctx, consumer, messageID, payload, by)
}

func (s operating) Discard(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	if s.discard != nil {
		return s.discard(ctx, consumer, messageID, by)
	}
	return s.right.Discard(ctx, consumer, messageID, by)
}

func (s operating) MakeDue(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	if s.makeDue != nil {
		return s.makeDue()
	}
	return s.right.MakeDue(ctx, consumer, messageID, by)
}

func (s operating) Forget(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	if s.forget != nil {
		return s.forget()
	}
	return s.right.Forget(ctx, consumer, messageID, by)
}

func (s operating) SetPaused(ctx context.Context, consumer string, paused bool, by yekbar.Actor) error {
	if s.by != nil {
		by = s.by(by)
	}
	return s.right.SetPaused(ctx, consumer, paused, by)
}

func (s operating) Paused(ctx context.Context, consumer string) (yekbar.Actor, bool, error) {
	by, paused, err := s.right.Paused(ctx, consumer)
	if s.paused != nil {
		by = s.paused(by)
	}
	return by, paused, err
}

func (s operating) Consumers(ctx context.Context) ([]yekbar.ConsumerStatus, error) {
	all, err := s.right.Consumers(ctx)
	if s.consumers != nil {
		s.consumers(all)
	}
	return all, err
}

func (s operating) Audit(ctx context.Context, f yekbar.AuditFilter) iter.Seq2[*yekbar.AuditEntry, error] {
	if s.audit == nil {
		return s.right.Audit(ctx, f)
	}
	s.audit(&f, &yekbar.AuditEntry{})
	return func(yield func(*yekbar.AuditEntry, error) bool) {
		for a, err := range s.right.Audit(ctx, f) {
			if err == nil {
				s.audit(&f, a)
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// operates makes a twist of who operates.
func operates(wrong func(r *right, s *operating)) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] {
		s := operating{right: r}
		wrong(r, &s)
		return s
	}
}

// sessions binds transactions.
type sessions func(t tx) (yekbar.Session, error)

func (s sessions) Bind(t tx) (yekbar.Session, error) { return s(t) }

// remembering keeps results beside the store.
type remembering struct {
	yekbar.Session
	results *sync.Map
}

func (s remembering) SetResult(ctx context.Context, c yekbar.Claim, result []byte) error {
	s.results.Store(c.MessageID, result)
	return s.Session.SetResult(ctx, c, result)
}

const (
	replayed  = "a dead message is replayed"
	corrected = "a corrected payload is replayed, and the old one kept"
	discarded = "a held message is discarded"
)

var operatorTwins = []twin{
	{"forgets what it replays", []string{replayed, "schedule: dead, sent again, replayed"},
		operates(func(r *right, s *operating) {
			s.replay = func(ctx context.Context, consumer, messageID string, _ []byte, by yekbar.Actor) error {
				return r.Forget(ctx, consumer, messageID, by)
			}
		})},
	{"replays what is not dead", []string{replayed},
		operates(func(r *right, s *operating) {
			s.replay = func(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
				err := r.Replay(ctx, consumer, messageID, payload, by)
				if errors.Is(err, yekbar.ErrNotHeld) {
					return nil
				}
				return err
			}
		})},
	{"replays the old payload", []string{corrected},
		operates(func(r *right, s *operating) {
			s.replay = func(ctx context.Context, consumer, messageID string, _ []byte, by yekbar.Actor) error {
				return r.Replay(ctx, consumer, messageID, nil, by)
			}
		})},
	{"takes an empty corrected payload for none", []string{corrected},
		operates(func(r *right, s *operating) {
			s.replay = func(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
				if len(payload) == 0 {
					payload = nil
				}
				return r.Replay(ctx, consumer, messageID, payload, by)
			}
		})},
	{"loses the payload that was replaced", []string{corrected},
		operates(func(_ *right, s *operating) {
			s.audit = func(_ *yekbar.AuditFilter, a *yekbar.AuditEntry) { a.Detail = nil }
		})},
	{"makes nothing due", []string{"a parked message is made due"},
		operates(func(_ *right, s *operating) { s.makeDue = func() error { return nil } })},
	{"forgets what it discards", []string{discarded},
		operates(func(r *right, s *operating) {
			s.discard = func(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
				return r.Forget(ctx, consumer, messageID, by)
			}
		})},
	{"discards nothing", []string{discarded, "schedule: replayed, discarded and handled at the same moment"},
		operates(func(_ *right, s *operating) {
			s.discard = func(context.Context, string, string, yekbar.Actor) error { return nil }
		})},
	{"keeps results without their claims", []string{"a claim is forgotten", pruned},
		func(r *right, _ *instance) yekbar.Store[tx] {
			var results sync.Map
			return struct {
				altered
				sessions
			}{
				altered{r, func(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
					got, err := r.Attempt(ctx, cs, fn)
					for i := range got {
						if old, ok := results.Load(cs[i].MessageID); ok && !got[i].Fresh {
							got[i].Result = old.([]byte)
						}
					}
					return got, err
				}},
				func(t tx) (yekbar.Session, error) {
					s, err := r.Bind(t)
					return remembering{s, &results}, err
				},
			}
		}},
	{"forgets nothing", []string{"a claim is forgotten"},
		operates(func(_ *right, s *operating) { s.forget = func() error { return nil } })},
	{"discards without waiting for an attempt in flight", []string{"changes by hand wait for an attempt in flight"},
		operates(func(r *right, s *operating) {
			s.discard = func(_ context.Context, consumer, messageID string, by yekbar.Actor) error {
				if err := r.Discard(canceled(), consumer, messageID, by); !errors.Is(err, context.Canceled) {
					return err
				}
				return nil
			}
		})},
	{"doesn't say who paused", []string{"consumers are paused"},
		operates(func(_ *right, s *operating) { s.paused = func(yekbar.Actor) yekbar.Actor { return yekbar.Actor{} } })},
	{"counts the dead as parked", []string{"how consumers stand"},
		operates(func(_ *right, s *operating) {
			s.consumers = func(all []yekbar.ConsumerStatus) {
				for i := range all {
					all[i].Parked, all[i].Dead = all[i].Parked+all[i].Dead, 0
				}
			}
		})},
	{"lets nobody pause for no reason", []string{"who did it and why are required"},
		operates(func(_ *right, s *operating) {
			s.by = func(by yekbar.Actor) yekbar.Actor {
				if by.Validate() != nil {
					by = yekbar.Actor{Name: "unknown", Reason: "none given"}
				}
				return by
			}
		})},
	{"begins each page of the audit log anew", []string{"the audit log is listed newest first, in pages"},
		operates(func(_ *right, s *operating) {
			s.audit = func(f *yekbar.AuditFilter, _ *yekbar.AuditEntry) { f.After = 0 }
		})},
	{"keeps who and why as text", []string{"the audit log is listed newest first, in pages", "consumers are paused"},
		operates(func(_ *right, s *operating) {
			s.by = func(by yekbar.Actor) yekbar.Actor {
				by.Reason = strings.ToValidUTF8(by.Reason, "?")
				return by
			}
		})},
	{"records no detail", []string{"the audit log takes what others did"},
		operates(func(_ *right, s *operating) {
			s.record = func(e *yekbar.AuditEntry) { e.Detail = nil }
		})},
	{"logs what was refused", []string{"what failed is not in the audit log"},
		operates(func(r *right, s *operating) {
			s.replay = func(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
				err := r.Replay(ctx, consumer, messageID, payload, by)
				if err != nil {
					err = errors.Join(err, r.SetPaused(ctx, consumer, false, by))
				}
				return err
			}
		})},
}

// pruning is the right store with another watermark, or another Prune.
type pruning struct {
	*right
	window func(w yekbar.Window, retention time.Duration) yekbar.Window
	prune  func(ctx context.Context, consumer string, limit int) (int, bool, error)
}

func (s pruning) Watermark(ctx context.Context, consumer string, retention time.Duration) (yekbar.Window, error) {
	w, err := s.right.Watermark(ctx, consumer, retention)
	if err == nil && s.window != nil {
		w = s.window(w, retention)
	}
	return w, err
}

func (s pruning) Prune(ctx context.Context, consumer string, limit int) (int, bool, error) {
	if s.prune != nil {
		return s.prune(ctx, consumer, limit)
	}
	return s.right.Prune(ctx, consumer, limit)
}

const (
	watermark = "the watermark starts with the consumer and keeps its pace"
	pruned    = "what is past a watermark of age is pruned"
)

func prunesAs(wrong func(r *right, ctx context.Context, consumer string, limit int) (int, bool, error)) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] {
		return pruning{right: r, prune: func(ctx context.Context, consumer string, limit int) (int, bool, error) {
			return wrong(r, ctx, consumer, limit)
		}}
	}
}

var retentionTwins = []twin{
	{"has a watermark before anything can be gone", []string{watermark},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return pruning{right: r, window: func(w yekbar.Window, retention time.Duration) yekbar.Window {
				w.Watermark = w.Now.Add(-retention)
				return w
			}}
		}},
	{"catches up at once with the time that it was down", []string{watermark},
		func(r *right, _ *instance) yekbar.Store[tx] {
			return pruning{right: r, window: func(w yekbar.Window, retention time.Duration) yekbar.Window {
				if to := w.Now.Add(-retention); !w.Watermark.IsZero() && retention > 0 && to.After(w.Watermark) {
					w.Watermark = to
				}
				return w
			}}
		}},
	{"prunes as soon as it has published", []string{pruned},
		prunesAs(func(r *right, ctx context.Context, consumer string, limit int) (int, bool, error) {
			r.mem.Load().Later(time.Minute)
			return r.Prune(ctx, consumer, limit)
		})},
	{"prunes what is held", []string{pruned},
		prunesAs(func(r *right, ctx context.Context, consumer string, limit int) (int, bool, error) {
			n, more, err := r.Prune(ctx, consumer, limit)
			if n > 0 {
				for h, herr := range r.Held(ctx, yekbar.HeldFilter{Consumer: consumer}) {
					if herr == nil {
						err = errors.Join(err, r.Forget(ctx, consumer, h.MessageID, yekbar.Actor{Name: "twin", Reason: "wrong"}))
					}
				}
			}
			return n, more, err
		})},
	{"prunes without a limit", []string{pruned},
		prunesAs(func(r *right, ctx context.Context, consumer string, _ int) (int, bool, error) {
			return r.Prune(ctx, consumer, 1000)
		})},
	{"says that it deleted what it was asked to", []string{pruned, "only one prunes at a time"},
		prunesAs(func(r *right, ctx context.Context, consumer string, limit int) (int, bool, error) {
			n, more, err := r.Prune(ctx, consumer, limit)
			if n > 0 {
				n = limit
			}
			return n, more, err
		})},
}

// registering is the right store with another Register.
type registering struct {
	*right
	register func(ctx context.Context, reg yekbar.Registration) error
}

func (s registering) Register(ctx context.Context, reg yekbar.Registration) error {
	return s.register(ctx, reg)
}

func registers(wrong func(r *right, ctx context.Context, reg yekbar.Registration) error) func(*right, *instance) yekbar.Store[tx] {
	return func(r *right, _ *instance) yekbar.Store[tx] {
		return registering{r, func(ctx context.Context, reg yekbar.Registration) error { return wrong(r, ctx, reg) }}
	}
}

// folding is the right store with positions by partitions in small letters.
type folding struct{ *right }

func (s folding) SavePositions(ctx context.Context, consumer string, positions map[string]string) error {
	folded := map[string]string{}
	for partition, position := range positions {
		folded[strings.ToLower(partition)] = position
	}
	return s.right.SavePositions(ctx, consumer, folded)
}

const renamed = "a renamed consumer takes all along"

var registryTwins = []twin{
	{"lets any subscription in", []string{"another subscription is refused until it is confirmed"},
		registers(func(r *right, ctx context.Context, reg yekbar.Registration) error {
			reg.Subscription = ""
			return r.Register(ctx, reg)
		})},
	{"leaves all with the former name", []string{renamed, "a former name is refused", "of a message that both names claimed the applied claim stays"},
		registers(func(r *right, ctx context.Context, reg yekbar.Registration) error {
			reg.FormerNames = nil
			return r.Register(ctx, reg)
		})},
	{"folds the case of partitions", []string{"positions are kept by partition"},
		func(r *right, _ *instance) yekbar.Store[tx] { return folding{r} }},
}

var scheduleTwins = []twin{
	{"holds the dead anew", []string{"schedule: dead, then a crash before the acknowledgement"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			if c, err := r.Claim(ctx, h.Consumer, h.MessageID); err == nil && c.State == yekbar.StateDead {
				if err := r.Forget(ctx, h.Consumer, h.MessageID, yekbar.Actor{Name: "twin", Reason: "wrong"}); err != nil {
					return false, err
				}
			}
			return r.Hold(ctx, &h)
		})},
	{"holds what another worker applied", []string{"schedule: lease lost, applied elsewhere, then dead", "schedule: dead, sent again, replayed"},
		holds(func(r *right, ctx context.Context, h yekbar.HeldMessage) (bool, error) {
			h.Reason = yekbar.ReasonBoundary
			return r.Hold(ctx, &h)
		})},
	{"applies what was parked without asking its claim", []string{"schedule: a parked copy and a broker's copy at the same moment", "a parked message is taken over by an attempt"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			if !cs[0].FromParked {
				return r.Attempt(ctx, cs, fn)
			}
			return []yekbar.Claimed{{Fresh: true}}, r.apart(ctx, cs, fn)
		})},
}
