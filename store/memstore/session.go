package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

// Bind implements yekbar.Store.
func (s *Store) Bind(tx *Tx) (yekbar.Session, error) {
	if tx == nil || tx.s != s {
		return nil, errors.New("memstore: Bind: the transaction is not one of this store")
	}
	return session{tx}, nil
}

type session struct{ t *Tx }

func (s session) Claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	return s.t.claim(ctx, c)
}

func (s session) SetResult(_ context.Context, c yekbar.Claim, result []byte) error {
	t := s.t
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	k := claimKey{c.Consumer, c.MessageID}
	own, ok := t.claims[k]
	if !ok {
		return t.fail(fmt.Errorf("memstore: a result for message %q of consumer %q, which this transaction did not claim", c.MessageID, c.Consumer))
	}
	own.result = slices.Clone(result)
	t.claims[k] = own
	return nil
}

// claim writes c, or says what stands there. Who finds it in flight waits, and
// looks again when it has landed.
func (t *Tx) claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	timer := time.NewTimer(c.Wait)
	defer timer.Stop()
	for {
		got, landed, err := t.tryClaim(c)
		if landed == nil {
			return got, err
		}
		if c.Wait <= 0 {
			return yekbar.Claimed{}, t.claimFailed(inFlight(c))
		}
		switch ok, err := t.s.await(ctx, landed, timer.C); {
		case err != nil:
			return yekbar.Claimed{}, t.claimFailed(fmt.Errorf("memstore: claim of message %q of consumer %q: %w", c.MessageID, c.Consumer, err))
		case !ok:
			return yekbar.Claimed{}, t.claimFailed(inFlight(c))
		}
	}
}

func inFlight(c yekbar.Claim) error {
	return fmt.Errorf("memstore: message %q of consumer %q, waited %v: %w", c.MessageID, c.Consumer, c.Wait, yekbar.ErrInFlight)
}

func (t *Tx) claimFailed(err error) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.fail(err)
}

// tryClaim returns a channel to wait for when another transaction has claimed
// c and has not ended.
func (t *Tx) tryClaim(c yekbar.Claim) (_ yekbar.Claimed, landed <-chan struct{}, _ error) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.usable(); err != nil {
		return yekbar.Claimed{}, nil, err
	}
	k := claimKey{c.Consumer, c.MessageID}
	if own, ok := t.claims[k]; ok {
		return own.found(), nil, nil
	}
	if f := t.s.flying[k]; f != nil {
		return yekbar.Claimed{}, f.landed, nil
	}
	old, ok := t.s.claims[k]
	switch {
	case !ok && c.FromParked:
		return yekbar.Claimed{}, nil, nil
	case ok && !(c.FromParked && old.state == yekbar.StateParked):
		return old.found(), nil, nil
	}
	now := claim{state: yekbar.StateApplied, fingerprint: slices.Clone(c.Fingerprint), at: t.s.now()}
	if c.FromParked {
		now.fingerprint = old.fingerprint // of the first delivery
	}
	t.claims[k] = now
	t.s.flying[k] = &flight{t, make(chan struct{})}
	return yekbar.Claimed{Fresh: true, At: now.at}, nil, nil
}

func (c claim) found() yekbar.Claimed {
	return yekbar.Claimed{State: c.state, Fingerprint: slices.Clone(c.fingerprint), Result: slices.Clone(c.result), At: c.at}
}
