package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/database"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

const migrateTimeout = 15 * time.Minute

type migrateCommand struct {
	databaseFlags
	To    *int `placeholder:"N" help:"Version to go to, up or down; 0 removes the tables. Default: this release's."`
	From  *int `placeholder:"N" help:"With --print: the version that the tables have. Default: 0, none."`
	Print bool `help:"Print the SQL, and connect to nothing."`
	Force bool `help:"Go down, also where that drops claims: their messages are then new."`
}

// Help is what --help says below the summary.
func (migrateCommand) Help() string {
	return `It may run any number of times, from any number of machines at once. Workers of the release before go on running beside newer tables, unless the release's notes say otherwise.

Examples:

    yekbar migrate --database postgres://me:secret@127.0.0.1:5432/shop
    yekbar migrate --database mysql://me:secret@127.0.0.1:3306/shop --prefix inbox_
    yekbar migrate --database postgres:// --print > yekbar.sql

Exit status: 0 done; 2 wrong flags, nothing was done; 4 the database could not be reached or refused.`
}

// Run migrates, or prints the SQL.
func (c *migrateCommand) Run(p *program) error {
	d, err := c.parse()
	if err := errors.Join(err, c.check()); err != nil {
		return &statusError{exitUsage, err}
	}
	db := d.Open(nil)
	defer db.Close()
	var m yekbar.Migrator = sqlstore.New(db, d.Dialect, sqlstore.Config{Schema: c.Schema, Prefix: c.Prefix})
	if c.Print {
		return c.print(p, m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := c.migrate(ctx, p, d, m); err != nil {
		return d.Clean(fmt.Errorf("%s: %w", d, err))
	}
	return nil
}

func (c *migrateCommand) check() error {
	var errs []error
	bad := func(text string) { errs = append(errs, errors.New(text)) }
	if c.From != nil && !c.Print {
		bad("--from goes with --print; otherwise the tables say which version they have")
	}
	for _, f := range []struct {
		name string
		v    *int
	}{{"--to", c.To}, {"--from", c.From}} {
		if f.v != nil && (*f.v < 0 || *f.v > schema.Version) {
			bad(fmt.Sprintf("%s is %d; this release knows 0 (no tables) to %d", f.name, *f.v, schema.Version))
		}
	}
	return errors.Join(errs...)
}

func (c *migrateCommand) print(p *program, m yekbar.Migrator) error {
	from, to := 0, schema.Version
	if c.From != nil {
		from = *c.From
	}
	if c.To != nil {
		to = *c.To
	}
	text, err := m.MigrationSQL(from, to)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(p.stdout, text)
	return err
}

func (c *migrateCommand) migrate(ctx context.Context, p *program, d *database.Database, m yekbar.Migrator) error {
	have, _, err := m.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if c.To != nil {
		if *c.To < have && !c.Force {
			return &statusError{exitUsage, fmt.Errorf("the tables have version %d; going down to %d can drop claims, and their messages would be new: say --force", have, *c.To)}
		}
		err = m.MigrateTo(ctx, *c.To)
	} else {
		err = m.Migrate(ctx)
	}
	if err != nil {
		return err
	}
	now, _, err := m.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if now == have {
		_, err = fmt.Fprintf(p.stdout, "%s: the tables have version %d already\n", d, now)
	} else {
		_, err = fmt.Fprintf(p.stdout, "%s: the tables had version %d and have version %d now\n", d, have, now)
	}
	return err
}
