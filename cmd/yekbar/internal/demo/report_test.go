package demo

import (
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/failpoint"
	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
)

func booked(t *testing.T, texts ...string) *ledger {
	t.Helper()
	l := newLedger()
	for _, text := range texts {
		o, err := orders.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		l.enter(o, []byte(text))
	}
	return l
}

func TestLedgerTellsCopiesFromConflicts(t *testing.T) {
	first := `{"invoice":"1","lines":[{"sku":"a","quantity":2},{"sku":"b","quantity":-1},{"sku":"a","quantity":3}]}`
	l := booked(t, first)
	o, err := orders.Parse([]byte(first))
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := l.enter(o, []byte(first)); n != isCopy {
		t.Errorf("a copy is %v", n)
	}
	if n, _ := l.enter(o, []byte(first+" ")); n != isConflict {
		t.Errorf("other bytes are %v", n)
	}
	o.Invoice = "2"
	if n, articles := l.enter(o, []byte(`x`)); n != isNew || len(articles) > 0 {
		t.Errorf("another invoice is %v with new articles %v", n, articles)
	}
	if l.total() != 8 || l.units["a"] != 10 || l.units["b"] != -2 {
		t.Errorf("%v", l.units)
	}
}

// Sums can agree although articles don't.
func TestEveryArticleIsCompared(t *testing.T) {
	l := booked(t, `{"invoice":"1","lines":[{"sku":"a","quantity":2},{"sku":"b","quantity":3},{"sku":"z","quantity":0}]}`)
	for _, test := range []struct {
		articles []article
		want     int
	}{
		{[]article{{"a", 2}, {"b", 3}, {"z", 0}}, 0},
		{[]article{{"a", 3}, {"b", 2}, {"z", 0}}, 2},
		{[]article{{"a", 2}, {"b", 3}}, 1},
		{[]article{{"a", 2}, {"b", 3}, {"c", 0}, {"z", 0}}, 1},
		{nil, 3},
	} {
		if got := (&found{articles: test.articles}).differing(l); got != test.want {
			t.Errorf("%v: %d articles differ, want %d", test.articles, got, test.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		report Report
		want   string
	}{
		{Report{Exact: true, Orders: 1234, Deliveries: 1500}, "EXACT: 1,234 orders, delivered 1,500 times, changed the stock once each."},
		{Report{Doubled: 1, Examples: []string{"7"}, Found: 1005, Expected: 1000}, "WRONG: 1 order changed the stock more than once (7); the stock is off by +5 units."},
		{Report{Doubled: 4, Examples: []string{"7", "8", "9"}, Lost: 2, Found: 1, Expected: 1001}, "WRONG: 4 orders changed the stock more than once (7, 8, 9, …), 2 orders never did; the stock is off by -1,000 units."},
		{Report{}, "WRONG: claims and stock do not agree; the stock is off by 0 units."},
		{Report{Interrupted: true, Orders: 10, Lost: 4}, "INTERRUPTED: 6 of 10 published orders had changed the stock; no verdict."},
	} {
		if got := test.report.Verdict(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

func TestTableHasNoLinesThatWrap(t *testing.T) {
	r := Report{
		Naive: ExistsCheck, Database: "SQLite", Broker: "embedded NATS JetStream", Tables: "tables " + prefix + "*", Kept: true,
		Workers: 4, Orders: 25_900, Messages: 31_030, Twice: 5_130, Deliveries: 32_871, Applied: 25_900, Duplicates: 6_747,
		Conflicts: 1, Dead: 1, KillsAsked: 40, Kills: map[failpoint.Point]int{anywhere: 10, failpoint.BeforeCommit: 10, failpoint.AfterCommit: 10},
		Articles: 4_070, Expected: 5_176_450, Found: 5_176_450, Exact: true, BadLines: 1,
	}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if n := len([]rune(line)); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"25,900", "10 of 40 kills did not happen", "1 line of the input"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
