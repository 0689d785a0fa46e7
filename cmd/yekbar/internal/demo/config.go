package demo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Config configures a run; every field is required but those that say so.
type Config struct {
	Orders     int     // to make up; without Input
	Workers    int     // processes
	Duplicates float64 // percent of the orders that are published twice
	Kills      int
	Seed       uint64
	Naive      string // "", ExistsCheck or AckFirst
	Database   string // URL; empty: a temporary SQLite file
	Broker     string // URL; empty: an embedded server
	Input      string // file of orders, "-" for Stdin; empty: made up
	Totals     string // file to write; may be empty

	Executable string   // the program that runs a worker
	Args       []string // its arguments
	Stdin      io.Reader
	Stderr     io.Writer
	Columns    int // of the terminal that Stderr is; 0: it is none
}

// The wrong consumers.
const (
	ExistsCheck = "exists-check" // looks whether the order was handled, then changes, then marks
	AckFirst    = "ack-first"    // acknowledges, then changes
)

const (
	maxWorkers = 64
	maxKills   = 10_000
)

// Validate reports all problems at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Input == "" && c.Orders < 1 {
		bad("--orders is %d: at least 1 is needed", c.Orders)
	}
	if c.Workers < 1 || c.Workers > maxWorkers {
		bad("--workers is %d: use 1 to %d", c.Workers, maxWorkers)
	}
	if c.Duplicates < 0 || c.Duplicates > 100 {
		bad("--duplicates is %g: use 0 to 100 percent", c.Duplicates)
	}
	if c.Kills < 0 || c.Kills > maxKills {
		bad("--kills is %d: use 0 to %d", c.Kills, maxKills)
	}
	if kinds := []string{ExistsCheck, AckFirst}; c.Naive != "" && !slices.Contains(kinds, c.Naive) {
		bad("--naive is %q: use %s", c.Naive, strings.Join(kinds, " or "))
	}
	return errors.Join(errs...)
}
