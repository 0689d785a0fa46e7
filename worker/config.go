package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/yekbar-go/yekbar"
)

// Config configures a Worker; the zero value is ready for use.
type Config struct {
	// Concurrency is how many handlers run at once; default 16.
	Concurrency int
	// Prefetch is the most unsettled deliveries held, running ones and those
	// whose acknowledgement is under way included; it bounds the memory,
	// whatever the backlog. Default 2 × Concurrency.
	Prefetch int
	// MaxAttempts is the attempt after whose failure a message is set aside;
	// default 10. It works where the broker counts
	// (Capabilities.Counts), whose count also has deliveries that ended
	// otherwise, in a crash or a shutdown; but only a failure of the
	// message's own sets it aside. Elsewhere a message is tried for ever.
	MaxAttempts int
	// Backoff is the delay of what is given back; default 1 s to 5 min. Tries
	// has no meaning here.
	Backoff yekbar.Backoff
	// Grace is how long running handlers may go on after ctx ends; default
	// 20 s.
	Grace time.Duration
	// Observer sees each settling as the operation "settle"; default none.
	Observer yekbar.Observer
	// Logger gets failures, outages and what was set aside; default
	// slog.Default().
	Logger *slog.Logger
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("yekbar/worker: Config."+format, args...))
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"Concurrency", c.Concurrency}, {"Prefetch", c.Prefetch}, {"MaxAttempts", c.MaxAttempts}, {"Backoff.Tries", c.Backoff.Tries}} {
		if f.n < 0 {
			bad("%s is %d: it can't be negative; 0 means the default", f.name, f.n)
		}
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"Grace", c.Grace}, {"Backoff.Min", c.Backoff.Min}, {"Backoff.Max", c.Backoff.Max}} {
		if f.d < 0 {
			bad("%s is %v: it can't be negative; 0 means the default", f.name, f.d)
		}
	}
	d := c.withDefaults()
	if d.Prefetch < d.Concurrency && errs == nil {
		bad("Prefetch (%d) is below Concurrency (%d): handlers would never all run; raise one or lower the other", d.Prefetch, d.Concurrency)
	}
	if c.Backoff.Max > 0 && c.Backoff.Max < c.Backoff.Min {
		bad("Backoff.Max (%v) is below Backoff.Min (%v)", c.Backoff.Max, c.Backoff.Min)
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	if c.Prefetch == 0 {
		c.Prefetch = 2 * c.Concurrency
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 10
	}
	if c.Backoff.Min == 0 {
		c.Backoff.Min = time.Second
	}
	if c.Backoff.Max == 0 {
		c.Backoff.Max = max(5*time.Minute, c.Backoff.Min)
	}
	if c.Grace == 0 {
		c.Grace = 20 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
