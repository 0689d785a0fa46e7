package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/yekbar-go/yekbar"
)

// replayPage is how many messages are asked for at once.
const replayPage = 200

// A Choice is of held messages: by their IDs, or all.
type Choice struct {
	Consumer string
	IDs      []string
	All      bool   // in place of IDs
	Why      string // with All: those that are held for this reason
}

func (c Choice) check() error {
	switch {
	case c.All && len(c.IDs) > 0:
		return &UsageError{"--all and message IDs exclude each other"}
	case !c.All && len(c.IDs) == 0:
		return &UsageError{"which messages? Name their IDs, or say --all"}
	case c.Why != "" && !c.All:
		return &UsageError{"--why goes with --all"}
	}
	if _, ok := reasons[c.Why]; c.Why != "" && !ok {
		return &UsageError{fmt.Sprintf("no message is held because of %q; reasons are %s", c.Why, quoted(Reasons()))}
	}
	return nil
}

// Replay makes dead messages be tried again; payload, where it is not nil,
// takes the place of the only one's.
func (d *Desk) Replay(ctx context.Context, c Choice, payload []byte, by yekbar.Actor) error {
	if payload != nil && len(c.IDs) != 1 {
		return &UsageError{"--payload replaces the payload of one message: name its ID"}
	}
	return d.each(ctx, yekbar.StateDead, "replay", "replayed: a worker applies it within seconds", c, by, func(s yekbar.OperatorStore, id string) error {
		return s.Replay(ctx, c.Consumer, id, payload, by)
	})
}

// Discard ends held messages: nothing is left but their claims, which let no
// late copy through.
func (d *Desk) Discard(ctx context.Context, c Choice, by yekbar.Actor) error {
	return d.each(ctx, yekbar.StateDead, "discard", "discarded: its claim stays, and a late copy rests", c, by, func(s yekbar.OperatorStore, id string) error {
		return s.Discard(ctx, c.Consumer, id, by)
	})
}

// MakeDue makes parked messages due now.
func (d *Desk) MakeDue(ctx context.Context, c Choice, by yekbar.Actor) error {
	return d.each(ctx, yekbar.StateParked, "due", "due now: a worker takes it within seconds", c, by, func(s yekbar.OperatorStore, id string) error {
		return s.MakeDue(ctx, c.Consumer, id, by)
	})
}

type eachJSON struct {
	Action   string      `json:"action"`
	Consumer string      `json:"consumer"`
	By       string      `json:"by"`
	Reason   string      `json:"reason"`
	Done     []string    `json:"done"`
	NotDone  []notDone   `json:"not_done"`
	Order    []orderJSON `json:"order"`
}

type notDone struct {
	MessageID string `json:"message_id"`
	Error     string `json:"error"`
}

type orderJSON struct {
	MessageID string   `json:"message_id"`
	Warning   bool     `json:"warning"` // later messages may have been applied
	Notes     []string `json:"notes"`
}

// each does something to each message of a choice, and goes on after one that
// is not there any more.
func (d *Desk) each(ctx context.Context, state yekbar.State, action, outcome string, c Choice, by yekbar.Actor, do func(yekbar.OperatorStore, string) error) error {
	if err := errors.Join(c.check(), by.Validate()); err != nil {
		return err
	}
	s, err := d.operator()
	if err != nil {
		return err
	}
	if _, err := d.Known(ctx, c.Consumer); err != nil {
		return err
	}
	r := eachJSON{Action: action, Consumer: c.Consumer, By: by.Name, Reason: by.Reason, Done: []string{}, NotDone: []notDone{}, Order: []orderJSON{}}
	failed := d.choose(ctx, s, state, c, func(id string) error {
		var notes []string
		passed := false
		if !c.All { // else it was just found in that state
			h, err := d.one(ctx, state, c.Consumer, id)
			if err == nil && action == "replay" {
				notes, passed, err = d.orderNotes(ctx, h)
			}
			if err != nil {
				return err
			}
		}
		if err := do(s, id); err != nil {
			return err
		}
		r.Done = append(r.Done, id)
		if len(notes) > 0 {
			r.Order = append(r.Order, orderJSON{id, passed, notes})
		}
		return nil
	}, func(id string, err error) { r.NotDone = append(r.NotDone, notDone{id, err.Error()}) })
	if len(r.Done) == 0 && len(r.NotDone) == 1 && failed == nil && !c.All {
		return &NotFoundError{r.NotDone[0].Error}
	}
	if err := d.eachDone(r, c, outcome); err != nil {
		return errors.Join(failed, err)
	}
	switch {
	case failed != nil:
		return fmt.Errorf("%s done, then: %w", plural(int64(len(r.Done)), "message", "messages"), failed)
	case len(r.NotDone) > 0 && len(r.Done) == 0:
		return &NotFoundError{"nothing was done"}
	case len(r.NotDone) > 0:
		return &PartError{fmt.Sprintf("%d of %d were not there", len(r.NotDone), len(r.Done)+len(r.NotDone))}
	}
	return nil
}

// choose calls do for each message of a choice; gone is told of those that are
// not there.
func (d *Desk) choose(ctx context.Context, s yekbar.OperatorStore, state yekbar.State, c Choice, do func(id string) error, gone func(id string, err error)) error {
	one := func(id string) error {
		err := do(id)
		if errors.Is(err, yekbar.ErrNotHeld) {
			err = d.missing(ctx, state, c.Consumer, id)
		}
		if missing := (*NotFoundError)(nil); errors.As(err, &missing) {
			gone(id, err)
			return nil
		}
		return err
	}
	for _, id := range c.IDs {
		if err := one(id); err != nil {
			return err
		}
	}
	for after, more := int64(0), c.All; more; {
		var ids []string
		for h, err := range s.Held(ctx, yekbar.HeldFilter{Consumer: c.Consumer, State: state, Reason: c.Why, After: after, Limit: replayPage}) {
			if err != nil {
				return err
			}
			ids, after = append(ids, h.MessageID), h.Position
		}
		for _, id := range ids {
			if err := one(id); err != nil {
				return err
			}
		}
		more = len(ids) == replayPage
	}
	return nil
}

func (d *Desk) eachDone(r eachJSON, c Choice, outcome string) error {
	if d.JSON {
		return d.print(r)
	}
	for _, n := range r.NotDone {
		if _, err := fmt.Fprintf(d.Notes, "not done: %s\n", Safe(n.Error)); err != nil {
			return err
		}
	}
	for _, w := range r.Order {
		for _, n := range w.Notes {
			kind := "note"
			if w.Warning {
				kind = "warning"
			}
			if _, err := fmt.Fprintf(d.Notes, "%s: %s: %s\n", kind, ShellQuote(w.MessageID), Safe(n)); err != nil {
				return err
			}
		}
	}
	if c.All {
		if r.Action == "replay" && len(r.Done) > 0 {
			if err := d.warn("where they have ordering keys, later messages of those may have been applied meanwhile; claims don't keep the key"); err != nil {
				return err
			}
		}
		return d.say("%s: %s", r.Action, plural(int64(len(r.Done)), "message", "messages"))
	}
	for _, id := range r.Done {
		if err := d.say("%s: %s", ShellQuote(id), outcome); err != nil {
			return err
		}
	}
	return nil
}
