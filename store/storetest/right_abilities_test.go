package storetest_test

import (
	"context"
	"iter"
	"time"

	"github.com/yekbar-go/yekbar"
)

// What a right store can do besides comes from the memstore of the moment.

func (r *right) Hold(ctx context.Context, h *yekbar.HeldMessage) (bool, error) {
	return r.mem.Load().Hold(ctx, h)
}

func (r *right) TakeDue(ctx context.Context, consumer string, limit int, lease time.Duration) ([]*yekbar.HeldMessage, error) {
	return r.mem.Load().TakeDue(ctx, consumer, limit, lease)
}

func (r *right) HeldKeys(ctx context.Context, consumer string) ([]string, error) {
	return r.mem.Load().HeldKeys(ctx, consumer)
}

func (r *right) AddFailure(ctx context.Context, consumer, messageID, failure string) (yekbar.Attempts, error) {
	return r.mem.Load().AddFailure(ctx, consumer, messageID, failure)
}

func (r *right) Start(ctx context.Context, consumer, messageID string, within time.Duration) (yekbar.Attempts, error) {
	return r.mem.Load().Start(ctx, consumer, messageID, within)
}

func (r *right) ClearStart(ctx context.Context, consumer, messageID string) error {
	return r.mem.Load().ClearStart(ctx, consumer, messageID)
}

func (r *right) ClearAttempts(ctx context.Context, consumer, messageID string) error {
	return r.mem.Load().ClearAttempts(ctx, consumer, messageID)
}

func (r *right) Held(ctx context.Context, f yekbar.HeldFilter) iter.Seq2[*yekbar.HeldMessage, error] {
	return r.mem.Load().Held(ctx, f)
}

func (r *right) Replay(ctx context.Context, consumer, messageID string, payload []byte, by yekbar.Actor) error {
	return r.mem.Load().Replay(ctx, consumer, messageID, payload, by)
}

func (r *right) MakeDue(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return r.mem.Load().MakeDue(ctx, consumer, messageID, by)
}

func (r *right) Discard(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return r.mem.Load().Discard(ctx, consumer, messageID, by)
}

func (r *right) Claim(ctx context.Context, consumer, messageID string) (yekbar.Claimed, error) {
	return r.mem.Load().Claim(ctx, consumer, messageID)
}

func (r *right) Forget(ctx context.Context, consumer, messageID string, by yekbar.Actor) error {
	return r.mem.Load().Forget(ctx, consumer, messageID, by)
}

func (r *right) Consumers(ctx context.Context) ([]yekbar.ConsumerStatus, error) {
	return r.mem.Load().Consumers(ctx)
}

func (r *right) SetPaused(ctx context.Context, consumer string, paused bool, by yekbar.Actor) error {
	return r.mem.Load().SetPaused(ctx, consumer, paused, by)
}

func (r *right) Paused(ctx context.Context, consumer string) (by yekbar.Actor, paused bool, err error) {
	return r.mem.Load().Paused(ctx, consumer)
}

func (r *right) Record(ctx context.Context, e yekbar.AuditEntry) error {
	return r.mem.Load().Record(ctx, e)
}

func (r *right) Audit(ctx context.Context, f yekbar.AuditFilter) iter.Seq2[*yekbar.AuditEntry, error] {
	return r.mem.Load().Audit(ctx, f)
}

func (r *right) Watermark(ctx context.Context, consumer string, retention time.Duration) (yekbar.Window, error) {
	return r.mem.Load().Watermark(ctx, consumer, retention)
}

func (r *right) Prune(ctx context.Context, consumer string, limit int) (deleted int, more bool, err error) {
	return r.mem.Load().Prune(ctx, consumer, limit)
}

func (r *right) Register(ctx context.Context, reg yekbar.Registration) error {
	return r.mem.Load().Register(ctx, reg)
}

func (r *right) ConfirmSubscription(ctx context.Context, consumer, subscription string, by yekbar.Actor) error {
	return r.mem.Load().ConfirmSubscription(ctx, consumer, subscription, by)
}

func (r *right) SavePositions(ctx context.Context, consumer string, positions map[string]string) error {
	return r.mem.Load().SavePositions(ctx, consumer, positions)
}

func (r *right) Positions(ctx context.Context, consumer string) (map[string]string, error) {
	return r.mem.Load().Positions(ctx, consumer)
}
