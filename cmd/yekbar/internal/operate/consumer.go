package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/yekbar-go/yekbar"
)

// SetPaused pauses a consumer, or resumes it.
func (d *Desk) SetPaused(ctx context.Context, consumer string, paused bool, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	s, err := d.operator()
	if err != nil {
		return err
	}
	was, err := d.Known(ctx, consumer)
	if err != nil {
		return err
	}
	var warnings []string
	switch {
	case paused && was.Paused:
		warnings = append(warnings, fmt.Sprintf("it was paused already, by %s since %s: %s", Safe(was.PausedBy.Name), stamp(was.PausedAt), Safe(was.PausedBy.Reason)))
	case !paused && !was.Paused:
		warnings = append(warnings, "it was not paused")
	}
	if err := s.SetPaused(ctx, consumer, paused, by); err != nil {
		return err
	}
	if paused {
		return d.done(changed{Action: "pause", Consumer: consumer, Warnings: warnings}, by,
			"%s: paused; within seconds its workers start nothing new, and finish what runs", ShellQuote(consumer))
	}
	return d.done(changed{Action: "resume", Consumer: consumer, Warnings: warnings}, by, "%s: resumed; its workers go on within seconds", ShellQuote(consumer))
}

// Confirm lets a consumer have another subscription.
func (d *Desk) Confirm(ctx context.Context, consumer, subscription string, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	s, err := find[yekbar.RegistryStore](d, "it knows no subscriptions")
	if err != nil {
		return err
	}
	was, err := d.Known(ctx, consumer)
	if err != nil {
		return err
	}
	if err := s.ConfirmSubscription(ctx, consumer, subscription, by); err != nil {
		return err
	}
	return d.done(changed{Action: "confirm", Consumer: consumer}, by,
		"%s: its subscription was %s and is %s now; its claims go on to apply, so a message whose ID was claimed before is a duplicate",
		ShellQuote(consumer), ShellQuote(orNone(was.Subscription)), ShellQuote(subscription))
}

type claimJSON struct {
	Consumer    string       `json:"consumer"`
	MessageID   string       `json:"message_id"`
	State       yekbar.State `json:"state"`
	ClaimedAt   any          `json:"claimed_at"`
	Fingerprint string       `json:"fingerprint"`
	Result      *bytesJSON   `json:"result"`
}

// ShowClaim prints a claim.
func (d *Desk) ShowClaim(ctx context.Context, consumer, messageID string) error {
	c, err := d.claim(ctx, consumer, messageID)
	switch {
	case err != nil:
		return err
	case d.JSON:
		return d.print(claimJSON{consumer, messageID, c.State, when(c.At), fmt.Sprintf("%x", c.Fingerprint), newBytes(c.Result)})
	}
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	f := &fields{}
	f.add("consumer", consumer)
	f.add("message", messageID)
	f.addf("state", "%s: %s", c.State, map[yekbar.State]string{
		yekbar.StateApplied: "it took effect, and a repeat rests",
		yekbar.StateParked:  "the database retries it, and a repeat rests",
		yekbar.StateDead:    "a person decides, and a repeat rests",
	}[c.State])
	f.addf("claimed", "%s (%s ago)", stamp(c.At), ago(now, c.At))
	f.add("fingerprint", fingerprintText(c.Fingerprint))
	if err := f.write(d.Out); err != nil {
		return err
	}
	if c.Result != nil {
		if err := d.content("result", c.Result); err != nil {
			return err
		}
	}
	if c.State != yekbar.StateApplied {
		return d.say("\nlook: %s", d.command(string(c.State), "show", consumer, messageID))
	}
	return nil
}

func (d *Desk) claim(ctx context.Context, consumer, messageID string) (yekbar.Claimed, error) {
	s, err := d.operator()
	if err != nil {
		return yekbar.Claimed{}, err
	}
	c, err := s.Claim(ctx, consumer, messageID)
	if isNoClaim(err) {
		if _, err := d.Known(ctx, consumer); err != nil {
			return c, err
		}
		return c, d.unclaimed(ctx, consumer, messageID)
	}
	return c, err
}

// Forget removes a claim, and all that is held with it.
func (d *Desk) Forget(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	if err := by.Validate(); err != nil {
		return err
	}
	s, err := d.operator()
	if err != nil {
		return err
	}
	c, err := d.claim(ctx, consumer, messageID)
	if err != nil {
		return err
	}
	if err := s.Forget(ctx, consumer, messageID, by); err != nil {
		if errors.Is(err, yekbar.ErrNoClaim) {
			return notFound("message %q of consumer %q was forgotten by someone else just now", messageID, consumer)
		}
		return err
	}
	var warnings []string
	switch c.State {
	case yekbar.StateApplied:
		warnings = append(warnings, "it was applied: its effect stays, and comes once more if the message is delivered again")
	default:
		warnings = append(warnings, fmt.Sprintf("it was %s: if it was held, its content is gone from the database, and only its sender or the broker can bring it back", c.State))
	}
	return d.done(changed{Action: "forget", Consumer: consumer, MessageID: messageID, Warnings: warnings}, by,
		"%s: forgotten; when it is delivered again it is new", ShellQuote(messageID))
}
