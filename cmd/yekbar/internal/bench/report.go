package bench

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes a table for each number of clients.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%d rounds of %gs each, medians", r.Server, r.Rounds, r.Seconds)
	if !r.Durable {
		b.WriteString("; **fsync or synchronous_commit is off: these rates are not those of durable commits**")
	}
	b.WriteString("\n")
	clients := 0
	for _, c := range r.Cells {
		if c.Clients != clients {
			clients = c.Clients
			fmt.Fprintf(&b, "\n%d clients\n\n", clients)
			b.WriteString("| style | messages/s | slowest–fastest round | ratio | p50 ms | p99 ms | allocations |\n|---|--:|--:|--:|--:|--:|--:|\n")
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f–%.0f | %s | %s | %s | %s |\n", c.Style, c.Rate, c.Low, c.High,
			number("%.2f", c.Ratio), number("%.2f", c.P50), number("%.2f", c.P99), number("%.0f", c.Allocs))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number prints what was measured.
func number(format string, x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf(format, x)
}
