package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/failpoint"
)

// A Report is what a run came to.
type Report struct {
	Naive            string // the wrong consumer that ran; "" for Yekbar's
	Database, Broker string // for people
	Tables           string // where the demo's tables are
	Kept             bool   // they are still there
	Seed             uint64
	Workers          int

	Orders      int64 // different ones that were published
	Messages    int64 // published
	Twice       int64 // of these, second copies
	Deliveries  int64 // by the broker's own count
	Applied     int64 // times that an order changed the stock, by the database
	Duplicates  int64 // answers "duplicate", as far as workers lived to report
	Conflicts   int64 // orders set aside for having another one's invoice number
	Dead        int64 // messages set aside, by the database
	KillsAsked  int
	Kills       map[failpoint.Point]int
	Lost        int64    // orders that never changed the stock
	Doubled     int64    // orders that changed it more than once
	Examples    []string // of these
	Articles    int
	Differing   int // articles with a wrong stock
	Expected    int64
	Found       int64
	Exact       bool
	BadLines    int
	Interrupted bool
	Took        time.Duration
	Attribution string // of the input

	articles []article
}

// KillCount returns how many kills there were, of all kinds.
func (r *Report) KillCount() int {
	n := 0
	for _, k := range r.Kills {
		n += k
	}
	return n
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(struct {
		Orders        int64   `json:"orders"`
		Deliveries    int64   `json:"deliveries"`
		Applied       int64   `json:"applied"`
		Duplicates    int64   `json:"duplicates"`
		Conflicts     int64   `json:"conflicts"`
		Dead          int64   `json:"dead"`
		Kills         int     `json:"kills"`
		UnitsExpected int64   `json:"units_expected"`
		UnitsFound    int64   `json:"units_found"`
		Exact         bool    `json:"exact"`
		Seconds       float64 `json:"seconds"`
	}{
		r.Orders, r.Deliveries, r.Applied, r.Duplicates, r.Conflicts, r.Dead, r.KillCount(),
		r.Expected, r.Found, r.Exact, float64(r.Took.Milliseconds()) / 1000,
	})
}

// WriteTotals writes the units that were taken of each article, found in the
// database, as sku, tab, total, line feed, sorted by the bytes of the sku.
func (r *Report) WriteTotals(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, a := range r.articles {
		if _, err := fmt.Fprintf(b, "%s\t%d\n", a.sku, a.taken); err != nil {
			return err
		}
	}
	return b.Flush()
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	row := func(what string, n int64, format string, args ...any) {
		fmt.Fprintf(&b, "  %-18s %12s   %s\n", what, group(n), fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\n  %s, %s; %d workers, seed %d, %.1f s\n\n", r.Broker, r.Database, r.Workers, r.Seed, r.Took.Seconds())
	row("orders", r.Orders, "published as %s messages, %s of them second copies", group(r.Messages), group(r.Twice))
	row("deliveries", r.Deliveries, "counted by the broker")
	row("applied", r.Applied, "times an order changed the stock")
	row("duplicates", r.Duplicates, "came again and changed nothing%s", map[bool]string{true: ", as far as workers lived to say"}[r.KillCount() > 0])
	if rest := r.Deliveries - r.Applied - r.Duplicates - r.Conflicts; rest > 0 {
		row("without an answer", rest, "their worker was killed, or gave them back unfinished")
	}
	if r.Conflicts > 0 || r.Dead > 0 {
		row("conflicts", r.Conflicts, "other orders with an invoice number that was taken")
		row("set aside", r.Dead, "for a person to decide")
	}
	row("kills (SIGKILL)", int64(r.KillCount()), "%d right before COMMIT, %d right after it, %d anywhere",
		r.Kills[failpoint.BeforeCommit], r.Kills[failpoint.AfterCommit], r.Kills[anywhere])
	b.WriteByte('\n')
	row("stock expected", r.Expected, "units taken, of %s articles", group(int64(r.Articles)))
	row("stock found", r.Found, "%s", r.stockNote())
	fmt.Fprintf(&b, "\n  %s\n", r.Verdict())
	for _, n := range r.notes() {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) stockNote() string {
	switch {
	case r.Interrupted:
		return "so far"
	case r.Differing > 0:
		return fmt.Sprintf("%s articles are wrong", group(int64(r.Differing)))
	}
	return "every article is right"
}

// Verdict is one line.
func (r *Report) Verdict() string {
	switch {
	case r.Interrupted:
		return fmt.Sprintf("INTERRUPTED: %s of %s published orders had changed the stock; no verdict.", group(r.Orders-r.Lost), group(r.Orders))
	case r.Exact:
		return fmt.Sprintf("EXACT: %s orders, delivered %s times, changed the stock once each.", group(r.Orders), group(r.Deliveries))
	}
	var wrong []string
	if r.Doubled > 0 {
		more := ""
		if r.Doubled > int64(len(r.Examples)) {
			more = ", …"
		}
		wrong = append(wrong, fmt.Sprintf("%s changed the stock more than once (%s%s)", plural(r.Doubled, "order", "orders"), strings.Join(r.Examples, ", "), more))
	}
	if r.Lost > 0 {
		wrong = append(wrong, plural(r.Lost, "order", "orders")+" never did")
	}
	if len(wrong) == 0 {
		wrong = append(wrong, "claims and stock do not agree")
	}
	return fmt.Sprintf("WRONG: %s; the stock is off by %s units.", strings.Join(wrong, ", "), signed(r.Found-r.Expected))
}

func (r *Report) notes() []string {
	var notes []string
	switch r.Naive {
	case ExistsCheck:
		notes = append(notes, "This consumer looks first whether an order was handled. Two at once both see",
			"nothing; and when it dies before it has marked the order, nobody knows.",
			"Yekbar lets the database decide, in the change's transaction: leave out --naive.")
	case AckFirst:
		notes = append(notes, "This consumer acknowledges first. What it had in hand when it was killed is gone,",
			"and what comes twice counts twice.",
			"Yekbar acknowledges after COMMIT, and knows what is done: leave out --naive.")
	}
	if failed := r.Dead - r.Conflicts; failed > 0 {
		notes = append(notes, fmt.Sprintf("%s failed again and again and were set aside: see held_messages.", plural(failed, "order", "orders")))
	}
	if r.BadLines > 0 {
		notes = append(notes, fmt.Sprintf("%s of the input were no orders and are not in these numbers (see above).", plural(int64(r.BadLines), "line", "lines")))
	}
	if short := r.KillsAsked - r.KillCount(); short > 0 && !r.Interrupted {
		notes = append(notes, fmt.Sprintf("%d of %d kills did not happen: the orders were done before.", short, r.KillsAsked))
	}
	if r.Kept {
		notes = append(notes, "The tables are left to look into: "+r.Tables+".")
	}
	if r.Attribution != "" {
		notes = append(notes, r.Attribution)
	}
	return notes
}

// group writes n with commas between thousands.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

func signed(n int64) string {
	if n > 0 {
		return "+" + group(n)
	}
	return group(n)
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return group(n) + " " + many
}
