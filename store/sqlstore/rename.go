package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// moved is how many messages one transaction gives another consumer's name.
const moved = 500

// moveAll moves what is stored under a former name, in batches. The row of the
// former name is the lock of those who do that at once.
func (s *Store) moveAll(ctx context.Context, former, name string) error {
	for _, move := range []func(*txn, string, string) (int, error){(*txn).moveClaims, (*txn).moveAttempts, (*txn).movePositions} {
		for n := moved; n == moved; {
			err := s.own(ctx, func(t *txn) (commit bool, err error) {
				if _, err := t.lockConsumer(former); err != nil {
					return false, err
				}
				n, err = move(t, former, name)
				return n > 0, err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// moveClaims moves claims, and what hangs on them. Of a message that both names
// claimed, the applied claim stays, else that of the new name.
func (t *txn) moveClaims(former, name string) (int, error) {
	ids, err := t.strings("SELECT message_id FROM "+t.store.sql.claims+ofConsumer+" ORDER BY message_id LIMIT ?", former, moved)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	old, err := t.states(former, ids)
	if err != nil {
		return 0, err
	}
	own, err := t.states(name, ids)
	if err != nil {
		return 0, err
	}
	var gives, wins, rest []string // of former: what goes, what takes the other's place, what moves
	for _, id := range ids {
		state, both := own[id]
		switch {
		case !both:
			rest = append(rest, id)
		case old[id] == yekbar.StateApplied && state != yekbar.StateApplied:
			wins, rest = append(wins, id), append(rest, id)
		default:
			gives = append(gives, id)
		}
	}
	if err := t.deleteMessages(former, gives, messageTables...); err != nil {
		return 0, err
	}
	if err := t.deleteMessages(name, wins, messageTables...); err != nil {
		return 0, err
	}
	if err := t.deleteMessages(name, rest, schema.Attempts); err != nil {
		return 0, err
	}
	return len(ids), t.moveMessages(former, name, rest, messageTables...)
}

// messageTables have rows that hang on a claim, and the claim.
var messageTables = []string{schema.ProcessedMessages, schema.Results, schema.HeldMessages, schema.Attempts}

// states locks claims and reads their states.
func (t *txn) states(consumer string, ids []string) (map[string]yekbar.State, error) {
	among, args := t.store.dialect.among(ids)
	states := make(map[string]yekbar.State)
	err := t.query(func(rows *sql.Rows) error {
		var id string
		var state yekbar.State
		err := rows.Scan(&id, &state)
		states[id] = state
		return err
	},
		"SELECT message_id, state FROM "+t.store.sql.claims+ofConsumer+" AND "+among+" ORDER BY message_id"+t.store.dialect.forUpdate(), append([]any{consumer}, args...)...)
	return states, err
}

// moveAttempts moves those without a claim; the new name's own stay.
func (t *txn) moveAttempts(former, name string) (int, error) {
	attempts := t.store.table(schema.Attempts)
	ids, err := t.strings("SELECT message_id FROM "+attempts+ofConsumer+" ORDER BY message_id LIMIT ?", former, moved)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	among, args := t.store.dialect.among(ids)
	own, err := t.strings("SELECT message_id FROM "+attempts+ofConsumer+" AND "+among, append([]any{name}, args...)...)
	if err != nil {
		return 0, err
	}
	if err := t.deleteMessages(former, own, schema.Attempts); err != nil {
		return 0, err
	}
	rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(own, id) })
	return len(ids), t.moveMessages(former, name, rest, schema.Attempts)
}

// moveMessages gives the rows of messages another consumer's name.
func (t *txn) moveMessages(former, name string, ids []string, tables ...string) error {
	if len(ids) == 0 {
		return nil
	}
	among, args := t.store.dialect.among(ids)
	for _, table := range tables {
		if err := t.exec("UPDATE "+t.store.table(table)+" SET consumer_name = ?"+ofConsumer+" AND "+among, append([]any{name, former}, args...)...); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	return nil
}

// movePositions moves all at once; the new name's own stay.
func (t *txn) movePositions(former, name string) (int, error) {
	positions := t.store.table(schema.Positions)
	own, err := t.strings("SELECT partition_name FROM "+positions+ofConsumer, name)
	if err != nil {
		return 0, err
	}
	old, err := t.strings("SELECT partition_name FROM "+positions+ofConsumer, former)
	if err != nil {
		return 0, err
	}
	for _, partition := range old {
		text, args := "UPDATE "+positions+" SET consumer_name = ?", []any{name, former, partition}
		if slices.Contains(own, partition) {
			text, args = "DELETE FROM "+positions, args[1:]
		}
		if err := t.exec(text+ofConsumer+" AND partition_name = ?", args...); err != nil {
			return 0, err
		}
	}
	return min(len(old), 1), nil
}
