package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// demoJSON calls the demo with --json and returns the object.
func demoJSON(t *testing.T, stdin io.Reader, args ...string) (result, map[string]any) {
	t.Helper()
	r := call(t, stdin, append([]string{"demo", "--json"}, args...)...)
	if strings.Count(r.stdout, "\n") != 1 {
		t.Fatalf("standard output is not one line: %q", r.stdout)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &object); err != nil {
		t.Fatal(err)
	}
	fields := []string{"applied", "conflicts", "dead", "deliveries", "duplicates", "exact", "kills", "orders", "seconds", "units_expected", "units_found"}
	if got := slices.Sorted(maps.Keys(object)); !slices.Equal(got, fields) {
		t.Errorf("fields %v, want %v", got, fields)
	}
	return r, object
}

// expect compares numbers of the object.
func expect(t *testing.T, object map[string]any, want map[string]float64) {
	t.Helper()
	for field, n := range want {
		if object[field] != n {
			t.Errorf("%s is %v, want %v", field, object[field], n)
		}
	}
}

func TestDemoIsExact(t *testing.T) {
	t.Parallel()
	r, object := demoJSON(t, nil, "--orders", "400", "--workers", "3", "--kills", "9", "--duplicates", "30%")
	if r.status != 0 || object["exact"] != true || object["units_expected"] != object["units_found"] {
		t.Errorf("exit status %d", r.status)
	}
	expect(t, object, map[string]float64{"orders": 400, "applied": 400, "kills": 9, "conflicts": 0, "dead": 0})
	if object["deliveries"].(float64) < 480 || object["duplicates"].(float64) < 50 {
		t.Error("too few deliveries or duplicates")
	}
	if !strings.Contains(r.stderr, "EXACT: 400 orders") || !strings.Contains(r.stderr, "kills") {
		t.Error("no progress, or no verdict")
	}
}

func TestDemoTableTellsTheKillsApart(t *testing.T) {
	t.Parallel()
	r := call(t, nil, "demo", "--orders", "900", "--kills", "6", "--workers", "2", "--seed", "3")
	if r.status != 0 {
		t.Errorf("exit status %d", r.status)
	}
	for _, want := range []string{"2 right before COMMIT, 2 right after it, 2 anywhere", "every article is right", "EXACT: 900 orders"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q", want)
		}
	}
}

// The two wrong consumers are what shows that the demo's check can fail.
func TestNaiveConsumersAreWrong(t *testing.T) {
	t.Run("exists-check", func(t *testing.T) {
		t.Parallel()
		r := call(t, nil, "demo", "--orders", "600", "--kills", "6", "--naive", "exists-check")
		if r.status != 1 {
			t.Errorf("exit status %d", r.status)
		}
		for _, want := range []string{"WRONG: ", "changed the stock more than once", "This consumer looks first"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("no %q", want)
			}
		}
	})
	t.Run("ack-first", func(t *testing.T) {
		t.Parallel()
		r, object := demoJSON(t, nil, "--orders", "600", "--kills", "6", "--naive", "ack-first")
		if r.status != 1 || object["exact"] != false || object["units_expected"] == object["units_found"] {
			t.Errorf("exit status %d", r.status)
		}
		for _, want := range []string{"WRONG: ", "changed the stock more than once", "never did"} {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("no %q", want)
			}
		}
	})
}

func TestDemoOfARealDay(t *testing.T) {
	t.Parallel()
	day := filepath.Join("..", "..", "..", "shared", "data", "retail-2010-12-01.ndjson.gz")
	if _, err := os.Stat(day); err != nil {
		t.Skipf("the real orders are not here: %v", err)
	}
	totals := filepath.Join(t.TempDir(), "totals.tsv")
	r, object := demoJSON(t, nil, "--input", day, "--totals", totals, "--kills", "8")
	if r.status != 0 {
		t.Errorf("exit status %d", r.status)
	}
	expect(t, object, map[string]float64{"orders": 143, "applied": 143, "units_expected": 26814, "units_found": 26814, "kills": 8})
	text, err := os.ReadFile(totals)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != "4562c36a31b329bb5716b44ff735eea7340aed6a9388f98cbc861808ab2e1f9a" {
		t.Errorf("the totals have the SHA-256 %s", got)
	}
	r = call(t, nil, "demo", "--input", day, "--kills", "0")
	if !strings.Contains(r.stdout, "CC BY 4.0") {
		t.Error("the authors of the orders are not named")
	}
}

