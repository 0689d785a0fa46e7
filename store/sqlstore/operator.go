package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// act makes a change by hand, and its entry in the audit log, in one
// transaction.
func (s *Store) act(ctx context.Context, e yekbar.AuditEntry, change func(*txn, *yekbar.AuditEntry) error) error {
	if err := e.By.Validate(); err != nil {
		return err
	}
	err := s.own(ctx, func(t *txn) (commit bool, err error) {
		if err := change(t, &e); err != nil {
			return false, err
		}
		return true, t.exec("INSERT INTO "+s.table(schema.AuditLog)+" (actor, reason, action, consumer_name, message_id, detail) VALUES ("+marks(6)+")",
			schema.EncodeText(e.By.Name), schema.EncodeText(e.By.Reason), e.Action, e.Consumer, e.MessageID, bytesOrNull(e.Detail))
	})
	switch {
	case err == nil:
		return nil
	case e.MessageID == "":
		return fmt.Errorf("sqlstore: %s: consumer %q: %w", e.Action, e.Consumer, err)
	}
	return fmt.Errorf("sqlstore: %s: message %q of consumer %q: %w", e.Action, e.MessageID, e.Consumer, err)
}

// heldNow is what stands in the row of a held message, which is locked.
type heldNow struct {
	state   yekbar.State
	payload []byte
}

// actOnHeld is act for a held message that is in one of the states. It waits
// for an attempt in flight.
func (s *Store) actOnHeld(ctx context.Context, e yekbar.AuditEntry, states []yekbar.State, change func(*txn, *yekbar.AuditEntry, heldNow) error) error {
	return s.act(ctx, e, func(t *txn, e *yekbar.AuditEntry) error {
		if _, err := t.lockClaim(e.Consumer, e.MessageID); err != nil {
			return err
		}
		var h heldNow
		_, err := t.one([]any{&h.state, &h.payload}, "SELECT state, "+s.dialect.bytes("payload")+" FROM "+s.sql.held+ofMessage+s.dialect.forUpdate(), e.Consumer, e.MessageID)
		if err != nil {
			return err
		}
		for _, state := range states {
			if h.state == state {
				return change(t, e, h)
			}
		}
		return yekbar.ErrNotHeld
	})
}

func (t *txn) changeHeld(e *yekbar.AuditEntry, set string, args ...any) error {
	return t.exec("UPDATE "+t.store.sql.held+" SET due_at = "+t.store.dialect.now()+", owner = NULL"+set+ofMessage, append(args, e.Consumer, e.MessageID)...)
}

func (t *txn) setState(e *yekbar.AuditEntry, state yekbar.State) error {
	return t.exec("UPDATE "+t.store.sql.claims+" SET state = ?"+ofMessage, string(state), e.Consumer, e.MessageID)
}

// Record implements yekbar.OperatorStore.
func (s *Store) Record(ctx context.Context, e yekbar.AuditEntry) error {
	return s.act(ctx, e, func(*txn, *yekbar.AuditEntry) error { return nil })
}

// Replay implements yekbar.OperatorStore.
func (s *Store) Replay(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
	e := yekbar.AuditEntry{Action: "replay", Consumer: consumer, MessageID: messageID, By: by}
	return s.actOnHeld(ctx, e, []yekbar.State{yekbar.StateDead}, func(t *txn, e *yekbar.AuditEntry, h heldNow) error {
		set, args := ", state = ?, reason = ?, attempts = 0, errors = ?", []any{string(yekbar.StateParked), yekbar.ReasonReplayed, schema.EncodeErrors(nil)}
		if payload != nil {
			e.Detail = h.payload
			set, args = set+", payload = ?", append(args, payload)
		}
		return errors.Join(t.changeHeld(e, set, args...), t.setState(e, yekbar.StateParked))
	})
}

// MakeDue implements yekbar.OperatorStore.
func (s *Store) MakeDue(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	e := yekbar.AuditEntry{Action: "due", Consumer: consumer, MessageID: messageID, By: by}
	return s.actOnHeld(ctx, e, []yekbar.State{yekbar.StateParked}, func(t *txn, e *yekbar.AuditEntry, _ heldNow) error {
		return t.changeHeld(e, "")
	})
}

// Discard implements yekbar.OperatorStore.
func (s *Store) Discard(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	e := yekbar.AuditEntry{Action: "discard", Consumer: consumer, MessageID: messageID, By: by}
	return s.actOnHeld(ctx, e, []yekbar.State{yekbar.StateParked, yekbar.StateDead}, func(t *txn, e *yekbar.AuditEntry, _ heldNow) error {
		return errors.Join(t.exec("DELETE FROM "+s.sql.held+ofMessage, consumer, messageID), t.setState(e, yekbar.StateDead))
	})
}

// Forget implements yekbar.OperatorStore.
func (s *Store) Forget(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	e := yekbar.AuditEntry{Action: "forget", Consumer: consumer, MessageID: messageID, By: by}
	return s.act(ctx, e, func(t *txn, _ *yekbar.AuditEntry) error {
		state, err := t.lockClaim(consumer, messageID)
		if err == nil && state == "" {
			err = yekbar.ErrNoClaim
		}
		if err != nil {
			return err
		}
		return t.deleteMessages(consumer, []string{messageID}, messageTables...)
	})
}

// Claim implements yekbar.OperatorStore.
func (s *Store) Claim(ctx context.Context, consumer, messageID string) (c yekbar.Claimed, err error) {
	err = checkClaims([]yekbar.Claim{{Consumer: consumer, MessageID: messageID}})
	found := false
	if err == nil {
		err = s.read(ctx, func(rows *sql.Rows) (err error) {
			found = true
			c, err = scanOld(rows)
			return err
		}, s.sql.lookup, consumer, messageID)
	}
	if err == nil && !found {
		err = yekbar.ErrNoClaim
	}
	if err != nil {
		return yekbar.Claimed{}, fmt.Errorf("sqlstore: claim of message %q of consumer %q: %w", messageID, consumer, err)
	}
	return c, nil
}

// SetPaused implements yekbar.OperatorStore.
func (s *Store) SetPaused(ctx context.Context, consumer string, paused bool, by yekbar.Actor) error {
	action := "resume"
	if paused {
		action = "pause"
	}
	return s.act(ctx, yekbar.AuditEntry{Action: action, Consumer: consumer, By: by}, func(t *txn, _ *yekbar.AuditEntry) error {
		c, err := t.lockConsumer(consumer)
		if err != nil {
			return err
		}
		if paused {
			return t.pause(consumer, by, c.now)
		}
		return t.setConsumer(consumer, "paused = ?, paused_by = NULL, paused_reason = NULL, paused_at = NULL", false)
	})
}

// Paused implements yekbar.OperatorStore.
func (s *Store) Paused(ctx context.Context, consumer string) (by yekbar.Actor, paused bool, err error) {
	err = s.read(ctx, func(rows *sql.Rows) error {
		return rows.Scan(&paused, encoded{&by.Name}, encoded{&by.Reason})
	}, "SELECT paused, paused_by, paused_reason FROM "+s.table(schema.Consumers)+ofConsumer, consumer)
	if err != nil {
		return yekbar.Actor{}, false, fmt.Errorf("sqlstore: whether consumer %q is paused: %w", consumer, err)
	}
	return by, paused, nil
}
