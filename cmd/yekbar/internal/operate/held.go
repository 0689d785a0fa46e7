package operate

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/yekbar-go/yekbar"
)

// reasons say in words why a message is held.
var reasons = map[string]string{
	yekbar.ReasonDelayed:     "it waits for its next attempt",
	yekbar.ReasonBehindKey:   "it waits behind an earlier message of its ordering key",
	yekbar.ReasonReplayed:    "a person wants it tried again",
	yekbar.ReasonAttempts:    "it failed as often as it may",
	yekbar.ReasonPermanent:   "the handler said that no retry helps",
	yekbar.ReasonConflict:    "same ID, other payload",
	yekbar.ReasonIdentity:    "no usable ID",
	yekbar.ReasonUndecodable: "no message in the delivery",
	yekbar.ReasonCrash:       "processes died while it alone was handled",
	yekbar.ReasonBoundary:    "the handler ended or left its transaction",
	yekbar.ReasonBeyond:      "older than the claims that are kept, so it may have been applied",
}

// Reasons returns those that messages are held for.
func Reasons() []string { return sortedKeys(reasons) }

// A ListFilter selects held messages, or entries of the audit log.
type ListFilter struct {
	Consumer string // "": all
	Why      string // the reason; "": any
	After    int64  // the last one seen
	Limit    int
}

type heldListJSON struct {
	Messages []heldJSON `json:"messages"`
	Next     int64      `json:"next_after,omitempty"`
}

type heldJSON struct {
	Consumer     string       `json:"consumer"`
	MessageID    string       `json:"message_id"`
	State        yekbar.State `json:"state"`
	Reason       string       `json:"reason"`
	Attempts     int          `json:"attempts"`
	Errors       []string     `json:"errors"`
	HeldAt       *time.Time   `json:"held_at"`
	DueAt        *time.Time   `json:"due_at,omitempty"`
	Position     int64        `json:"position"`
	Ordered      bool         `json:"ordered"`
	OrderingKey  string       `json:"ordering_key"`
	Topic        string       `json:"topic"`
	PayloadBytes int          `json:"payload_bytes"`
}

func newHeldJSON(h *yekbar.HeldMessage) heldJSON {
	j := heldJSON{
		Consumer: h.Consumer, MessageID: h.MessageID, State: h.State, Reason: h.Reason, Attempts: h.Attempts, Errors: h.Errors,
		HeldAt: when(h.At), Position: h.Position, Ordered: h.Ordered, OrderingKey: h.Message.OrderingKey, Topic: h.Message.Topic,
		PayloadBytes: len(h.Message.Payload),
	}
	if h.State == yekbar.StateParked {
		j.DueAt = when(h.Due)
	}
	if j.Errors == nil {
		j.Errors = []string{}
	}
	return j
}

// List lists messages that are held in a state, newest first.
func (d *Desk) List(ctx context.Context, state yekbar.State, f ListFilter) error {
	s, err := d.operator()
	if err != nil {
		return err
	}
	if _, ok := reasons[f.Why]; f.Why != "" && !ok {
		return &UsageError{fmt.Sprintf("no message is held because of %q; reasons are %s", f.Why, quoted(Reasons()))}
	}
	if f.Consumer != "" {
		if _, err := d.Known(ctx, f.Consumer); err != nil {
			return err
		}
	}
	var found []*yekbar.HeldMessage
	filter := yekbar.HeldFilter{Consumer: f.Consumer, Reason: f.Why, State: state, After: f.After, Limit: f.Limit + 1}
	for h, err := range s.Held(ctx, filter) {
		if err != nil {
			return err
		}
		found = append(found, h)
	}
	var next int64
	if len(found) > f.Limit {
		found = found[:f.Limit]
		next = found[f.Limit-1].Position
	}
	if d.JSON {
		list := heldListJSON{Messages: []heldJSON{}, Next: next}
		for _, h := range found {
			list.Messages = append(list.Messages, newHeldJSON(h))
		}
		return d.print(list)
	}
	return d.listText(ctx, state, f, found, next)
}

