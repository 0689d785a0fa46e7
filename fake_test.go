package yekbar_test

import (
	"context"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

// nothing is a store for tests that never get to it.
type nothing struct{}

func (nothing) Attempt(context.Context, []yekbar.Claim, func(context.Context, struct{}, []int) error) ([]yekbar.Claimed, error) {
	panic("not for use")
}
func (nothing) Bind(struct{}) (yekbar.Session, error) { panic("not for use") }
func (nothing) Features() yekbar.Features             { return yekbar.Features{} }

// A fake is a store that fails where the test says; memstore and the real
// databases have their own tests. Its transactions are lists of what to do at
// COMMIT.
type fake struct {
	mu      sync.Mutex
	rows    map[string]yekbar.Claimed
	effects map[string]int
	held    []*yekbar.HeldMessage
	calls   [][]string // message IDs of each Attempt
	checks  int

	// each may be nil
	atClaim  func(call int, claims []yekbar.Claim) error
	atCommit func(call int, claims []yekbar.Claim) (err error, committed bool)
	check    func(call int) error
	validate error
}

type fakeTx struct {
	of     *fake
	ctx    context.Context
	commit []func()
	writes []string
}

// Add adds one to an effect when the transaction commits.
func (tx *fakeTx) Add(effect string) {
	tx.writes = append(tx.writes, effect)
	tx.commit = append(tx.commit, func() { tx.of.effects[effect]++ })
}

func newFake() *fake {
	return &fake{rows: map[string]yekbar.Claimed{}, effects: map[string]int{}}
}

func (f *fake) Attempt(ctx context.Context, claims []yekbar.Claim, fn func(context.Context, *fakeTx, []int) error) ([]yekbar.Claimed, error) {
	f.mu.Lock()
	call := len(f.calls)
	ids := make([]string, len(claims))
	for i, c := range claims {
		ids[i] = c.MessageID
	}
	f.calls = append(f.calls, ids)
	if err := ctx.Err(); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	if f.atClaim != nil {
		if err := f.atClaim(call, claims); err != nil {
			f.mu.Unlock()
			return nil, err
		}
	}
	answer := make([]yekbar.Claimed, len(claims))
	var fresh []int
	for i, c := range claims {
		if row, ok := f.rows[c.Consumer+c.MessageID]; ok {
			answer[i] = row
		} else {
			fresh = append(fresh, i)
			answer[i] = yekbar.Claimed{Fresh: true, At: time.Unix(1, 0)}
		}
	}
	f.mu.Unlock()
	tx := &fakeTx{of: f, ctx: ctx}
	if len(fresh) > 0 {
		if err := fn(ctx, tx, fresh); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	committed := true
	if f.atCommit != nil {
		err, committed = f.atCommit(call, claims)
	}
	if committed {
		for _, i := range fresh {
			c := claims[i]
			row := f.rows[c.Consumer+c.MessageID]
			row.State, row.Fingerprint, row.At = yekbar.StateApplied, c.Fingerprint, answer[i].At
			f.rows[c.Consumer+c.MessageID] = row
		}
		for _, do := range tx.commit {
			do()
		}
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (f *fake) Bind(tx *fakeTx) (yekbar.Session, error) { return fakeSession{tx}, nil }

func (f *fake) Features() yekbar.Features { return yekbar.Features{Batch: true, Holding: true} }

func (f *fake) Validate() error { return f.validate }

func (f *fake) Check(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checks++
	if f.check == nil {
		return nil
	}
	return f.check(f.checks)
}

func (f *fake) Hold(_ context.Context, h *yekbar.HeldMessage) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, h)
	row := f.rows[h.Consumer+h.MessageID]
	row.State, row.Fingerprint = h.State, h.Fingerprint
	f.rows[h.Consumer+h.MessageID] = row
	return true, nil
}

func (*fake) TakeDue(context.Context, string, int, time.Duration) ([]*yekbar.HeldMessage, error) {
	panic("not for use")
}

func (*fake) HeldKeys(context.Context, string) ([]string, error) { panic("not for use") }

type fakeSession struct{ tx *fakeTx }

func (s fakeSession) Claim(_ context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	s.tx.of.mu.Lock()
	defer s.tx.of.mu.Unlock()
	if row, ok := s.tx.of.rows[c.Consumer+c.MessageID]; ok {
		return row, nil
	}
	s.tx.commit = append(s.tx.commit, func() {
		s.tx.of.rows[c.Consumer+c.MessageID] = yekbar.Claimed{State: yekbar.StateApplied, Fingerprint: c.Fingerprint}
	})
	return yekbar.Claimed{Fresh: true}, nil
}

func (s fakeSession) SetResult(_ context.Context, c yekbar.Claim, result []byte) error {
	s.tx.commit = append(s.tx.commit, func() {
		row := s.tx.of.rows[c.Consumer+c.MessageID]
		row.Result = result
		s.tx.of.rows[c.Consumer+c.MessageID] = row
	})
	return nil
}
