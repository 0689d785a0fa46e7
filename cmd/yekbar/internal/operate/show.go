package operate

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
)

const (
	// textShown and hexShown are how many bytes of a payload are printed.
	textShown = 4096
	hexShown  = 512
)

type showJSON struct {
	heldJSON
	ID          string       `json:"id"`
	Source      string       `json:"source"`
	Type        string       `json:"type"`
	Subject     string       `json:"subject"`
	Time        *time.Time   `json:"time"`
	Headers     []headerJSON `json:"headers"`
	Fingerprint string       `json:"fingerprint"`
	Payload     *bytesJSON   `json:"payload"`
	Raw         *bytesJSON   `json:"raw,omitempty"`
	OrderNotes  []string     `json:"order_notes"`
}

type headerJSON struct {
	Name  string     `json:"name"`
	Value *bytesJSON `json:"value"`
}

// Show prints a held message. raw, where it is not "", is a file that gets
// the payload's bytes (those of the delivery, where no message was decoded)
// in place of the terminal; it must not be there yet. "-" is Out, and then
// nothing else is printed.
func (d *Desk) Show(ctx context.Context, state yekbar.State, consumer, messageID, raw string) error {
	h, err := d.one(ctx, state, consumer, messageID)
	if err != nil {
		return err
	}
	content, what := h.Message.Payload, "payload"
	if h.Reason == yekbar.ReasonUndecodable {
		content, what = h.Raw, "delivery"
	}
	switch raw {
	case "":
	case "-":
		_, err := d.Out.Write(content)
		return err
	default:
		if err := writeNew(raw, content); err != nil {
			return err
		}
	}
	notes, _, err := d.orderNotes(ctx, h)
	switch {
	case err != nil:
		return err
	case d.JSON:
		return d.print(newShowJSON(h, notes))
	}
	if err := d.showFields(ctx, h); err != nil {
		return err
	}
	for _, n := range notes {
		if err := d.say("%-12s  %s", "order", wrap(Safe(n), columns-14, "              ")); err != nil {
			return err
		}
	}
	next := d.command("dead", "replay", consumer, messageID, "--reason", "TEXT")
	if state == yekbar.StateParked {
		next = d.command("parked", "now", consumer, messageID, "--reason", "TEXT")
	}
	if err := d.say("%-12s  %s", "next", next); err != nil {
		return err
	}
	if raw != "" {
		return d.say("%-12s  %s, written to %s", what, plural(int64(len(content)), "byte", "bytes"), Safe(raw))
	}
	return d.content(what, content)
}

func newShowJSON(h *yekbar.HeldMessage, notes []string) showJSON {
	m := &h.Message
	j := showJSON{
		heldJSON: newHeldJSON(h), ID: m.ID, Source: m.Source, Type: m.Type, Subject: m.Subject, Time: when(m.Time),
		Headers: []headerJSON{}, Fingerprint: hex.EncodeToString(h.Fingerprint), Payload: newBytes(m.Payload), Raw: newBytes(h.Raw),
		OrderNotes: append([]string{}, notes...),
	}
	for _, f := range m.Header {
		j.Headers = append(j.Headers, headerJSON{f.Name, newBytes(f.Value)})
	}
	return j
}

func (d *Desk) showFields(ctx context.Context, h *yekbar.HeldMessage) error {
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	f := &fields{}
	f.add("consumer", h.Consumer)
	f.add("message", h.MessageID)
	f.addf("state", "%s, %s: %s", h.State, h.Reason, reasons[h.Reason])
	f.addf("held", "%s (%s ago), position %d", stamp(h.At), ago(now, h.At), h.Position)
	if h.State == yekbar.StateParked {
		f.addf("due", "%s (%s)", stamp(h.Due), due(now, h.Due))
	}
	f.addf("attempts", "%d", h.Attempts)
	for i, e := range h.Errors {
		f.add(fmt.Sprintf("error %d", h.Attempts-len(h.Errors)+i+1), e)
	}
	m := &h.Message
	for _, line := range []field{
		{"topic", m.Topic}, {"ordering key", m.OrderingKey}, {"source", m.Source}, {"ID", m.ID}, {"type", m.Type}, {"subject", m.Subject},
	} {
		if line.value != "" {
			f.add(line.name, line.value)
		}
	}
	if !m.Time.IsZero() {
		f.add("time", m.Time.Format(time.RFC3339Nano)+" (the producer's)")
	}
	for _, header := range m.Header {
		if utf8.Valid(header.Value) {
			f.addf("header", "%s: %s", header.Name, header.Value)
		} else {
			f.addf("header", "%s: (hex) %x", header.Name, header.Value)
		}
	}
	f.add("fingerprint", fingerprintText(h.Fingerprint))
	return f.write(d.Out)
}

