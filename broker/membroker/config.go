package membroker

import (
	"time"

	"github.com/yekbar-go/yekbar/broker"
)

// Config configures a Broker; the zero value is a broker that can do nothing
// beyond delivering at least once.
type Config struct {
	// Capabilities are declared by every source, and kept.
	Capabilities broker.Capabilities
	// Topics are those that exist; publishing to another is ErrUnroutable.
	// Default: every topic exists.
	Topics []string
	// MaxSize is the largest payload in bytes; default 1 MiB.
	MaxSize int
	// Seed decides which message comes next where the order is not Total.
	Seed uint64
}

// Typical returns the capabilities of a capable broker: counted attempts,
// delayed give-back, a lease of 30 s that can be extended, one order for all,
// confirmed acknowledgements.
func Typical() broker.Capabilities {
	return broker.Capabilities{
		StableID:    true,
		Counts:      true,
		NackDelay:   true,
		Lease:       30 * time.Second,
		Extendable:  true,
		Order:       broker.Total,
		ConfirmsAck: true,
	}
}
