package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/bench"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/database"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

type benchCommand struct {
	Database string        `required:"" env:"YEKBAR_DATABASE" placeholder:"URL" help:"postgres://USER:PASSWORD@HOST:PORT/DB; also YEKBAR_DATABASE, which other users of the machine don't see."`
	Style    []string      `default:"no claim,hand-written,ordinary,queued,single,duplicates,database/sql" placeholder:"STYLE,…" help:"What to measure. Default: ${default}."`
	Clients  []int         `default:"8,32" placeholder:"N,…" help:"How many messages at once. Default: ${default}."`
	Rounds   int           `default:"5" placeholder:"N" help:"Rounds, in which the styles take turns. Default: ${default}."`
	Time     time.Duration `default:"4s" placeholder:"TIME" help:"Of one style in one round. Default: ${default}."`
	JSON     bool          `help:"Print one JSON object instead of tables."`
}

// Help is what --help says below the summary.
func (benchCommand) Help() string {
	return `A message is: claim it, change one of 10,000 rows, COMMIT. Styles:

    no claim       the change alone, with pgx
    hand-written   BEGIN, INSERT claim, UPDATE, COMMIT with pgx, a round trip each
    ordinary       a Handler that executes the UPDATE
    queued         a Handler whose UPDATE travels with COMMIT
    single         a StatementHandler: one round trip
    duplicates     ordinary, when every message was seen before
    database/sql   ordinary, with sqlstore over pgx

Beside them runs pgbench, where it is installed, with the same statements: one by one (the reference of the ratios) and in one pipeline. The tables are in the schemas yekbar_bench and yekbar_bench_claims, which are dropped first and last.

Example:

    yekbar bench --database postgres://me:secret@127.0.0.1:5432/shop --style ordinary,single --clients 8

Exit status: 0 done; 2 wrong flags, nothing was done; 4 the database could not be reached or refused; 130 interrupted.`
}

// Run measures and prints.
func (c *benchCommand) Run(p *program) (err error) {
	d, err := database.Parse(c.Database)
	if err == nil && d.Dialect != sqlstore.PostgreSQL {
		err = fmt.Errorf("%s: only PostgreSQL can be measured", d)
	}
	if err != nil {
		return &statusError{exitUsage, fmt.Errorf("--database: %w", err)}
	}
	config := bench.Config{Styles: c.Style, Clients: c.Clients, Rounds: c.Rounds, Time: c.Time, Rows: 10_000, Log: p.stderr}
	if err := config.Validate(); err != nil {
		return &statusError{exitUsage, err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, c.Database)
	if err != nil {
		return d.Clean(fmt.Errorf("%s: %w", d, err))
	}
	defer pool.Close()
	report, err := bench.Run(ctx, pool, config)
	switch {
	case ctx.Err() != nil:
		return &statusError{exitInterrupted, errors.New("interrupted; the bench's tables are dropped")}
	case err != nil:
		return d.Clean(fmt.Errorf("%s: %w", d, err))
	case c.JSON:
		e := json.NewEncoder(p.stdout)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return report.Markdown(p.stdout)
}
