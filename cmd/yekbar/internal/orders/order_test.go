package orders

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	o, err := Parse([]byte(`{"invoice":"C1","time":"x","lines":[{"sku":"b","quantity":2},{"sku":"B","quantity":-1},{"sku":"b","quantity":3,"price":"1"},{"sku":"a b","quantity":0}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{"B", -1}, {"a b", 0}, {"b", 5}}
	if o.Invoice != "C1" || !slices.Equal(o.Units(), want) {
		t.Errorf("got %+v with units %+v", o, o.Units())
	}
	if len(o.Lines) != 4 || o.Lines[0].SKU != "b" {
		t.Errorf("Units changed the lines: %+v", o.Lines)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`hello`:           "not JSON",
		`[]`:              "a JSON array, not an object",
		`7`:               "a JSON number, not an object",
		`null`:            `no "invoice"`,
		`{}`:              `no "invoice"`,
		`{"invoice":7}`:   `"invoice" is number, not a string`,
		`{"invoice":" "}`: "invoice is blank",
		`{"invoice":"` + strings.Repeat("x", 256) + `"}`: "invoice has 256 bytes",
		`{"invoice":"a\u0000b"}`:                         "control character",
		"{\"invoice\":\"\xff\"}":                         "not UTF-8",
		`{"invoice":"1 "}`:                               `invoice "1 " begins or ends with white space`,
		`{"invoice":"1"}`:                                `invoice "1" has no "lines"`,
		`{"invoice":"1","lines":[]}`:                     `invoice "1" has no "lines"`,
		`{"invoice":"1","lines":[{}]}`:                   `invoice "1", order line 1: no "sku"`,
		`{"invoice":"1","lines":[{"sku":"a","quantity":1},{"sku":"b"}]}`:        `order line 2: no "quantity"`,
		`{"invoice":"1","lines":[{"sku":"a","quantity":1.5}]}`:                  `"lines.quantity" is number 1.5, not a whole number`,
		`{"invoice":"1","lines":[{"sku":"a","quantity":"6"}]}`:                  `"lines.quantity" is string, not a whole number`,
		`{"invoice":"1","lines":[{"sku":"a","quantity":1000000001}]}`:           "beyond 1000000000",
		`{"invoice":"1","lines":[{"sku":"a","quantity":99999999999999999999}]}`: "not a whole number",
		`{"invoice":"1","lines":[{"sku":"a","quantity":1}]} {}`:                 "more behind the JSON object, from byte 51",
		`{"invoice":"1","lines":[{"sku":"a","quantity":1}]}}`:                   "more behind the JSON object",
		`{"invoice":"1","lines":[{"sku":"a","quantity":1}]`:                     "not JSON",
	} {
		if o, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", text, o, err, want)
		}
	}
}

const good = `{"invoice":"1","lines":[{"sku":"a","quantity":1}]}`

func TestReaderNamesTheLineAndGoesOn(t *testing.T) {
	text := "\ufeff" + good + "\r\n\n  \nno order\n" + strings.Repeat("x", MaxLine+1) + "\n" + good + "\n{\"invoice\":\"2\"}\n" + good
	for name, in := range map[string]io.Reader{
		"plain": strings.NewReader(text),
		"gzip":  bytes.NewReader(zip(t, text)),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewReader(in)
			if err != nil {
				t.Fatal(err)
			}
			var bad []int
			n := 0
			for {
				_, _, err := r.Next()
				var line *LineError
				if errors.Is(err, io.EOF) {
					break
				} else if errors.As(err, &line) {
					bad = append(bad, line.Line)
				} else if err != nil {
					t.Fatal(err)
				} else {
					n++
				}
			}
			if n != 3 || !slices.Equal(bad, []int{4, 5, 7}) {
				t.Errorf("%d orders, bad lines %v", n, bad)
			}
		})
	}
}

func TestReaderCutShort(t *testing.T) {
	z := zip(t, strings.Repeat(good+"\n", 1000))
	r, err := NewReader(bytes.NewReader(z[:len(z)-9]))
	for err == nil {
		_, _, err = r.Next()
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "broke off in line") {
		t.Errorf("a cut gzip file ended with %v", err)
	}
	if _, err := NewReader(bytes.NewReader([]byte{0x1f, 0x8b, 0})); err == nil {
		t.Error("a gzip header alone was taken")
	}
	r, err = NewReader(strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("an empty file gave %v", err)
	}
}

func TestCount(t *testing.T) {
	r, err := NewReader(strings.NewReader(good + "\n\n" + strings.Repeat("x", MaxLine+1) + "\nbad\n" + good))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.Count(); n != 3 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
}

func TestMadeIsTheSameForTheSameSeed(t *testing.T) {
	text := func(seed uint64) string {
		var b strings.Builder
		m := NewMade(500, seed)
		for {
			o, text, err := m.Next()
			if errors.Is(err, io.EOF) {
				return b.String()
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Lines) == 0 {
				t.Fatalf("%s has no lines", o.Invoice)
			}
			b.Write(text)
			b.WriteByte('\n')
		}
	}
	if first := text(1); text(1) != first {
		t.Error("the same seed gave other orders")
	}
	if text(1) == text(2) {
		t.Error("another seed gave the same orders")
	}
	if !strings.Contains(text(1), `"invoice":"C`) {
		t.Error("no order is a cancellation")
	}
}

func zip(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"invoice":"1","lines":[{"sku":"a","quantity":-1e9}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(text)
		if err != nil {
			return
		}
		var a, b int64
		for _, l := range o.Lines {
			a += l.Quantity
		}
		for _, l := range o.Units() {
			b += l.Quantity
		}
		if a != b || o.Invoice == "" {
			t.Errorf("%q: lines sum up to %d, articles to %d", text, a, b)
		}
	})
}
