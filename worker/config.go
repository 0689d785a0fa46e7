package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

// Config configures a Worker; the zero value is ready for use.
type Config struct {
	// Concurrency is how many handlers, or batches, run at once; default 16.
	Concurrency int
	// Batch is the most messages that are processed in one transaction;
	// default 1. A batch is what is there: nothing waits for company. It
	// halves after transient failures and grows back. Under ByKey it has one
	// message of each key.
	Batch int
	// Prefetch is the most unsettled deliveries held, running ones and those
	// whose acknowledgement is under way included; it bounds the memory,
	// whatever the backlog. Those that wait for another message of their
	// ordering key are not counted, up to eight times as many. Default
	// 2 × Concurrency × Batch.
	Prefetch int
	// Order says which messages wait for each other; default OrderAuto.
	Order Order
	// SingleProcess is your word that no other process consumes this
	// subscription at the same time; ByKey and Strict need it where the
	// broker does not see to it (Capabilities.KeyAffinity).
	SingleProcess bool
	// DeadKeys says what follows when the first message of a key is dead;
	// default GoOn. HoldKey needs ByKey.
	DeadKeys DeadKeys
	// MaxAttempts is the failed attempt after which a message is set aside;
	// default 10. They are counted in the database, for all workers together
	// and over restarts; by a store that can't, the broker's count is used.
	MaxAttempts int
	// MaxCrashes is how often a process may end while it handles a message
	// alone, before that message is set aside; default 3.
	MaxCrashes int
	// Backoff is the delay before the next attempt; default 1 s to 5 min.
	// Tries has no meaning here.
	Backoff yekbar.Backoff
	// ParkAfter is the longest delay that a failed message waits here, its
	// lease extended; for a longer one the database takes it over and it is
	// acknowledged. Default 5 s.
	ParkAfter time.Duration
	// EnvironmentLimit is how many different messages must fail, with none
	// succeeding in between, because the database is not fit for the handler
	// (a table is missing, no rights, read-only) before the consumer pauses
	// itself and probes with one message; default 5.
	EnvironmentLimit int
	// Grace is how long running handlers may go on after ctx ends; default
	// 20 s.
	Grace time.Duration
	// AllowShortRetention is the reason why claims may be kept for a shorter
	// time than the broker may deliver again; without one that is refused.
	AllowShortRetention string
	// FormerNames are names that the consumer had: its claims go along.
	FormerNames []string
	// TakesOver is the reason why messages that the broker holds for
	// acknowledged have no claims, such as "until May the importer consumed
	// this subscription"; without one the worker refuses to start over them,
	// for a database that was restored to an earlier moment looks the same.
	// It may be removed after the first start.
	TakesOver string
	// Observer sees each settling as the operation "settle"; default none.
	Observer yekbar.Observer
	// Logger gets failures, outages and what was set aside; default
	// slog.Default().
	Logger *slog.Logger
}

// An Order says which messages wait for each other.
type Order uint8

const (
	// OrderAuto is ByKey where that can be kept, else Unordered.
	OrderAuto Order = iota
	// ByKey handles the messages of one OrderingKey one after the other, as
	// they were received. When one must be tried again later, it is parked in
	// the database, and the later ones of its key behind it. Messages without
	// a key wait for none.
	//
	// It needs a broker that gives one key's messages to one process at a
	// time, or SingleProcess, and a store that can hold. It is as good as the
	// broker's order is when it delivers again.
	ByKey
	// Unordered lets no message wait for another.
	Unordered
	// Strict handles one message at a time, as received; one that fails is
	// tried again before the next. It needs a broker with a total order.
	Strict
)

var orderNames = map[Order]string{OrderAuto: "auto", ByKey: "by key", Unordered: "unordered", Strict: "strict"}

// String returns "auto", "by key", "unordered" or "strict".
func (o Order) String() string {
	if name, ok := orderNames[o]; ok {
		return name
	}
	return fmt.Sprintf("Order(%d)", uint8(o))
}

// DeadKeys says what happens to later messages of a key whose first is dead.
type DeadKeys uint8

const (
	GoOn    DeadKeys = iota // they are handled; a warning is logged
	HoldKey                 // they are parked behind it until a person replays or discards it
)

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("yekbar/worker: Config."+format, args...))
	}
	for _, f := range []struct {
		name string
		n    int
	}{
		{"Concurrency", c.Concurrency}, {"Batch", c.Batch}, {"Prefetch", c.Prefetch}, {"MaxAttempts", c.MaxAttempts},
		{"MaxCrashes", c.MaxCrashes}, {"EnvironmentLimit", c.EnvironmentLimit}, {"Backoff.Tries", c.Backoff.Tries},
	} {
		if f.n < 0 {
			bad("%s is %d: it can't be negative; 0 means the default", f.name, f.n)
		}
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"Grace", c.Grace}, {"ParkAfter", c.ParkAfter}, {"Backoff.Min", c.Backoff.Min}, {"Backoff.Max", c.Backoff.Max}} {
		if f.d < 0 {
			bad("%s is %v: it can't be negative; 0 means the default", f.name, f.d)
		}
	}
	d := c.withDefaults()
	if d.Prefetch < d.Concurrency && errs == nil {
		bad("Prefetch (%d) is below Concurrency (%d): handlers would never all run; raise one or lower the other", d.Prefetch, d.Concurrency)
	}
	if d.Prefetch < d.Batch && errs == nil {
		bad("Prefetch (%d) is below Batch (%d): no batch would ever be full; raise one or lower the other", d.Prefetch, d.Batch)
	}
	if c.Backoff.Max > 0 && c.Backoff.Max < c.Backoff.Min {
		bad("Backoff.Max (%v) is below Backoff.Min (%v)", c.Backoff.Max, c.Backoff.Min)
	}
	if c.Order > Strict {
		bad("Order is %d: use OrderAuto, ByKey, Unordered or Strict", c.Order)
	}
	if c.DeadKeys > HoldKey {
		bad("DeadKeys is %d: use GoOn or HoldKey", c.DeadKeys)
	}
	if c.DeadKeys == HoldKey && c.Order != ByKey {
		bad("DeadKeys is HoldKey, and Order is %v: only ByKey has keys to hold", c.Order)
	}
	for _, reason := range []struct{ name, text string }{{"AllowShortRetention", c.AllowShortRetention}, {"TakesOver", c.TakesOver}} {
		if reason.text != "" && strings.TrimSpace(reason.text) == "" {
			bad("%s is blank: write down the reason", reason.name)
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	setDefault(&c.Concurrency, 16)
	setDefault(&c.Batch, 1)
	if c.Order == Strict {
		c.Concurrency, c.Batch = 1, 1
	}
	setDefault(&c.Prefetch, 2*c.Concurrency*c.Batch)
	setDefault(&c.MaxAttempts, 10)
	setDefault(&c.MaxCrashes, 3)
	setDefault(&c.EnvironmentLimit, 5)
	setDefault(&c.Backoff.Min, time.Second)
	setDefault(&c.Backoff.Max, max(5*time.Minute, c.Backoff.Min))
	setDefault(&c.ParkAfter, 5*time.Second)
	setDefault(&c.Grace, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
