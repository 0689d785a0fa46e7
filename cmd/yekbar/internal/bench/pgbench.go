package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Reference names the style that others are compared with: pgbench -M
// prepared, four statements, each its own round trip.
const Reference = "pgbench"

// scripts are what pgbench runs; the first is the reference.
var scripts = []struct {
	name string
	sql  func(*workload) string
}{
	{Reference, func(w *workload) string { return fmt.Sprintf(script, w.rows, "", w.claims(), w.stock(), "") }},
	{"pgbench, one pipeline", func(w *workload) string {
		return fmt.Sprintf(script, w.rows, `\startpipeline`, w.claims(), w.stock(), `\endpipeline`)
	}},
}

const script = `\set id random(1, %d)
%s
BEGIN;
INSERT INTO %s (consumer_name, message_id, state, fingerprint) VALUES ('pgbench', gen_random_uuid()::text, 'applied', '\x01000102030405060708090a0b0c0d0e0f'::bytea);
UPDATE %s SET units = units - 1 WHERE id = :id;
COMMIT;
%s
`

// pgbench is PostgreSQL's own load program.
type pgbench struct {
	path string
	env  []string
}

func findPgbench(ctx context.Context, c *pgx.ConnConfig) (*pgbench, error) {
	path, err := exec.LookPath("pgbench")
	if err != nil {
		// Debian keeps it beside the server.
		found, globErr := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
		if globErr != nil || len(found) == 0 {
			return nil, errors.New("pgbench is not installed (Debian: postgresql-contrib; else PostgreSQL's bin folder belongs in PATH)")
		}
		path = slices.Max(found)
	}
	if err := exec.CommandContext(ctx, path, "--version").Run(); err != nil {
		return nil, fmt.Errorf("%s --version: %w", path, err)
	}
	// By the environment: arguments are everybody's to read.
	env := append(os.Environ(), "PGHOST="+c.Host, "PGPORT="+strconv.Itoa(int(c.Port)), "PGUSER="+c.User,
		"PGPASSWORD="+c.Password, "PGDATABASE="+c.Database)
	return &pgbench{path: path, env: env}, nil
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)

func (p *pgbench) run(ctx context.Context, sql string, clients int, d time.Duration) (round, error) {
	seconds := strconv.Itoa(max(1, int(d.Round(time.Second).Seconds())))
	cmd := exec.CommandContext(ctx, p.path, "--no-vacuum", "--protocol=prepared", "--file=-",
		"--client="+strconv.Itoa(clients), "--jobs=2", "--time="+seconds)
	cmd.Env = p.env
	cmd.Stdin = strings.NewReader(sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return round{}, fmt.Errorf("pgbench: %w: %s", err, strings.TrimSpace(string(out)))
	}
	m := tps.FindSubmatch(out)
	if m == nil {
		return round{}, fmt.Errorf("pgbench printed no rate: %s", strings.TrimSpace(string(out)))
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	return round{rate: rate}, err
}
