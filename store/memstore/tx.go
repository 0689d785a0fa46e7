package memstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/yekbar-go/yekbar"
)

// ErrExists is the unique violation of Insert.
var ErrExists = errors.New("memstore: the key exists")

// A Tx is a transaction over a Store's keys and values. A statement that fails
// spoils it: only a savepoint that was set before forgives. It is used by one
// goroutine at a time.
type Tx struct {
	s       *Store
	guarded bool // the store ends it, and nobody else
	ended   bool
	broke   error          // what the handler did to end it
	reads   map[string]int // the version of each key when it was first read
	saved   []savepoint
	image
}

type savepoint struct {
	name  string
	image image
}

// An image is what a savepoint brings back.
type image struct {
	writes map[string][]byte
	claims map[claimKey]claim
	failed error // the statement that spoiled the transaction
}

func (i image) clone() image {
	return image{maps.Clone(i.writes), maps.Clone(i.claims), i.failed}
}

// Get reads a key. In a transaction that has ended, or is spoilt, nothing is
// found.
func (t *Tx) Get(key string) (value []byte, ok bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.usable() != nil {
		return nil, false
	}
	v, ok := t.read(key)
	return slices.Clone(v), ok
}

// Put writes a key.
func (t *Tx) Put(key string, value []byte) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	t.writes[key] = slices.Clone(value)
	return nil
}

// Insert writes a key that is not there; when it is, that is ErrExists.
func (t *Tx) Insert(key string, value []byte) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	if _, ok := t.read(key); ok {
		return t.fail(fmt.Errorf("%w: %q", ErrExists, key))
	}
	t.writes[key] = slices.Clone(value)
	return nil
}

// Savepoint sets a savepoint. Names may repeat; the last of a name counts.
func (t *Tx) Savepoint(name string) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	t.saved = append(t.saved, savepoint{name, t.image.clone()})
	return nil
}

// RollbackTo undoes what was written since the savepoint and forgives the
// statements that failed since. The savepoint stays.
func (t *Tx) RollbackTo(name string) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.ended {
		return errEnded
	}
	i, err := t.find(name)
	if err != nil {
		return err
	}
	then := t.saved[i].image.clone()
	for k := range t.claims {
		if _, ok := then.claims[k]; !ok {
			t.land(k)
		}
	}
	t.image, t.saved = then, t.saved[:i+1]
	return nil
}

// Release forgets a savepoint, and forgives nothing.
func (t *Tx) Release(name string) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	i, err := t.find(name)
	if err != nil {
		return err
	}
	t.saved = t.saved[:i]
	return nil
}

// Commit commits a transaction of Begin. In a handler it is refused, and the
// attempt fails.
func (t *Tx) Commit(ctx context.Context) error {
	if err := t.refuse("Commit"); err != nil {
		return err
	}
	return t.commit(ctx)
}

// Rollback rolls back a transaction of Begin. In a handler it is refused, and
// the attempt fails.
func (t *Tx) Rollback() error {
	if err := t.refuse("Rollback"); err != nil {
		return err
	}
	t.rollback()
	return nil
}

var errEnded = fmt.Errorf("memstore: %w", yekbar.ErrTxDone)

func (t *Tx) refuse(what string) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.ended {
		return errEnded
	}
	if t.guarded {
		t.broke = &yekbar.BoundaryError{What: what}
		return t.broke
	}
	return nil
}

// usable, and what follows, is called with the lock held.
func (t *Tx) usable() error {
	switch {
	case t.ended:
		return errEnded
	case t.broke != nil:
		return t.broke
	case t.failed != nil:
		return fmt.Errorf("memstore: a statement failed before, and no savepoint forgave it: %w", t.failed)
	}
	return nil
}

func (t *Tx) fail(err error) error {
	t.failed = err
	return err
}

func (t *Tx) find(name string) (int, error) {
	for i, s := range slices.Backward(t.saved) {
		if s.name == name {
			return i, nil
		}
	}
	return 0, t.fail(fmt.Errorf("memstore: there is no savepoint %q", name))
}

func (t *Tx) read(key string) ([]byte, bool) {
	if v, ok := t.writes[key]; ok {
		return v, true
	}
	v, ok := t.s.data[key]
	if _, again := t.reads[key]; !again {
		t.reads[key] = v.version
	}
	return v.bytes, ok
}

// land lets those who wait for a claim look again.
func (t *Tx) land(k claimKey) {
	close(t.s.flying[k].landed)
	delete(t.s.flying, k)
}

func (t *Tx) end() {
	t.ended = true
	for k := range t.claims {
		t.land(k)
	}
}

func (t *Tx) rollback() {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if !t.ended {
		t.end()
	}
}

func (t *Tx) commit(ctx context.Context) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.ended {
		return errEnded
	}
	defer t.end()
	switch {
	case t.broke != nil:
		return t.broke
	case ctx.Err() != nil:
		return fmt.Errorf("memstore: the context ended before COMMIT: %w", ctx.Err())
	case t.failed != nil:
		return fmt.Errorf("%w: a statement failed, and no savepoint forgave it: %w", yekbar.ErrRolledBack, t.failed)
	}
	for key, version := range t.reads {
		if t.s.data[key].version != version {
			return fmt.Errorf("memstore: key %q changed since it was read: %w", key, yekbar.ErrTransient)
		}
	}
	for key, v := range t.writes {
		t.s.data[key] = value{v, t.s.data[key].version + 1}
	}
	for k, c := range t.claims {
		t.s.claims[k] = c
		delete(t.s.held, k) // it was parked
	}
	return nil
}

// explain adds to a handler's error what it may have hidden.
func (t *Tx) explain(ctx context.Context, err error) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, more := range []error{t.broke, t.failed, ctx.Err()} {
		if more != nil && !errors.Is(err, more) {
			err = fmt.Errorf("%w (%w)", err, more)
		}
	}
	return err
}
