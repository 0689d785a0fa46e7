package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/adopt"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/operate"
	"github.com/yekbar-go/yekbar/store/schema"
)

type importCommand struct {
	databaseFlags
	jsonFlag
	actorFlags
	Table          string `required:"" placeholder:"NAME" help:"The old inbox table, or a view, of the same database; also SCHEMA.NAME."`
	IDColumn       string `required:"" name:"id-column" placeholder:"NAME" help:"Has the message's ID."`
	SourceColumn   string `placeholder:"NAME" help:"Has its source, such as CloudEvents' source. Default: IDs have none."`
	TimeColumn     string `placeholder:"NAME" help:"Has when it was processed; without a zone it is UTC. Default: the claims are as of now, and kept for a whole retention."`
	ConsumerColumn string `placeholder:"NAME" help:"Has which consumer processed it; only rows of --consumer count."`
	ConsumerValue  string `placeholder:"TEXT" help:"What --consumer is called there. Default: the same."`
	Consumer       string `required:"" placeholder:"NAME" help:"Whose claims they become."`
	New            bool   `help:"The consumer has no worker yet."`
	Batch          int    `default:"200" placeholder:"N" help:"Rows in one transaction. Default: ${default}."`
}

// Help is what --help says below the summary.
func (importCommand) Help() string {
	return `What another inbox says was processed becomes claims, so that nothing is applied again after the change to Yekbar. Run it before the first worker starts, or while the old consumer is stopped; run it again at any time, also after it broke off: claims that are there are left alone.

A row's ID becomes what Yekbar would store for the message: the ID, or 'SOURCE ID' where there is a source. A consumer with Config.Scope stores more than that, and can't be imported for. Rows are refused without an ID, with one that is no UTF-8 (a binary UUID: make a view that has its text), older than the watermark, or parked or dead here.

It reads the table in one go, in one snapshot, on a connection of its own.

JSON: action, consumer, by, reason, read, new, old, refused[]{why, rows, first}.

Examples:

    yekbar import --table inbox --id-column message_id --time-column created_at \
        --consumer inventory --new --reason 'move to Yekbar'
    yekbar import --table app.processed --id-column id --source-column producer \
        --consumer-column handler --consumer inventory --reason 'move to Yekbar'

` + exitStatuses
}

type importJSON struct {
	Action   string        `json:"action"`
	Consumer string        `json:"consumer"`
	By       string        `json:"by"`
	Reason   string        `json:"reason"`
	Read     int           `json:"read"`
	New      int           `json:"new"`
	Old      int           `json:"old"`
	Refused  []refusedJSON `json:"refused"`
}

type refusedJSON struct {
	Why   string `json:"why"`
	Rows  int    `json:"rows"`
	First string `json:"first"`
}

// Run imports.
func (c *importCommand) Run(p *program) error {
	return c.operate(p, c.JSON, func(ctx context.Context, s *session) error {
		actor, err := c.actor()
		switch {
		case err != nil:
			return err
		case c.Batch < 1 || c.Batch > 300: // SQLite before 3.32 takes 999 parameters, and a row is up to 3
			return &operate.UsageError{Text: fmt.Sprintf("--batch is %d: use 1 to 300", c.Batch)}
		case c.ConsumerValue != "" && c.ConsumerColumn == "":
			return &operate.UsageError{Text: "--consumer-value goes with --consumer-column"}
		}
		return c.adopt(ctx, s, actor)
	})
}

func (c *importCommand) adopt(ctx context.Context, s *session, by yekbar.Actor) error {
	standing, err := s.Known(ctx, c.Consumer)
	var missing *operate.NotFoundError
	switch {
	case errors.As(err, &missing) && !c.New:
		return &operate.NotFoundError{Text: missing.Text + " To import before its first worker starts, say --new"}
	case err != nil && !errors.As(err, &missing):
		return err
	}
	named := c.ConsumerValue
	if named == "" {
		named = c.Consumer
	}
	table := adopt.Table{Name: c.Table, ID: c.IDColumn, Source: c.SourceColumn, Time: c.TimeColumn, Consumer: c.ConsumerColumn, Named: named}
	if err := s.Record(ctx, yekbar.AuditEntry{Action: "import", Consumer: c.Consumer, By: by, Detail: []byte("from " + c.Table)}); err != nil {
		return err
	}
	// The rows are read over a pool of their own: SQLite's has one connection,
	// which the claims need.
	db := s.db.Open(nil)
	defer db.Close()
	d := schema.Dialect(s.db.Dialect.String())
	report, err := adopt.Run(ctx, s.store, table.Rows(ctx, db, d), adopt.Config[*sql.Tx]{
		Consumer: c.Consumer, Batch: c.Batch, Watermark: standing.Watermark, Stamp: adopt.Stamp(s.db.Dialect, s.names),
		Progress: func(r adopt.Report) {
			if every := 100 * c.Batch; r.Read/every != (r.Read-c.Batch)/every {
				s.operator.say(fmt.Sprintf("%d rows read, %d new", r.Read, r.New))
			}
		},
	})
	if err != nil && report.Read == 0 {
		return err
	}
	if perr := c.print(s, report, by); perr != nil {
		return errors.Join(err, perr)
	}
	switch {
	case err != nil:
		return fmt.Errorf("broke off after %d rows (run it again, it goes on): %w", report.Read, err)
	case report.RefusedRows() > 0:
		return &operate.PartError{Text: fmt.Sprintf("%d of %d rows were refused", report.RefusedRows(), report.Read)}
	}
	return nil
}

func (c *importCommand) print(s *session, r adopt.Report, by yekbar.Actor) error {
	j := importJSON{"import", c.Consumer, by.Name, by.Reason, r.Read, r.New, r.Old, []refusedJSON{}}
	for why, f := range r.Refused {
		j.Refused = append(j.Refused, refusedJSON{why, f.Rows, f.First})
	}
	slices.SortFunc(j.Refused, func(a, b refusedJSON) int { return b.Rows - a.Rows })
	if c.JSON {
		return operate.WriteJSON(s.Out, j)
	}
	_, err := fmt.Fprintf(s.Out, "%d rows read: %d new, %d claimed before, %d refused\n", r.Read, r.New, r.Old, r.RefusedRows())
	for _, f := range j.Refused {
		if err == nil {
			_, err = fmt.Fprintf(s.Out, "    refused %d: %s; the first: %s\n", f.Rows, f.Why, operate.Safe(f.First))
		}
	}
	return err
}
