package sqlstore

import (
	"context"
	"fmt"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// Hold implements yekbar.HoldingStore.
func (s *Store) Hold(ctx context.Context, h *yekbar.HeldMessage) (held bool, err error) {
	if h.State != yekbar.StateParked && h.State != yekbar.StateDead {
		return false, fmt.Errorf("sqlstore: Hold: the state is %q; use %q or %q", h.State, yekbar.StateParked, yekbar.StateDead)
	}
	err = s.own(ctx, func(t *txn) (commit bool, err error) {
		held, err = t.hold(h)
		return held, err
	})
	if err != nil {
		return false, fmt.Errorf("sqlstore: message %q of consumer %q is not held: %w", h.MessageID, h.Consumer, err)
	}
	return held, nil
}

func (t *txn) hold(h *yekbar.HeldMessage) (held bool, err error) {
	claim := yekbar.Claim{Consumer: h.Consumer, MessageID: h.MessageID, Fingerprint: h.Fingerprint, Wait: defaultWait}
	claimed, err := t.claim([]yekbar.Claim{claim}, h.State)
	if err != nil {
		return false, err
	}
	var position *int64
	if !claimed[0].Fresh {
		switch state, err := t.lockClaim(h.Consumer, h.MessageID); {
		case err != nil:
			return false, err
		case state == "":
			return false, errGone
		case state == yekbar.StateDead:
			return true, nil
		case state == yekbar.StateApplied && h.Reason != yekbar.ReasonBoundary:
			return false, nil
		}
		if position, err = t.replaceHeld(h); err != nil {
			return false, err
		}
	}
	if err := t.exec("DELETE FROM "+t.store.table(schema.Attempts)+ofMessage, h.Consumer, h.MessageID); err != nil {
		return false, err
	}
	return true, t.writeHeld(h, position)
}

// replaceHeld makes room for h where a claim stands already, and returns the
// position of what was held.
func (t *txn) replaceHeld(h *yekbar.HeldMessage) (position *int64, err error) {
	err = t.exec("UPDATE "+t.store.sql.claims+" SET state = ?, fingerprint = ?, processed_at = "+t.store.dialect.now()+ofMessage,
		string(h.State), bytesOrNull(h.Fingerprint), h.Consumer, h.MessageID)
	if err != nil {
		return nil, err
	}
	if _, err := t.one([]any{&position}, "SELECT position FROM "+t.store.sql.held+ofMessage, h.Consumer, h.MessageID); err != nil {
		return nil, err
	}
	for _, table := range []string{t.store.sql.held, t.store.sql.results} {
		if err := t.exec("DELETE FROM "+table+ofMessage, h.Consumer, h.MessageID); err != nil {
			return nil, err
		}
	}
	return position, nil
}
