package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/operate"
)

type deadCommands struct {
	List    deadListCommand    `cmd:"" help:"List dead messages, newest first."`
	Show    deadShowCommand    `cmd:"" help:"Print one, with its errors and content."`
	Replay  deadReplayCommand  `cmd:"" help:"Try some again, also with a corrected payload."`
	Discard deadDiscardCommand `cmd:"" help:"End some for good."`
}

type parkedCommands struct {
	List parkedListCommand `cmd:"" help:"List parked messages, newest first."`
	Show parkedShowCommand `cmd:"" help:"Print one, with its errors and content."`
	Now  parkedNowCommand  `cmd:"" help:"Make some due now."`
}

const (
	listFields = `JSON: messages[]: consumer, message_id, state, reason, attempts, errors[], held_at, due_at (parked), position, ordered, ordering_key, topic, payload_bytes; next_after where there are more.`
	showFields = `JSON: the fields of the list, and id, source, type, subject, time, headers[]{name, value}, fingerprint (hex), payload, raw (the delivery, where no message was decoded), order_notes[]. Values are {text} where they are UTF-8, else {base64}.`
	eachFields = `JSON: action, consumer, by, reason, done[], not_done[]{message_id, error}, order[]{message_id, warning, notes[]}.`
)

type listFlags struct {
	databaseFlags
	jsonFlag
	pageFlags
	Consumer string `arg:"" optional:"" help:"Of this one alone."`
	Why      string `placeholder:"REASON" help:"Held for this reason alone, such as attempts."`
}

func (c *listFlags) list(p *program, state yekbar.State) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		if err := c.check(); err != nil {
			return err
		}
		return s.List(ctx, state, operate.ListFilter{Consumer: c.Consumer, Why: c.Why, After: c.After, Limit: c.Limit})
	})
}

type deadListCommand struct{ listFlags }

// Help is what --help says below the summary.
func (deadListCommand) Help() string {
	return `Each with its reason, how long ago it was set aside, attempts and last error. When there are more, the command that goes on is printed. IDs are quoted for a shell.

Reasons: attempts, permanent, conflict, identity, undecodable, crash, boundary, beyond-window.

` + listFields + `

Examples:

    yekbar dead list
    yekbar dead list inventory --why attempts --limit 10
    yekbar dead list --json | jq -r '.messages[].message_id'

` + exitStatuses
}

// Run lists.
func (c *deadListCommand) Run(p *program) error { return c.list(p, yekbar.StateDead) }

type parkedListCommand struct{ listFlags }

// Help is what --help says below the summary.
func (parkedListCommand) Help() string {
	return `Parked messages are retried by the database: each with its reason, when it is due, attempts and last error. When there are more, the command that goes on is printed. IDs are quoted for a shell.

Reasons: delayed, behind-key, replayed.

` + listFields + `

Examples:

    yekbar parked list
    yekbar parked list inventory --why behind-key

` + exitStatuses
}

// Run lists.
func (c *parkedListCommand) Run(p *program) error { return c.list(p, yekbar.StateParked) }

type showFlags struct {
	databaseFlags
	jsonFlag
	Raw       string `placeholder:"FILE" help:"Write the payload's bytes to a new file instead of the terminal; - is standard output, and then nothing else is printed."`
	Consumer  string `arg:"" help:"Its name."`
	MessageID string `arg:"" help:"As the list has it."`
}

func (c *showFlags) show(p *program, state yekbar.State) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		if c.Raw == "-" && c.JSON {
			return &operate.UsageError{Text: "--raw - and --json exclude each other: both want standard output"}
		}
		return s.Show(ctx, state, c.Consumer, c.MessageID, c.Raw)
	})
}

type deadShowCommand struct{ showFlags }

// Help is what --help says below the summary.
func (deadShowCommand) Help() string {
	return `The payload is printed when it is text, and in hex when it is not; what could do something to a terminal is escaped.

` + showFields + `

Examples:

    yekbar dead show inventory 0198c5f2-7a1e
    yekbar dead show inventory '/shop 536365' --raw payload.json

` + exitStatuses
}

// Run shows.
func (c *deadShowCommand) Run(p *program) error { return c.show(p, yekbar.StateDead) }

type parkedShowCommand struct{ showFlags }

