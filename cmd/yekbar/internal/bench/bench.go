package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says what to measure.
type Config struct {
	Styles  []string      // of Styles
	Clients []int         // at once, a table for each
	Rounds  int           // of each style at each number of clients
	Time    time.Duration // of one style in one round
	Rows    int           // of the table that messages change
	Log     io.Writer     // progress
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	for _, s := range c.Styles {
		if _, ok := styles[s]; !ok {
			errs = append(errs, fmt.Errorf("no style %q: there are %q", s, Styles()))
		}
	}
	if len(c.Styles) == 0 {
		errs = append(errs, fmt.Errorf("no style given: there are %q", Styles()))
	}
	if len(c.Clients) == 0 || slices.Min(c.Clients) < 1 || slices.Max(c.Clients) > 1000 {
		errs = append(errs, fmt.Errorf("clients %v: from 1 to 1000", c.Clients))
	}
	if c.Rounds < 1 {
		errs = append(errs, fmt.Errorf("%d rounds: at least 1", c.Rounds))
	}
	if c.Time < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("%v a round: at least 100ms", c.Time))
	}
	return errors.Join(errs...)
}

// A Report is what was measured.
type Report struct {
	Server  string  `json:"server"`
	Durable bool    `json:"durable"` // fsync and synchronous_commit are on
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"seconds"` // of a style in a round
	Cells   []Cell  `json:"cells"`
}

// A Cell is one style at one number of clients, over all rounds.
type Cell struct {
	Style   string  `json:"style"`
	Clients int     `json:"clients"`
	Rate    float64 `json:"rate"`   // messages a second, the rounds' median
	Low     float64 `json:"low"`    // of the slowest round
	High    float64 `json:"high"`   // of the fastest
	Ratio   float64 `json:"ratio"`  // to Reference, the rounds' median; 0 without pgbench
	P50     float64 `json:"p50_ms"` // of a message, all rounds together; 0: not measured
	P99     float64 `json:"p99_ms"`
	Allocs  float64 `json:"allocs"` // a message
}

// round is what one style did in one round.
type round struct {
	rate      float64
	latencies []time.Duration
	allocs    float64
}

// Run measures. Its tables are in schemas of its own, which it drops first and
// last.
func Run(ctx context.Context, pool *pgxpool.Pool, c Config) (report *Report, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &workload{pool: pool, rows: c.Rows}
	if err := w.create(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.drop(context.WithoutCancel(ctx))) }()
	report = &Report{Rounds: c.Rounds, Seconds: c.Time.Seconds()}
	if report.Server, report.Durable, err = w.server(ctx); err != nil {
		return nil, err
	}
	pgbench, err := findPgbench(ctx, pool.Config().ConnConfig)
	if err != nil {
		if _, err := fmt.Fprintf(c.Log, "%v: rates have no ratio\n", err); err != nil {
			return nil, err
		}
	}
	for _, clients := range c.Clients {
		cells, err := w.measure(ctx, c, clients, pgbench)
		if err != nil {
			return nil, err
		}
		report.Cells = append(report.Cells, cells...)
	}
	return report, nil
}

// A contestant takes its turns with the others.
type contestant struct {
	name string
	run  func(context.Context) (round, error)
}

func (w *workload) contestants(c Config, clients int, pgbench *pgbench) []contestant {
	var all []contestant
	if pgbench != nil {
		for _, s := range scripts {
			all = append(all, contestant{s.name, func(ctx context.Context) (round, error) {
				return pgbench.run(ctx, s.sql(w), clients, c.Time)
			}})
		}
	}
	for _, name := range c.Styles {
		all = append(all, contestant{name, func(ctx context.Context) (round, error) {
			return w.run(ctx, styles[name], clients, c.Time)
		}})
	}
	return all
}

// warmUp fills a style's connections and statement caches.
const warmUp = 200 * time.Millisecond

// run lets a style work for a time, with connections that it has only then.
func (w *workload) run(ctx context.Context, s style, clients int, d time.Duration) (r round, err error) {
	process, closeStyle, err := s(ctx, w, clients)
	if err != nil {
		return round{}, err
	}
	defer func() { err = errors.Join(err, closeStyle()) }()
	if _, err := load(ctx, clients, warmUp, w.rows, process); err != nil {
		return round{}, err
	}
	return load(ctx, clients, d, w.rows, process)
}

// measure lets all styles take turns.
func (w *workload) measure(ctx context.Context, c Config, clients int, pgbench *pgbench) ([]Cell, error) {
	all := w.contestants(c, clients, pgbench)
	rounds := make([][]round, len(all))
	for n := range c.Rounds {
		for i := range all {
			// Each begins one place later in the next round.
			at := (i + n) % len(all)
			if err := w.reset(ctx); err != nil {
				return nil, err
			}
			r, err := all[at].run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s, %d clients: %w", all[at].name, clients, err)
			}
			rounds[at] = append(rounds[at], r)
			if _, err := fmt.Fprintf(c.Log, "round %d of %d, %d clients: %s %.0f/s\n", n+1, c.Rounds, clients, all[at].name, r.rate); err != nil {
				return nil, err
			}
		}
	}
	cells := make([]Cell, len(all))
	for i, a := range all {
		cells[i] = summarise(rounds[i], rounds[0], pgbench != nil)
		cells[i].Style, cells[i].Clients = a.name, clients
	}
	return cells, nil
}

// summarise compares with the reference round by round, so that a slow minute
// of the machine weighs on both.
func summarise(rs, reference []round, compare bool) Cell {
	var (
		cell      Cell
		rates     = make([]float64, len(rs))
		ratios    = make([]float64, len(rs))
		allocs    = make([]float64, len(rs))
		latencies []time.Duration
	)
	for i, r := range rs {
		rates[i], ratios[i], allocs[i] = r.rate, r.rate/reference[i].rate, r.allocs
		latencies = append(latencies, r.latencies...)
	}
	cell.Rate, cell.Low, cell.High = median(rates), slices.Min(rates), slices.Max(rates)
	cell.Allocs = median(allocs)
	if compare {
		cell.Ratio = median(ratios)
	}
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		cell.P50 = latencies[n/2].Seconds() * 1000
		cell.P99 = latencies[min(n-1, n*99/100)].Seconds() * 1000
	}
	return cell
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	if n%2 == 1 {
		return xs[n/2]
	}
	return (xs[n/2-1] + xs[n/2]) / 2
}
