package bench

import (
	"strings"
	"testing"
	"time"
)

func TestSummarise(t *testing.T) {
	reference := []round{{rate: 100}, {rate: 50}, {rate: 200}}
	mine := []round{
		{rate: 110, latencies: []time.Duration{3 * time.Millisecond, time.Millisecond}},
		{rate: 60, latencies: []time.Duration{2 * time.Millisecond}},
		{rate: 100, latencies: []time.Duration{9 * time.Millisecond}},
	}
	c := summarise(mine, reference, true)
	if c.Rate != 100 || c.Low != 60 || c.High != 110 || c.Ratio != 1.1 || c.P50 != 3 || c.P99 != 9 {
		t.Errorf("%+v", c)
	}
	if c := summarise(mine, mine, false); c.Ratio != 0 {
		t.Errorf("without a reference the ratio is %v", c.Ratio)
	}
}

func TestValidate(t *testing.T) {
	err := Config{Styles: []string{"nonsense"}, Clients: []int{0}, Time: time.Millisecond}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{`"nonsense"`, `"ordinary"`, "clients", "rounds", "100ms"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no word of %s in: %v", part, err)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	r := Report{Server: "PostgreSQL 15", Rounds: 5, Seconds: 4, Cells: []Cell{
		{Style: Reference, Clients: 8, Rate: 1000, Low: 900, High: 1100, Ratio: 1},
		{Style: "ordinary", Clients: 32, Rate: 1234, Ratio: 1.234, P50: 5, P99: 10, Allocs: 100},
	}}
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"not those of durable commits", "8 clients", "| pgbench | 1000 | 900–1100 | 1.00 | – | – | – |", "32 clients", "| ordinary | 1234 | 0–0 | 1.23 | 5.00 | 10.00 | 100 |"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in:\n%s", part, b.String())
		}
	}
}
