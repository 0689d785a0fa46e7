package operate

import (
	"context"
	"strconv"
	"time"

	"github.com/yekbar-go/yekbar"
)

type auditJSON struct {
	Entries []entryJSON `json:"entries"`
	Next    int64       `json:"next_after,omitempty"`
}

type entryJSON struct {
	ID        int64      `json:"id"`
	At        *time.Time `json:"at"`
	By        string     `json:"by"`
	Reason    string     `json:"reason"`
	Action    string     `json:"action"`
	Consumer  string     `json:"consumer"`
	MessageID string     `json:"message_id"`
	Detail    *bytesJSON `json:"detail"`
}

// Audit lists what people did, newest first.
func (d *Desk) Audit(ctx context.Context, f ListFilter) error {
	s, err := d.operator()
	if err != nil {
		return err
	}
	var found []*yekbar.AuditEntry
	for e, err := range s.Audit(ctx, yekbar.AuditFilter{Consumer: f.Consumer, After: f.After, Limit: f.Limit + 1}) {
		if err != nil {
			return err
		}
		found = append(found, e)
	}
	if len(found) == 0 && f.Consumer != "" {
		// Entries outlive the names of consumers; only an empty list may be a
		// mistyped one.
		if _, err := d.Known(ctx, f.Consumer); err != nil {
			return err
		}
	}
	var next int64
	if len(found) > f.Limit {
		found = found[:f.Limit]
		next = found[f.Limit-1].ID
	}
	if d.JSON {
		list := auditJSON{Entries: []entryJSON{}, Next: next}
		for _, e := range found {
			list.Entries = append(list.Entries, entryJSON{e.ID, when(e.At), e.By.Name, e.By.Reason, e.Action, e.Consumer, e.MessageID, newBytes(e.Detail)})
		}
		return d.print(list)
	}
	return d.auditText(f, found, next)
}

func (d *Desk) auditText(f ListFilter, found []*yekbar.AuditEntry, next int64) error {
	if len(found) == 0 {
		return d.say("nothing was done by hand")
	}
	for _, e := range found {
		what := e.Action + " " + ShellQuote(e.Consumer)
		if e.MessageID != "" {
			what += " " + ShellQuote(e.MessageID)
		}
		if err := d.say("%s  %s", stamp(e.At), what); err != nil {
			return err
		}
		if err := d.say("    %s", wrap(Safe(e.By.Name)+": "+Safe(e.By.Reason), columns-4, "    ")); err != nil {
			return err
		}
		if n := len(e.Detail); n > 0 {
			if err := d.say("    with %s of detail: --json shows it", plural(int64(n), "byte", "bytes")); err != nil {
				return err
			}
		}
	}
	if next == 0 {
		return nil
	}
	words := []string{"audit"}
	if f.Consumer != "" {
		words = append(words, f.Consumer)
	}
	return d.say("\nnext: %s", d.command(append(words, "--limit", strconv.Itoa(f.Limit), "--after", strconv.FormatInt(next, 10))...))
}