func order(invoice string, lines ...any) string {
	var b strings.Builder
	for i := 0; i < len(lines); i += 2 {
		fmt.Fprintf(&b, `,{"sku":%q,"quantity":%d}`, lines[i], lines[i+1])
	}
	return fmt.Sprintf(`{"invoice":%q,"lines":[%s]}`, invoice, b.String()[1:])
}

func TestDemoGoesOnAfterLinesThatAreNoOrders(t *testing.T) {
	t.Parallel()
	lines := []string{
		order("1", "a", 5, "A", 7, "a", 1),
		`no order`,
		order("C2", "a", -2, "a ", 1, "é", 3),
		order("3", "b", 0),
		`{"invoice":"4"}`,
		order("1", "a", 5, "A", 7, "a", 1), // the shop's own second copy
	}
	totals := filepath.Join(t.TempDir(), "totals.tsv")
	r, object := demoJSON(t, strings.NewReader(strings.Join(lines, "\n")), "--input", "-", "--totals", totals, "--kills", "4", "--workers", "2")
	if r.status != 3 || object["exact"] != true {
		t.Errorf("exit status %d, exact is %v", r.status, object["exact"])
	}
	expect(t, object, map[string]float64{"orders": 3, "applied": 3, "units_found": 15, "kills": 4})
	for _, want := range []string{"line 2: not JSON", `line 5: invoice "4" has no "lines"`} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q", want)
		}
	}
	text, err := os.ReadFile(totals)
	if want := "A\t7\na\t4\na \t1\nb\t0\né\t3\n"; err != nil || string(text) != want {
		t.Errorf("totals %q, %v, want %q", text, err, want)
	}
}

func TestDemoSetsAReusedInvoiceNumberAside(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	var lines []string
	for i := range 50 {
		lines = append(lines, order(fmt.Sprint(i), "a", i))
	}
	lines = append(lines, order("7", "a", 1000))
	if _, err := io.WriteString(z, strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "orders")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r, object := demoJSON(t, nil, "--input", file, "--kills", "0", "--duplicates", "0")
	if r.status != 0 {
		t.Errorf("exit status %d", r.status)
	}
	expect(t, object, map[string]float64{"orders": 50, "applied": 50, "conflicts": 1, "dead": 1, "units_found": 49 * 50 / 2})

	// A file that breaks off.
	if err := os.WriteFile(file, b.Bytes()[:b.Len()-10], 0o600); err != nil {
		t.Fatal(err)
	}
	r, _ = demoJSON(t, nil, "--input", file, "--kills", "0")
	if r.status != 3 || !strings.Contains(r.stderr, "broke off") {
		t.Errorf("exit status %d after a file that breaks off", r.status)
	}
	// And one without an order.
	r, object = demoJSON(t, strings.NewReader(""), "--input", "-", "--kills", "0")
	if r.status != 0 {
		t.Errorf("exit status %d after an empty file", r.status)
	}
	expect(t, object, map[string]float64{"orders": 0, "applied": 0})
}

func TestDemoLeavesOtherTablesAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a shop%20.db")
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(query string) {
		t.Helper()
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE inventory (n INTEGER)")
	exec("INSERT INTO inventory VALUES (42)")
	args := []string{"demo", "--orders", "20", "--kills", "0", "--database", "sqlite:" + file}
	for range 2 { // the second replaces the first's
		if r := call(t, nil, args...); r.status != 0 || !strings.Contains(r.stdout, "yekbar_demo_") {
			t.Fatalf("exit status %d", r.status)
		}
	}
	exec("UPDATE yekbar_demo_marker SET alive_at = unixepoch()")
	if r := call(t, nil, args...); r.status != 4 || !strings.Contains(r.stderr, "another yekbar demo") {
		t.Errorf("exit status %d beside another demo", r.status)
	}
	exec("DROP TABLE yekbar_demo_marker")
	if r := call(t, nil, args...); r.status != 4 || !strings.Contains(r.stderr, "yekbar_demo_inventory") {
		t.Errorf("exit status %d with tables of others", r.status)
	}
	var n, rows int
	if err := db.QueryRow("SELECT (SELECT n FROM inventory), (SELECT COUNT(*) FROM yekbar_demo_journal)").Scan(&n, &rows); err != nil || n != 42 || rows != 20 {
		t.Errorf("tables of others were changed: %d, %d, %v", n, rows, err)
	}
}
