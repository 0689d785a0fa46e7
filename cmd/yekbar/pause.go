package main

import "context"

type pauseCommand struct {
	databaseFlags
	jsonFlag
	actorFlags
	Consumer string `arg:"" help:"Its name."`
}

// Help is what --help says below the summary.
func (pauseCommand) Help() string {
	return `Within seconds no worker of the consumer starts a message any more; what runs is finished. Messages wait in the broker, and no attempt is counted. Parked messages wait too.

JSON: action, consumer, by, reason, warnings[].

Examples:

    yekbar pause inventory --reason 'stock table is being repaired'
    yekbar pause inventory --by ada --reason 'deploy of v2' --json

` + exitStatuses
}

// Run pauses.
func (c *pauseCommand) Run(p *program) error {
	return setPaused(p, &c.databaseFlags, c.actorFlags, c.JSON, c.Consumer, true)
}

type resumeCommand struct {
	databaseFlags
	jsonFlag
	actorFlags
	Consumer string `arg:"" help:"Its name."`
}

// Help is what --help says below the summary.
func (resumeCommand) Help() string {
	return `Within seconds the workers of the consumer go on.

JSON: action, consumer, by, reason, warnings[].

Examples:

    yekbar resume inventory --reason 'stock table is repaired'

` + exitStatuses
}

// Run resumes.
func (c *resumeCommand) Run(p *program) error {
	return setPaused(p, &c.databaseFlags, c.actorFlags, c.JSON, c.Consumer, false)
}

func setPaused(p *program, f *databaseFlags, by actorFlags, json bool, consumer string, paused bool) error {
	return f.operate(p, json, func(ctx context.Context, s *session) error {
		actor, err := by.actor()
		if err != nil {
			return err
		}
		return s.SetPaused(ctx, consumer, paused, actor)
	})
}