func (d *Desk) listText(ctx context.Context, state yekbar.State, f ListFilter, found []*yekbar.HeldMessage, next int64) error {
	if len(found) == 0 {
		return d.say("no %s message%s", state, map[bool]string{true: " after position " + strconv.FormatInt(f.After, 10)}[f.After > 0])
	}
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	for _, h := range found {
		id := ShellQuote(h.MessageID)
		if f.Consumer == "" {
			id = ShellQuote(h.Consumer) + " " + id
		}
		if err := d.say("%s", id); err != nil {
			return err
		}
		about := fmt.Sprintf("%s, held %s ago, %s", h.Reason, ago(now, h.At), plural(int64(h.Attempts), "attempt", "attempts"))
		if state == yekbar.StateParked {
			about += ", " + due(now, h.Due)
		}
		if k := h.Message.OrderingKey; k != "" {
			about += ", key " + Safe(k)
		}
		if err := d.say("    %s", clip(about, columns-4)); err != nil {
			return err
		}
		if n := len(h.Errors); n > 0 {
			if err := d.say("    %s", clip(Safe(h.Errors[n-1]), columns-4)); err != nil {
				return err
			}
		}
	}
	if next == 0 {
		return nil
	}
	words := []string{string(state), "list"}
	if f.Consumer != "" {
		words = append(words, f.Consumer)
	}
	if f.Why != "" {
		words = append(words, "--why", f.Why)
	}
	words = append(words, "--limit", strconv.Itoa(f.Limit), "--after", strconv.FormatInt(next, 10))
	return d.say("\nnext: %s", d.command(words...))
}

func due(now, at time.Time) string {
	if !at.After(now) {
		return "due now"
	}
	return "due in " + span(at.Sub(now))
}

// one returns a held message of the consumer, in the given state, or says what
// is there in its place.
func (d *Desk) one(ctx context.Context, state yekbar.State, consumer, messageID string) (*yekbar.HeldMessage, error) {
	s, err := d.operator()
	if err != nil {
		return nil, err
	}
	for h, err := range s.Held(ctx, yekbar.HeldFilter{Consumer: consumer, MessageID: messageID, Limit: 1}) {
		if err != nil {
			return nil, err
		}
		if h.State == state {
			return h, nil
		}
	}
	return nil, d.missing(ctx, state, consumer, messageID)
}

// missing says what is there in place of a held message.
func (d *Desk) missing(ctx context.Context, state yekbar.State, consumer, messageID string) error {
	if _, err := d.Known(ctx, consumer); err != nil {
		return err
	}
	s, err := d.operator()
	if err != nil {
		return err
	}
	c, err := s.Claim(ctx, consumer, messageID)
	switch {
	case isNoClaim(err):
		return d.unclaimed(ctx, consumer, messageID)
	case err != nil:
		return err
	case c.State == yekbar.StateApplied:
		return notFound("message %q of consumer %q is not %s: it was applied, claimed at %s", messageID, consumer, state, stamp(c.At))
	case c.State != state:
		return notFound("message %q of consumer %q is not %s but %s: %s", messageID, consumer, state, c.State, d.command(string(c.State), "show", consumer, messageID))
	}
	return notFound("message %q of consumer %q was discarded: its claim is %s, and nothing is held; %s lets it be applied when it is sent again",
		messageID, consumer, c.State, d.command("claims", "forget", consumer, messageID))
}

// unclaimed says that the consumer has no such message, and which one may be
// meant.
func (d *Desk) unclaimed(ctx context.Context, consumer, messageID string) error {
	s, err := d.operator()
	if err != nil {
		return err
	}
	var ids []string
	for h, err := range s.Held(ctx, yekbar.HeldFilter{Consumer: consumer, Limit: scanLimit}) {
		if err != nil {
			return err
		}
		if h.Message.ID == messageID && h.MessageID != messageID {
			return notFound("consumer %q has no message %q; did you mean %s? (the source is part of the ID)", consumer, messageID, ShellQuote(h.MessageID))
		}
		ids = append(ids, h.MessageID)
	}
	if near := nearest(messageID, ids); near != "" {
		return notFound("consumer %q has no message %q; did you mean %s?", consumer, messageID, ShellQuote(near))
	}
	return notFound("consumer %q has no message %q: it never came, was forgotten, or was pruned; an ID is written as the lists and processed_messages.message_id have it", consumer, messageID)
}

func fingerprintText(f []byte) string {
	if len(f) == 0 {
		return "none"
	}
	return hex.EncodeToString(f)
}
