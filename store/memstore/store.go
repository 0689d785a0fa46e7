package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

// A Store keeps everything in memory. It is safe for concurrent use.
type Store struct {
	mu     sync.Mutex // guards all below, and every Tx
	data   map[string]value
	claims map[claimKey]claim
	flying map[claimKey]*flight // claims of open transactions
	held   map[claimKey]yekbar.HeldMessage

	attempts  map[claimKey]tried
	consumers map[string]registered
	positions map[string]map[string]string // by consumer and partition
	audit     []yekbar.AuditEntry
	position  int64         // the last one given to a held message
	ahead     time.Duration // of the machine's clock

	waits  int           // for flights to land
	waited chan struct{} // closed and made anew when waits changes
}

type value struct {
	bytes   []byte
	version int // counts the key's changes
}

type claimKey struct{ consumer, messageID string }

type claim struct {
	state       yekbar.State
	fingerprint []byte
	result      []byte
	at          time.Time
}

// A flight is a claim that is written and not yet committed.
type flight struct {
	tx     *Tx
	landed chan struct{} // closed when it is committed or rolled back
}

// New returns an empty store.
func New() *Store {
	return &Store{
		data:   map[string]value{},
		claims: map[claimKey]claim{},
		flying: map[claimKey]*flight{},
		held:   map[claimKey]yekbar.HeldMessage{},

		attempts:  map[claimKey]tried{},
		consumers: map[string]registered{},
		positions: map[string]map[string]string{},

		waited: make(chan struct{}),
	}
}

var (
	_ yekbar.Store[*Tx]     = (*Store)(nil)
	_ yekbar.HoldingStore   = (*Store)(nil)
	_ yekbar.AttemptStore   = (*Store)(nil)
	_ yekbar.OperatorStore  = (*Store)(nil)
	_ yekbar.HeldCounter    = (*Store)(nil)
	_ yekbar.RetentionStore = (*Store)(nil)
	_ yekbar.RegistryStore  = (*Store)(nil)
	_ yekbar.PositionStore  = (*Store)(nil)
)

// Features declares what the store can do.
func (s *Store) Features() yekbar.Features {
	return yekbar.Features{
		Batch: true, Savepoints: true, LockWait: true,
		Attempts: true, Holding: true, Operator: true, Retention: true, Registry: true, Positions: true,
	}
}

// Attempt implements yekbar.Store.
func (s *Store) Attempt(ctx context.Context, cs []yekbar.Claim, fn func(context.Context, *Tx, []int) error) ([]yekbar.Claimed, error) {
	t, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	t.guarded = true
	defer t.rollback() // also when fn panics; nothing after a commit

	claimed := make([]yekbar.Claimed, len(cs))
	var fresh []int
	for _, i := range sorted(cs) {
		if claimed[i], err = t.claim(ctx, cs[i]); err != nil {
			return nil, err
		}
		if claimed[i].Fresh {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) == 0 {
		return claimed, nil
	}
	slices.Sort(fresh)
	if err := fn(ctx, t, fresh); err != nil {
		return nil, t.explain(ctx, err)
	}
	if err := t.commit(ctx); err != nil {
		return nil, err
	}
	return claimed, nil
}

// sorted returns the indices of cs in the order of their keys, which is the
// same for all: no two attempts wait for each other.
func sorted(cs []yekbar.Claim) []int {
	order := make([]int, len(cs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(cs[i].Consumer, cs[j].Consumer), cmp.Compare(cs[i].MessageID, cs[j].MessageID))
	})
	return order
}

// Begin begins a transaction of the caller's own, who ends it with Commit or
// Rollback.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memstore: begin: %w", err)
	}
	return &Tx{s: s, reads: map[string]int{}, image: image{writes: map[string][]byte{}, claims: map[claimKey]claim{}}}, nil
}

// Get returns the committed value of a key.
func (s *Store) Get(key string) (value []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.data[key]
	return slices.Clone(v.bytes), ok
}

// Claims counts the committed claims of all consumers.
func (s *Store) Claims() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims)
}
