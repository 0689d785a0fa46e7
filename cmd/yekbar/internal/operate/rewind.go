package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// Rewinding is where to go back to, and over what.
type Rewinding struct {
	Broker       broker.Positioner
	Subscription string            // the broker's; "": unknown
	To           map[string]string // by partition; empty: what the database has
	DryRun       bool
}

type rewindJSON struct {
	changed
	DryRun     bool                    `json:"dry_run"`
	Partitions map[string]rewindPoints `json:"partitions"`
}

type rewindPoints struct {
	From string `json:"from"` // the broker has acknowledged everything before it
	To   string `json:"to"`
}

// Rewind makes the broker deliver again what it holds for acknowledged. The
// claims let nothing take effect twice.
func (d *Desk) Rewind(ctx context.Context, consumer string, w Rewinding, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	c, err := d.Known(ctx, consumer)
	if err != nil {
		return err
	}
	if c.Subscription != "" && w.Subscription != "" && c.Subscription != w.Subscription {
		return &UsageError{fmt.Sprintf("consumer %q reads %q, and --broker is %q: rewinding it would bring messages that are not this consumer's", consumer, c.Subscription, w.Subscription)}
	}
	to, err := d.rewindTo(ctx, consumer, w.To)
	if err != nil {
		return err
	}
	now, err := w.Broker.Positions(ctx)
	if err != nil {
		return err
	}
	r := rewindJSON{changed: changed{Action: "rewind", Consumer: consumer, By: by.Name, Reason: by.Reason}, DryRun: w.DryRun, Partitions: map[string]rewindPoints{}}
	for partition, position := range to {
		from, ok := now[partition]
		if !ok {
			return &UsageError{fmt.Sprintf("the broker has no partition %q; it has: %s", partition, quoted(sortedKeys(now)))}
		}
		switch ahead, err := isAhead(position, from); {
		case err != nil:
			return err
		case ahead && len(w.To) > 0:
			return &UsageError{fmt.Sprintf("--to %s=%s is ahead of the broker's %s: that would skip messages, and nothing brings them back", partition, position, from)}
		case ahead || from == position:
			delete(to, partition)
		default:
			r.Partitions[partition] = rewindPoints{from, position}
		}
	}
	if len(to) > 0 && !w.DryRun {
		detail, err := json.Marshal(r.Partitions)
		if err != nil {
			return err
		}
		if err := d.Record(ctx, yekbar.AuditEntry{Action: "rewind", Consumer: consumer, By: by, Detail: detail}); err != nil {
			return err
		}
		if err := w.Broker.Rewind(ctx, to); err != nil {
			return err
		}
	}
	return d.rewound(r)
}

// isAhead compares positions that are numbers. Others only their broker
// understands.
func isAhead(a, b string) (bool, error) {
	if a == b {
		return false, nil
	}
	n, errA := strconv.ParseUint(a, 10, 64)
	m, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return n > m, nil
	case errB == nil:
		return false, &UsageError{fmt.Sprintf("%q is no position: the broker's are numbers, such as %s", a, b)}
	}
	return false, nil
}

func (d *Desk) rewindTo(ctx context.Context, consumer string, to map[string]string) (map[string]string, error) {
	if len(to) > 0 {
		return maps.Clone(to), nil
	}
	s, err := find[yekbar.PositionStore](d, "it keeps no positions: say --to")
	if err != nil {
		return nil, err
	}
	saved, err := s.Positions(ctx, consumer)
	switch {
	case err != nil:
		return nil, err
	case len(saved) == 0:
		return nil, notFound("the database has no position of consumer %q: say --to PARTITION=POSITION, an earlier one than all that was lost", consumer)
	}
	return saved, nil
}

func (d *Desk) rewound(r rewindJSON) error {
	if d.JSON {
		return d.print(r)
	}
	if len(r.Partitions) == 0 {
		return d.say("%s: nothing to do, the broker stands where it would be rewound to", ShellQuote(r.Consumer))
	}
	done := "rewound"
	if r.DryRun {
		done = "would be rewound"
	}
	for _, p := range sortedKeys(r.Partitions) {
		if err := d.say("%s: %s %s from %s to %s", ShellQuote(r.Consumer), ShellQuote(p), done, Safe(r.Partitions[p].From), Safe(r.Partitions[p].To)); err != nil {
			return err
		}
	}
	return d.say("What took effect before is delivered as a duplicate, and rests.")
}
