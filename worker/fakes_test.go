package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/worker"
)

// processor is a consumer whose every answer the test decides.
type processor struct {
	process func(ctx context.Context, m *yekbar.Message) error
	store   any
	scoped  bool
	timeout time.Duration

	mu    sync.Mutex
	calls map[string]int
}

func (p *processor) Name() string           { return "inventory" }
func (p *processor) Unwrap() any            { return p.store }
func (p *processor) Scoped() bool           { return p.scoped }
func (p *processor) Timeout() time.Duration { return p.timeout }

func (p *processor) Retention() time.Duration { return yekbar.KeepForever }

func (p *processor) Identify(m *yekbar.Message) (yekbar.Claim, error) {
	id, err := m.Identity()
	return yekbar.Claim{Consumer: p.Name(), MessageID: id, Fingerprint: m.Fingerprint()}, err
}

func (p *processor) Process(ctx context.Context, m *yekbar.Message) (yekbar.Result, error) {
	p.mu.Lock()
	if p.calls == nil {
		p.calls = map[string]int{}
	}
	p.calls[m.ID]++
	p.mu.Unlock()
	if _, err := m.Identity(); err != nil {
		return yekbar.Result{}, err
	}
	if p.process != nil {
		if err := p.process(ctx, m); err != nil {
			return yekbar.Result{}, err
		}
	}
	return yekbar.Result{Outcome: yekbar.Applied}, nil
}

func (p *processor) ProcessBatch(ctx context.Context, ms []*yekbar.Message) []yekbar.BatchResult {
	panic("not called")
}

func (p *processor) count(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[id]
}

// ProcessHeld is Process, and what it applies leaves the store.
func (p *processor) ProcessHeld(ctx context.Context, h *yekbar.HeldMessage) (yekbar.Result, error) {
	r, err := p.Process(ctx, &h.Message)
	if err != nil {
		return r, err
	}
	claim := yekbar.Claim{Consumer: h.Consumer, MessageID: h.MessageID, FromParked: true}
	_, err = p.memstore().Attempt(ctx, []yekbar.Claim{claim}, func(context.Context, *memstore.Tx, []int) error { return nil })
	return r, err
}

func (p *processor) memstore() *memstore.Store {
	s, _ := yekbar.Find[*memstore.Store](p.store)
	return s
}

// heldBy lists what a store holds, oldest first.
func heldBy(t *testing.T, s yekbar.OperatorStore) (all []*yekbar.HeldMessage) {
	t.Helper()
	for h, err := range s.Held(t.Context(), yekbar.HeldFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	slices.Reverse(all)
	return all
}

// unholding is a store whose Hold fails when it is told to.
type unholding struct {
	*memstore.Store
	mu  sync.Mutex
	err error
}

func (u *unholding) Unwrap() any { return u.Store }

func (u *unholding) Hold(ctx context.Context, h *yekbar.HeldMessage) (bool, error) {
	u.mu.Lock()
	err := u.err
	u.mu.Unlock()
	if err != nil {
		return false, err
	}
	return u.Store.Hold(ctx, h)
}

func (u *unholding) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
}

// pass lets the bubble's clock run for d.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock is testing/synctest's
}

// await does so, and lets all goroutines come to rest.
func await(d time.Duration) {
	pass(d)
	synctest.Wait()
}

const topic = "orders"

func publish(t *testing.T, b *membroker.Broker, ms ...*yekbar.Message) {
	t.Helper()
	for _, m := range ms {
		if m.Topic == "" {
			m.Topic = topic
		}
	}
	if err := b.Publisher().Publish(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
}

func numbered(n int) []*yekbar.Message {
	ms := make([]*yekbar.Message, n)
	for i := range ms {
		ms[i] = &yekbar.Message{ID: fmt.Sprintf("m-%d", i+1)}
	}
	return ms
}

// running starts a worker; stop ends it and returns what Run did.
func running(t *testing.T, src broker.Source, p worker.Processor, c worker.Config) (w *worker.Worker, stop func() error) {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w, err := worker.New(src, p, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return w, func() error {
		cancel()
		return <-ended
	}
}
