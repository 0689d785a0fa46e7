package main

import (
	"context"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/operate"
)

type statusCommand struct {
	databaseFlags
	jsonFlag
	Consumer string `arg:"" optional:"" help:"This one alone, in full."`
}

// Help is what --help says below the summary.
func (statusCommand) Help() string {
	return `Per consumer: how many messages are parked (the database retries them) and dead (a person decides), for how long the oldest is parked, how long ago one was applied, and whether it is paused. Ages go by the database's clock.

JSON: now, consumers[]: consumer, subscription, parked, dead, reasons{}, oldest_parked_at, last_applied_at, watermark, paused{by, reason, at} or null.

Examples:

    yekbar status
    yekbar status inventory
    yekbar status --json | jq '.consumers[] | select(.dead > 0)'

` + exitStatuses
}

// Run prints it.
func (c *statusCommand) Run(p *program) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error { return s.Status(ctx, c.Consumer) })
}

type auditCommand struct {
	databaseFlags
	jsonFlag
	pageFlags
	Consumer string `arg:"" optional:"" help:"Of this one alone."`
}

// Help is what --help says below the summary.
func (auditCommand) Help() string {
	return `Who did what by hand, when and why, newest first. The payload that a replay replaced is in the entry's detail, which --json shows.

JSON: entries[]: id, at, by, reason, action (replay, due, discard, forget, pause, resume, confirm, rewind, prune, import), consumer, message_id, detail{text or base64}; next_after where there are more.

Examples:

    yekbar audit
    yekbar audit inventory --limit 10
    yekbar audit --json | jq -r '.entries[] | [.at, .by, .action] | @tsv'

` + exitStatuses
}

// Run prints it.
func (c *auditCommand) Run(p *program) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		if err := c.check(); err != nil {
			return err
		}
		return s.Audit(ctx, operate.ListFilter{Consumer: c.Consumer, After: c.After, Limit: c.Limit})
	})
}
