package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/demo"
)

type demoCommand struct {
	Orders     *int    `placeholder:"N" xor:"source" help:"Orders to make up (2000)."`
	Workers    int     `default:"4" placeholder:"N" help:"Worker processes (${default})."`
	Duplicates percent `default:"20" placeholder:"P" help:"Percent of the orders that are published twice, 0 to 100 (${default})."`
	Kills      int     `default:"12" placeholder:"N" help:"How often a worker gets SIGKILL (${default})."`
	Seed       uint64  `default:"1" placeholder:"N" help:"Of the made-up orders, of the copies and of the killing (${default})."`
	Database   string  `placeholder:"URL" help:"sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/DB or mysql://USER:PASSWORD@HOST:PORT/DB. Default: a temporary SQLite file."`
	Broker     string  `placeholder:"URL" help:"nats://HOST:PORT, a server with JetStream. Default: one that is embedded in this process."`
	Input      string  `placeholder:"FILE" xor:"source" help:"Orders to take instead of made-up ones: NDJSON, also with gzip; - is standard input."`
	Totals     string  `placeholder:"FILE" help:"Write the units taken of each article to it, as found in the database."`
	Naive      string  `placeholder:"KIND" help:"Run one of the two usual wrong consumers instead: exists-check or ack-first."`
	JSON       bool    `name:"json" help:"Print one JSON object in place of the table."`
}

// Help is what --help says below the summary.
func (demoCommand) Help() string {
	return `A shop publishes orders to NATS JetStream, some of them twice. Worker processes take them out of a table of stock, each message in one transaction with its claim. The workers are killed with SIGKILL: right before COMMIT, right after COMMIT and before the acknowledgement, and anywhere. Some acknowledgements are lost on purpose. In the end the stock must be what the orders say.

The tables stand in the schema yekbar_demo (PostgreSQL) or behind the prefix yekbar_demo_ (elsewhere); tables of that name which the demo did not make are left alone, and it refuses to run. On a broker of yours it makes a stream YEKBAR_DEMO_…, and deletes it in the end.

An input line is {"invoice":"536365","lines":[{"sku":"85123A","quantity":6}]}; negative quantities come back, other members are left alone. The message's ID is the invoice number. A line that is no order is reported with its number, and the rest goes on. An order that has the invoice number of another one is a conflict, and set aside.

Examples:

    yekbar demo
    yekbar demo --naive exists-check
    yekbar demo --orders 50000 --workers 8 --kills 100 --seed 7
    yekbar demo --database postgres://me:secret@127.0.0.1:5432/test
    yekbar demo --input orders.ndjson.gz --totals totals.tsv --json

Exit status: 0 the stock is right; 1 it is not; 2 wrong flags, nothing was done; 3 it is right, but lines of the input were no orders; 4 the run could not be finished; 130 interrupted.`
}

// Run runs the demo.
func (c *demoCommand) Run(p *program) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which is also the workers': %w", err)
	}
	signal.Ignore(syscall.SIGPIPE) // who doesn't look at the progress still wants it cleaned up
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // the second Ctrl-C ends at once
	orders := 2000
	if c.Orders != nil {
		orders = *c.Orders
	}
	report, err := demo.Run(ctx, demo.Config{
		Orders: orders, Workers: c.Workers, Duplicates: float64(c.Duplicates), Kills: c.Kills, Seed: c.Seed,
		Naive: c.Naive, Database: c.Database, Broker: c.Broker, Input: c.Input, Totals: c.Totals,
		Executable: self, Args: []string{"demo-worker"},
		Stdin: p.stdin, Stderr: p.stderr, Columns: columns(p.stderr),
	})
	if report != nil {
		write := report.WriteTable
		if c.JSON {
			write = report.WriteJSON
		}
		if e := write(p.stdout); e != nil {
			return fmt.Errorf("print the report: %w", e)
		}
		if c.JSON {
			p.say(report.Verdict())
		}
	}
	var config *demo.ConfigError
	switch {
	case errors.As(err, &config):
		return &statusError{exitUsage, err}
	case ctx.Err() != nil && report != nil:
		return &statusError{status: exitInterrupted}
	case ctx.Err() != nil:
		return &statusError{exitInterrupted, errors.New("interrupted")}
	case err != nil:
		return err
	case !report.Exact:
		return &statusError{status: exitWrong}
	case report.BadLines > 0:
		return &statusError{status: exitInput}
	}
	return nil
}

// columns returns the width of a terminal, and 0 for anything else.
func columns(f *os.File) int {
	if !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}

// percent is 0 to 100, with or without a % sign.
type percent float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *percent) UnmarshalText(text []byte) error {
	number, sign := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || !(f >= 0 && f <= 100):
		return fmt.Errorf("%q is no percentage; use 0 to 100", text)
	case f > 0 && f < 1 && !sign:
		return fmt.Errorf("%s may be a share or a percentage; write %g%% or %g%%", number, f*100, f)
	}
	*p = percent(f)
	return nil
}

type demoWorkerCommand struct{}

// Run is a worker process.
func (demoWorkerCommand) Run(p *program) error {
	signal.Ignore(os.Interrupt) // the terminal's is for the parent
	log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return demo.Work(context.Background(), p.stdin, p.stdout, log)
}