// Help is what --help says below the summary.
func (parkedShowCommand) Help() string {
	return `The payload is printed when it is text, and in hex when it is not; what could do something to a terminal is escaped.

` + showFields + `

Examples:

    yekbar parked show inventory 0198c5f2-7a1e

` + exitStatuses
}

// Run shows.
func (c *parkedShowCommand) Run(p *program) error { return c.show(p, yekbar.StateParked) }

type choiceFlags struct {
	databaseFlags
	jsonFlag
	actorFlags
	All       bool     `help:"All of the consumer's, in place of IDs."`
	Why       string   `placeholder:"REASON" help:"With --all: those that are held for this reason."`
	Consumer  string   `arg:"" help:"Its name."`
	MessageID []string `arg:"" optional:"" help:"As the list has them."`
}

func (c *choiceFlags) choose(p *program, do func(ctx context.Context, s *session, choice operate.Choice, by yekbar.Actor) error) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		actor, err := c.actor()
		if err != nil {
			return err
		}
		return do(ctx, s, operate.Choice{Consumer: c.Consumer, IDs: c.MessageID, All: c.All, Why: c.Why}, actor)
	})
}

type deadReplayCommand struct {
	choiceFlags
	Payload string `placeholder:"FILE" help:"Replace the payload of the one message by this file's bytes; - is standard input. The old one stays in the audit log."`
}

// Help is what --help says below the summary.
func (deadReplayCommand) Help() string {
	return `A worker of the consumer applies them within seconds, with attempts and errors forgotten: the same ID and headers, at the place of its ordering key that the message had. Copies of it that come meanwhile rest.

It warns where later messages of the ordering key are held, or may have been applied meanwhile. Which ones were can't be known: claims don't keep the key.

` + eachFields + `

Examples:

    yekbar dead replay inventory 0198c5f2-7a1e --reason 'article was added'
    yekbar dead replay inventory 0198c5f2-7a1e --payload fixed.json \
        --reason 'quantity was negative'
    yekbar dead replay inventory --all --why attempts --by ada \
        --reason 'fixed in v2.1'

` + exitStatuses
}

// Run replays.
func (c *deadReplayCommand) Run(p *program) error {
	var payload []byte
	if c.Payload != "" {
		var err error
		if payload, err = readAll(p, c.Payload); err != nil {
			return &statusError{exitUsage, fmt.Errorf("--payload: %w", err)}
		}
	}
	return c.choose(p, func(ctx context.Context, s *session, choice operate.Choice, by yekbar.Actor) error {
		return s.Replay(ctx, choice, payload, by)
	})
}

// readAll reads a file that may be empty; the result is never nil.
func readAll(p *program, name string) ([]byte, error) {
	var b []byte
	var err error
	if name == "-" {
		b, err = io.ReadAll(p.stdin)
	} else {
		b, err = os.ReadFile(name)
	}
	if b == nil {
		b = []byte{}
	}
	return b, err
}

type deadDiscardCommand struct{ choiceFlags }

// Help is what --help says below the summary.
func (deadDiscardCommand) Help() string {
	return `Content and errors are deleted; keep them first with dead show --json. The claim stays, so that a late copy rests; yekbar claims forget removes that too. Later messages of its ordering key that waited for it go on.

` + eachFields + `

Examples:

    yekbar dead discard inventory 0198c5f2-7a1e --reason 'a test order'
    yekbar dead discard inventory --all --why undecodable \
        --reason 'sent by a wrong client'

` + exitStatuses
}

// Run discards.
func (c *deadDiscardCommand) Run(p *program) error {
	return c.choose(p, func(ctx context.Context, s *session, choice operate.Choice, by yekbar.Actor) error {
		return s.Discard(ctx, choice, by)
	})
}

type parkedNowCommand struct{ choiceFlags }

// Help is what --help says below the summary.
func (parkedNowCommand) Help() string {
	return `Their next attempt is made within seconds, not when it would be due. One that waits behind an earlier message of its ordering key goes on waiting for that.

` + eachFields + `

Examples:

    yekbar parked now inventory 0198c5f2-7a1e --reason 'the price service is back'
    yekbar parked now inventory --all --reason 'the price service is back'

` + exitStatuses
}

// Run makes them due.
func (c *parkedNowCommand) Run(p *program) error {
	return c.choose(p, func(ctx context.Context, s *session, choice operate.Choice, by yekbar.Actor) error {
		return s.MakeDue(ctx, choice, by)
	})
}
