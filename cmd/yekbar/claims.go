package main

import "context"

type claimsCommands struct {
	Show   claimsShowCommand   `cmd:"" help:"Print a claim."`
	Forget claimsForgetCommand `cmd:"" help:"Remove a claim, so that its message can be applied again."`
}

type claimsShowCommand struct {
	databaseFlags
	jsonFlag
	Consumer  string `arg:"" help:"Its name."`
	MessageID string `arg:"" help:"As processed_messages.message_id has it: the ID, or 'SOURCE ID'."`
}

// Help is what --help says below the summary.
func (claimsShowCommand) Help() string {
	return `A claim says who owns a message: applied (it took effect), parked (the database retries it), dead (a person decides).

JSON: consumer, message_id, state, claimed_at, fingerprint (hex), result{text or base64} or null.

Examples:

    yekbar claims show inventory 0198c5f2-7a1e
    yekbar claims show inventory '/shop 536365' --json

` + exitStatuses
}

// Run shows.
func (c *claimsShowCommand) Run(p *program) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error { return s.ShowClaim(ctx, c.Consumer, c.MessageID) })
}

type claimsForgetCommand struct {
	databaseFlags
	jsonFlag
	actorFlags
	Consumer  string `arg:"" help:"Its name."`
	MessageID string `arg:"" help:"As processed_messages.message_id has it: the ID, or 'SOURCE ID'."`
}

// Help is what --help says below the summary.
func (claimsForgetCommand) Help() string {
	return `The claim is removed, with all that is held and recorded with it. When the message is delivered again it is new, and takes effect: once more, if it did before. To apply a dead message, replay it instead.

JSON: action, consumer, message_id, by, reason, warnings[].

Examples:

    yekbar claims forget inventory 0198c5f2-7a1e \
        --reason 'its change was undone by hand; it is sent again'

` + exitStatuses
}

// Run forgets.
func (c *claimsForgetCommand) Run(p *program) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		actor, err := c.actor()
		if err != nil {
			return err
		}
		return s.Forget(ctx, c.Consumer, c.MessageID, actor)
	})
}

type consumersCommands struct {
	Confirm consumersConfirmCommand `cmd:"" help:"Let a consumer have another subscription."`
}

type consumersConfirmCommand struct {
	databaseFlags
	jsonFlag
	actorFlags
	Subscription string `required:"" placeholder:"NAME" help:"As the refused start has it, such as 'nats ORDERS/inventory'."`
	Consumer     string `arg:"" help:"Its name."`
}

// Help is what --help says below the summary.
func (consumersConfirmCommand) Help() string {
	return `A consumer's name over another subscription is refused at start: its claims would make other messages with the same IDs pass for duplicates. Confirm only when both have the same messages, such as after a stream was renamed or moved.

JSON: action, consumer, by, reason.

Examples:

    yekbar consumers confirm inventory --subscription 'nats ORDERS2/inventory' \
        --reason 'the stream was moved'

` + exitStatuses
}

// Run confirms.
func (c *consumersConfirmCommand) Run(p *program) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		actor, err := c.actor()
		if err != nil {
			return err
		}
		return s.Confirm(ctx, c.Consumer, c.Subscription, actor)
	})
}
