package yekbar

import (
	"context"
	"errors"
	"fmt"
)

// A Registration is what a worker says of its consumer when it starts.
type Registration struct {
	Consumer string
	// Subscription names what it consumes, as the broker adapter says; "" is
	// neither stored nor compared.
	Subscription string
	// FormerNames are names that the consumer had; what is stored under them
	// moves to its name.
	FormerNames []string
}

// A RegistryStore knows the consumers.
type RegistryStore interface {
	// Register stores a consumer the first time. Later, another subscription
	// is a *SubscriptionError. Claims, held messages and all else of former
	// names but the audit log are moved before it returns, in batches;
	// workers of the former name must not run meanwhile, and are refused from
	// then on with a *RenamedError. Of a message that both names claimed, the
	// applied claim stays, else that of the new name.
	Register(ctx context.Context, r Registration) error
	// ConfirmSubscription lets the consumer have another subscription from
	// now on.
	ConfirmSubscription(ctx context.Context, consumer, subscription string, by Actor) error
}

// A SubscriptionError reports a consumer's name that is used over another
// subscription: its claims would make other messages with the same IDs pass
// for duplicates.
type SubscriptionError struct{ Consumer, Stored, Subscription string }

func (e *SubscriptionError) Error() string {
	return fmt.Sprintf("yekbar: consumer %q is registered over %q and now started over %q: give the new one a name of its own, or, when both have the same messages, confirm: yekbar consumers confirm %s --subscription %q --reason TEXT", e.Consumer, e.Stored, e.Subscription, e.Consumer, e.Subscription)
}

// A RenamedError reports a worker of a consumer that has another name now.
type RenamedError struct{ Consumer, Now string }

func (e *RenamedError) Error() string {
	return fmt.Sprintf("yekbar: consumer %q was renamed to %q, and its claims went along: stop workers that use the old name", e.Consumer, e.Now)
}

// A PositionStore remembers how far a consumer has acknowledged, so that a
// database that was restored or failed over to an earlier moment is noticed.
type PositionStore interface {
	// SavePositions stores positions by partition; others stay.
	SavePositions(ctx context.Context, consumer string, positions map[string]string) error
	// Positions returns what was saved.
	Positions(ctx context.Context, consumer string) (map[string]string, error)
}

// ErrBehindBroker says that the broker holds messages for acknowledged of
// which the database knows nothing.
var ErrBehindBroker = errors.New("yekbar: the database is behind the broker")