// content prints bytes: as text where they are that, else in hex.
func (d *Desk) content(what string, p []byte) error {
	size := plural(int64(len(p)), "byte", "bytes")
	if len(p) == 0 {
		return d.say("%-12s  empty", what)
	}
	kind, shown := "text", p
	if !IsText(p) {
		kind, shown = "not text", p[:min(len(p), hexShown)]
	} else if len(p) > textShown {
		shown = p[:textShown]
		for !utf8.Valid(shown) {
			shown = shown[:len(shown)-1]
		}
	}
	err := d.say("%-12s  %s, %s:\n", what, size, kind)
	if err != nil {
		return err
	}
	text := string(shown)
	if kind != "text" {
		text = hex.Dump(shown)
	}
	if _, err := io.WriteString(d.Out, text); err != nil {
		return err
	}
	if text[len(text)-1] != '\n' {
		if err := d.say(""); err != nil {
			return err
		}
	}
	if left := len(p) - len(shown); left > 0 {
		return d.say("… %s more; --raw FILE writes all", plural(int64(left), "byte", "bytes"))
	}
	return nil
}

// writeNew writes a file that was not there, for its owner alone.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &UsageError{fmt.Sprintf("--raw: %v", err)}
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// orderNotes says what can be known of other messages of a held one's
// ordering key; passed, that later ones may have been applied.
func (d *Desk) orderNotes(ctx context.Context, h *yekbar.HeldMessage) (notes []string, passed bool, err error) {
	key := h.Message.OrderingKey
	if key == "" {
		return nil, false, nil
	}
	s, err := d.operator()
	if err != nil {
		return nil, false, err
	}
	var earlier, later, seen int
	for other, err := range s.Held(ctx, yekbar.HeldFilter{Consumer: h.Consumer, Limit: scanLimit}) {
		if err != nil {
			return nil, false, err
		}
		seen++
		if other.Message.OrderingKey != key {
			continue
		}
		switch {
		case other.Position > h.Position:
			later++
		case other.Position < h.Position:
			earlier++
		}
	}
	most := ""
	if seen == scanLimit {
		most = fmt.Sprintf(" (among the newest %d that are held)", scanLimit)
	}
	if earlier > 0 {
		notes = append(notes, fmt.Sprintf("%s of its ordering key held earlier%s", plural(int64(earlier), "message is", "messages are"), most))
	}
	if later > 0 {
		notes = append(notes, fmt.Sprintf("%s of its ordering key held later%s", plural(int64(later), "message is", "messages are"), most))
	}
	note, passed, err := d.passed(ctx, h)
	if err != nil {
		return nil, false, err
	}
	return append(notes, note), passed, nil
}

// passed says whether later messages of an ordering key can have been applied
// while this one was held.
func (d *Desk) passed(ctx context.Context, h *yekbar.HeldMessage) (note string, may bool, err error) {
	if h.Ordered {
		return "later messages of its ordering key wait for it", false, nil
	}
	c, err := d.Known(ctx, h.Consumer)
	switch {
	case err != nil:
		return "", false, err
	case !c.LastApplied.After(h.At):
		return "no later message was applied: the consumer has applied none since this one was held", false, nil
	}
	return fmt.Sprintf("later messages of its ordering key may have been applied: the consumer applied some since this one was held, the last at %s. Claims don't keep the key, so look at what the handler changed before you replay", stamp(c.LastApplied)), true, nil
}

func isNoClaim(err error) bool { return errors.Is(err, yekbar.ErrNoClaim) }
