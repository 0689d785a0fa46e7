package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

type statusJSON struct {
	Now       time.Time      `json:"now"`
	Consumers []consumerJSON `json:"consumers"`
}

type consumerJSON struct {
	Consumer     string           `json:"consumer"`
	Subscription string           `json:"subscription"`
	Parked       int64            `json:"parked"`
	Dead         int64            `json:"dead"`
	Reasons      map[string]int64 `json:"reasons"`
	OldestParked *time.Time       `json:"oldest_parked_at"`
	LastApplied  *time.Time       `json:"last_applied_at"`
	Watermark    *time.Time       `json:"watermark"`
	Paused       *pausedJSON      `json:"paused"`
}

type pausedJSON struct {
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	At     *time.Time `json:"at"`
}

// Status tells how all consumers stand, or one.
func (d *Desk) Status(ctx context.Context, consumer string) error {
	s, err := d.operator()
	if err != nil {
		return err
	}
	var all []yekbar.ConsumerStatus
	if consumer != "" {
		one, err := d.Known(ctx, consumer)
		if err != nil {
			return err
		}
		all = append(all, one)
	} else if all, err = s.Consumers(ctx); err != nil {
		return err
	}
	now, err := d.Now(ctx)
	switch {
	case err != nil:
		return err
	case d.JSON:
		return d.print(statusOf(now, all))
	case len(all) == 0:
		return d.say("no consumer yet: a worker registers its consumer when it starts")
	case consumer != "":
		return d.oneStatus(now, all[0])
	}
	t := table{right: map[int]bool{0: true, 1: true, 2: true, 3: true}}
	t.add("PARKED", "OLDEST", "DEAD", "APPLIED", "CONSUMER")
	for _, c := range all {
		name := Safe(c.Name)
		if c.Paused {
			name += "  PAUSED by " + Safe(c.PausedBy.Name)
		}
		applied := ago(now, c.LastApplied)
		if !c.LastApplied.IsZero() {
			applied += " ago"
		}
		t.add(fmt.Sprint(c.Parked), ago(now, c.OldestParked), fmt.Sprint(c.Dead), applied, name)
	}
	return t.write(d.Out)
}

func statusOf(now time.Time, all []yekbar.ConsumerStatus) statusJSON {
	r := statusJSON{Now: now.UTC(), Consumers: []consumerJSON{}}
	for _, c := range all {
		j := consumerJSON{
			Consumer: c.Name, Subscription: c.Subscription, Parked: c.Parked, Dead: c.Dead, Reasons: c.Reasons,
			OldestParked: when(c.OldestParked), LastApplied: when(c.LastApplied), Watermark: when(c.Watermark),
		}
		if j.Reasons == nil {
			j.Reasons = map[string]int64{}
		}
		if c.Paused {
			j.Paused = &pausedJSON{c.PausedBy.Name, c.PausedBy.Reason, when(c.PausedAt)}
		}
		r.Consumers = append(r.Consumers, j)
	}
	return r
}

func (d *Desk) oneStatus(now time.Time, c yekbar.ConsumerStatus) error {
	f := &fields{}
	f.add("consumer", c.Name)
	if c.Paused {
		f.addf("paused", "%s ago by %s: %s", ago(now, c.PausedAt), c.PausedBy.Name, c.PausedBy.Reason)
	}
	f.add("subscription", orNone(c.Subscription))
	if c.LastApplied.IsZero() {
		f.add("last applied", "none of the claims that are kept")
	} else {
		f.addf("last applied", "%s (%s ago)", stamp(c.LastApplied), ago(now, c.LastApplied))
	}
	f.addf("parked", "%d", c.Parked)
	if !c.OldestParked.IsZero() {
		f.addf("oldest parked", "%s (%s ago)", stamp(c.OldestParked), ago(now, c.OldestParked))
	}
	f.addf("dead", "%d", c.Dead)
	var reasons []string
	for _, r := range sortedKeys(c.Reasons) {
		reasons = append(reasons, fmt.Sprintf("%s %d", r, c.Reasons[r]))
	}
	if len(reasons) > 0 {
		f.addf("held because", "%s", strings.Join(reasons, ", "))
	}
	if c.Watermark.IsZero() {
		f.add("claims", "all are kept so far")
	} else {
		f.addf("claims", "kept since %s (%s)", stamp(c.Watermark), ago(now, c.Watermark))
	}
	if err := f.write(d.Out); err != nil {
		return err
	}
	if c.Dead > 0 {
		return d.say("\nlook: %s", d.command("dead", "list", c.Name))
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
