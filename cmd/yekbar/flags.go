package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/database"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/doctor"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/operate"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// firstAnswer is how long the database may take to answer at all.
const firstAnswer = 15 * time.Second

// exitStatuses end the help of the operator's commands.
const exitStatuses = `Exit status: 0 done; 2 wrong flags, nothing was done; 3 some of it was done, some could not be; 4 the database could not be reached or refused; 5 no such consumer, message or claim, nothing was done; 130 interrupted.`

// databaseFlags say where Yekbar's tables are.
type databaseFlags struct {
	Database string `required:"" env:"YEKBAR_DATABASE" placeholder:"URL" help:"sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/DB or mysql://USER:PASSWORD@HOST:PORT/DB; also YEKBAR_DATABASE, which other users of the machine don't see."`
	Schema   string `placeholder:"NAME" help:"Of the tables, on PostgreSQL. Default: yekbar."`
	Prefix   string `placeholder:"NAME" help:"Of the tables' names, elsewhere. Default: yekbar_."`
}

func (f *databaseFlags) names() schema.Names {
	return schema.Names{Schema: f.Schema, Prefix: f.Prefix}
}

// parse reads the flags, and connects to nothing.
func (f *databaseFlags) parse() (*database.Database, error) {
	d, err := database.Parse(f.Database)
	if err != nil {
		return nil, fmt.Errorf("--database: %w", err)
	}
	var errs []error
	postgres := d.Dialect == sqlstore.PostgreSQL
	if postgres && f.Prefix != "" {
		errs = append(errs, errors.New("--prefix is not for PostgreSQL; use --schema"))
	}
	if !postgres && f.Schema != "" {
		errs = append(errs, errors.New("--schema is for PostgreSQL alone; use --prefix"))
	}
	errs = append(errs, f.names().Validate(schema.Dialect(d.Dialect.String())))
	return d, errors.Join(errs...)
}

// again is how these flags are given again, in a command that is printed: the
// URL, which may have a password, is not repeated.
func (f *databaseFlags) again() string {
	s := ""
	if os.Getenv("YEKBAR_DATABASE") != f.Database {
		s = " --database URL"
	}
	if f.Schema != "" {
		s += " --schema " + operate.ShellQuote(f.Schema)
	}
	if f.Prefix != "" {
		s += " --prefix " + operate.ShellQuote(f.Prefix)
	}
	return s
}

type jsonFlag struct {
	JSON bool `name:"json" help:"Print one JSON object, on one line."`
}

type pageFlags struct {
	After int64 `placeholder:"N" help:"Go on after this one; the list says which."`
	Limit int   `default:"50" placeholder:"N" help:"At most so many. Default: ${default}."`
}

func (f pageFlags) check() error {
	if f.After < 0 || f.Limit < 1 || f.Limit > 10_000 {
		return &operate.UsageError{Text: fmt.Sprintf("--after is %d and --limit is %d: use 0 or more, and 1 to 10000", f.After, f.Limit)}
	}
	return nil
}

// actorFlags say who does something, and why.
type actorFlags struct {
	By     string `env:"YEKBAR_BY" placeholder:"NAME" help:"Who does it, for the audit log; also YEKBAR_BY. Default: the login name."`
	Reason string `required:"" placeholder:"TEXT" help:"Why, for the audit log."`
}

func (f actorFlags) actor() (yekbar.Actor, error) {
	a := yekbar.Actor{Name: f.By, Reason: f.Reason}
	if a.Name == "" {
		a.Name = os.Getenv("SUDO_USER") // root is nobody's name
	}
	if a.Name == "" {
		// Without one it is asked for below.
		if u, err := user.Current(); err == nil {
			a.Name = u.Username
		}
	}
	if a.Validate() != nil {
		return a, &operate.UsageError{Text: "say who does it and why, for the audit log: --by NAME --reason TEXT"}
	}
	return a, nil
}

// A session is a call's connection to the database.
type session struct {
	*operate.Desk
	db       *database.Database
	store    *sqlstore.Store
	names    schema.Names
	operator *program
}

// operate runs something over the database: it connects, looks at the version
// of the tables, and maps errors to exit statuses.
func (f *databaseFlags) operate(p *program, json bool, do func(ctx context.Context, s *session) error) error {
	d, err := f.parse()
	if err != nil {
		return &statusError{exitUsage, err}
	}
	if d.File != "" {
		// SQLite would create it.
		if _, err := os.Stat(d.File); err != nil {
			return &statusError{exitFailed, fmt.Errorf("%s: %w; is the path right?", d, err)}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db := d.Open(nil)
	defer db.Close()
	store := sqlstore.New(db, d.Dialect, sqlstore.Config{Schema: f.Schema, Prefix: f.Prefix})
	s := &session{db: d, store: store, names: f.names(), operator: p, Desk: &operate.Desk{
		Store: store, Out: p.stdout, Notes: p.stderr, JSON: json, Flags: f.again(),
		Now: func(ctx context.Context) (time.Time, error) {
			return doctor.Now(ctx, db, schema.Dialect(d.Dialect.String()))
		},
	}}
	err = s.ready(ctx)
	if err == nil {
		err = do(ctx, s)
	}
	return s.status(ctx, err)
}

// ready says whether the tables are there, and of a version that is known.
func (s *session) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	have, want, err := s.store.SchemaVersion(ctx)
	switch {
	case err != nil:
		return err
	case have == 0:
		return errors.New("there are no tables of Yekbar's: run yekbar migrate, or say which they are with --schema or --prefix")
	case have < want:
		return fmt.Errorf("the tables have version %d, and this release needs %d: run yekbar migrate", have, want)
	}
	return nil
}

// status gives an error the exit status that the help texts say.
func (s *session) status(ctx context.Context, err error) error {
	var missing *operate.NotFoundError
	var part *operate.PartError
	var usage *operate.UsageError
	var own *statusError
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case errors.As(err, &usage):
		return &statusError{exitUsage, err}
	case errors.As(err, &missing):
		return &statusError{exitMissing, err}
	case errors.As(err, &part):
		return &statusError{exitInput, err}
	case ctx.Err() != nil:
		return &statusError{exitInterrupted, fmt.Errorf("interrupted: %w", err)}
	}
	return s.db.Clean(fmt.Errorf("%s: %w", s.db, err))
}
