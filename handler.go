package yekbar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A Handler applies the change that one message asks for, through tx. It runs
// again after any failure, in a new transaction.
type Handler[Tx any] func(ctx context.Context, tx Tx, m *Message) error

// A ResultHandler also returns a result, stored with the claim and given back
// to duplicates.
type ResultHandler[Tx any] func(ctx context.Context, tx Tx, m *Message) (result []byte, err error)

// A BatchHandler applies many new messages, sorted by OrderingKey (those of
// one key in the order they came), in one transaction. An error of type
// *BatchError names the one that failed; the rest runs again without it.
type BatchHandler[Tx any] func(ctx context.Context, tx Tx, ms []*Message) error

// A StatementHandler turns a message into statements, without a transaction;
// they travel with claim and COMMIT in one round trip. It is called for
// duplicates too, so it must be pure.
type StatementHandler func(ctx context.Context, m *Message) ([]Statement, error)

// A Statement is SQL in the store's own placeholder style.
type Statement struct {
	SQL  string
	Args []any
	// MinRows is how many rows must change, or the message fails with a
	// *RowsError; 0: any number.
	MinRows int
}

// JSON makes a Handler of a function that takes the decoded payload. A payload
// that is no JSON value of type T, or has bytes after it, is a permanent
// error.
func JSON[Tx, T any](h func(ctx context.Context, tx Tx, m *Message, v T) error) Handler[Tx] {
	return func(ctx context.Context, tx Tx, m *Message) error {
		var v T
		d := json.NewDecoder(bytes.NewReader(m.Payload))
		if err := d.Decode(&v); err != nil {
			return Permanent(fmt.Errorf("yekbar: payload is no JSON of a %T: %w", v, err))
		}
		if _, err := d.Token(); err != io.EOF {
			return Permanent(fmt.Errorf("yekbar: payload has bytes after its JSON value, from offset %d", d.InputOffset()))
		}
		return h(ctx, tx, m, v)
	}
}

// ByType makes a Handler that gives each message to the handler of its Type,
// compared exactly; the handler under "" takes all other types. Without one,
// another type is a permanent error.
func ByType[Tx any](handlers map[string]Handler[Tx]) Handler[Tx] {
	handlers = maps.Clone(handlers)
	known := slices.Sorted(maps.Keys(handlers))
	return func(ctx context.Context, tx Tx, m *Message) error {
		h := handlers[m.Type]
		if h == nil {
			h = handlers[""]
		}
		if h == nil {
			return Permanent(fmt.Errorf("yekbar: no handler for type %q; there are handlers for %q", m.Type, known))
		}
		return h(ctx, tx, m)
	}
}
