package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/natsbroker"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/doctor"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/operate"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

type doctorCommand struct {
	databaseFlags
	jsonFlag
	Broker    string        `env:"YEKBAR_BROKER" placeholder:"URL" help:"nats://HOST:PORT/STREAM/DURABLE: compare with this too; also YEKBAR_BROKER."`
	Consumer  string        `placeholder:"NAME" help:"With --broker: whose subscription it should be."`
	Retention time.Duration `default:"720h" placeholder:"TIME" help:"With --broker: the consumer's Config.Retention. Default: ${default}."`
}

// Help is what --help says below the summary.
func (doctorCommand) Help() string {
	return `It looks at all that Yekbar depends on, and changes nothing: connection, version of the tables, their columns, keys, indexes and rights, whether something swallows a claim; the server's version, durability and default isolation, a pooler in between, the clocks, the oldest open transaction, size and dead rows; and with --broker whether claims are kept for as long as the broker may deliver again. Each line is ok, warning or problem, with the mend.

JSON: worst, findings[]: check, level (ok, warning, problem), text, mend.

Examples:

    yekbar doctor
    yekbar doctor --broker nats://127.0.0.1:4222/ORDERS/inventory \
        --consumer inventory --retention 720h
    yekbar doctor --json | jq '.findings[] | select(.level != "ok")'

Exit status: 0 no problem, but warnings perhaps; 1 a problem; 2 wrong flags, nothing was done; 130 interrupted.`
}

// Run examines.
func (c *doctorCommand) Run(p *program) error {
	d, err := c.parse()
	if err != nil {
		return &statusError{exitUsage, err}
	}
	var b *subscription
	if c.Broker != "" {
		if b, err = parseSubscription(c.Broker); err != nil {
			return &statusError{exitUsage, fmt.Errorf("--broker: %w", err)}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var findings []doctor.Finding
	if _, err := os.Stat(d.File); d.File != "" && err != nil {
		findings = []doctor.Finding{{Check: "connection", Level: doctor.Problem, Text: err.Error(), Mend: "mend the path; yekbar migrate creates the file"}}
	} else {
		db := d.Open(nil)
		defer db.Close()
		store := sqlstore.New(db, d.Dialect, sqlstore.Config{Schema: c.Schema, Prefix: c.Prefix})
		findings = doctor.Examine(ctx, doctor.Patient{
			DB: db, Dialect: schema.Dialect(d.Dialect.String()), Names: c.names(), Store: store, Broker: c.ask(ctx, b, store),
		})
	}
	if ctx.Err() != nil {
		return &statusError{exitInterrupted, fmt.Errorf("interrupted: %w", ctx.Err())}
	}
	for i := range findings {
		findings[i].Text = d.Clean(fmt.Errorf("%s", findings[i].Text)).Error()
	}
	return c.print(p, d.String(), findings)
}

// ask asks the broker, where there is one.
func (c *doctorCommand) ask(ctx context.Context, b *subscription, store *sqlstore.Store) *doctor.Broker {
	if b == nil {
		return nil
	}
	r := &doctor.Broker{Name: b.String(), Retention: c.Retention}
	r.Err = b.use(ctx, func(source *natsbroker.Source, js jetstream.JetStream) error {
		caps := source.Capabilities()
		r.Redelivery, r.Subscription = caps.Redelivery, caps.Subscription
		if r.Redelivery > 0 {
			return nil
		}
		stream, err := js.Stream(ctx, b.stream)
		if err != nil {
			return b.safe.Clean(err)
		}
		r.Redelivery = stream.CachedInfo().Config.MaxAge
		return nil
	})
	if s, ok := yekbar.Find[yekbar.OperatorStore](store); ok && c.Consumer != "" {
		// An error of the database is one of the other findings.
		if all, err := s.Consumers(ctx); err == nil {
			for _, one := range all {
				if one.Name == c.Consumer {
					r.Registered = one.Subscription
				}
			}
		}
	}
	return r
}

func (c *doctorCommand) print(p *program, name string, fs []doctor.Finding) error {
	worst := doctor.Worst(fs)
	var err error
	if c.JSON {
		err = operate.WriteJSON(p.stdout, map[string]any{"worst": worst, "findings": fs})
	} else {
		err = printFindings(p, name, fs)
	}
	if err == nil && worst == doctor.Problem {
		err = &statusError{status: exitWrong}
	}
	return err
}

func printFindings(p *program, name string, fs []doctor.Finding) error {
	const indent = 24
	if _, err := fmt.Fprintln(p.stdout, operate.Safe(name)); err != nil {
		return err
	}
	for _, f := range fs {
		if _, err := fmt.Fprintf(p.stdout, "%-7s  %-13s  %s\n", f.Level, f.Check, operate.Wrap(f.Text, indent)); err != nil {
			return err
		}
		if f.Mend != "" {
			if _, err := fmt.Fprintf(p.stdout, "%*s%s\n", indent, "", operate.Wrap("→ "+f.Mend, indent)); err != nil {
				return err
			}
		}
	}
	return nil
}
