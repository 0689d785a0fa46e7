package main

import (
	"context"
	"fmt"
	"time"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/operate"
)

type pruneCommand struct {
	databaseFlags
	jsonFlag
	actorFlags
	Retention time.Duration `placeholder:"TIME" help:"Move the watermark towards so long ago, as the consumer's workers do; not less than their Config.Retention. Default: leave it where it is."`
	For       time.Duration `placeholder:"TIME" help:"Go on for so long. Default: once through the claims."`
	Batch     int           `default:"500" placeholder:"N" help:"Claims in one transaction. Default: ${default}."`
	Rest      time.Duration `default:"50ms" placeholder:"TIME" help:"Between two transactions. Default: ${default}."`
	Consumer  string        `arg:"" help:"Its name."`
}

// Help is what --help says below the summary.
func (pruneCommand) Help() string {
	return `Workers prune their consumers by themselves; this is for those that are down or were told not to. It deletes claims of applied messages from before the watermark, never parked or dead ones. A message that the broker received before the watermark, and that has no claim, is set aside from then on.

The watermark is published a minute before anything is deleted by it, and moves at most twice as fast as time passes from call to call: an error in --retention can be noticed before it costs much. Call it every few minutes, or say --for.

JSON: action, consumer, by, reason, warnings[], deleted, watermark.

Examples:

    yekbar prune inventory --reason 'disk is filling up'
    yekbar prune inventory --retention 720h --for 1h --by cron --reason nightly

` + exitStatuses
}

// Run prunes.
func (c *pruneCommand) Run(p *program) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		if c.Retention < 0 || c.For < 0 || c.Rest < 0 || c.Batch < 1 || c.Batch > 10_000 {
			return &operate.UsageError{Text: fmt.Sprintf("--retention is %v, --for is %v, --rest is %v, --batch is %d: times can't be negative, and a batch is 1 to 10000", c.Retention, c.For, c.Rest, c.Batch)}
		}
		actor, err := c.actor()
		if err != nil {
			return err
		}
		return s.Prune(ctx, c.Consumer, operate.Pruning{Retention: c.Retention, For: c.For, Batch: c.Batch, Rest: c.Rest}, actor)
	})
}
