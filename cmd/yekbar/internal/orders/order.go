package orders

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// What a column of the demo's tables holds.
const (
	maxInvoice  = 255 // bytes
	maxSKU      = 255 // bytes
	maxQuantity = 1_000_000_000
)

// An Order is an invoice number and how many units of which articles leave the
// stock. Units of a cancellation are negative: they come back.
type Order struct {
	Invoice string
	Lines   []Line
}

// A Line is some units of an article. An order may have several lines of the
// same one.
type Line struct {
	SKU      string
	Quantity int64
}

// Parse reads an order from JSON; other members than invoice, lines, sku and
// quantity are left alone.
func Parse(text []byte) (*Order, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	var raw struct {
		Invoice *string `json:"invoice"`
		Lines   []struct {
			SKU      *string `json:"sku"`
			Quantity *int64  `json:"quantity"`
		} `json:"lines"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&raw); err != nil {
		return nil, explain(err)
	}
	if end := d.InputOffset(); len(bytes.TrimSpace(text[end:])) > 0 {
		return nil, fmt.Errorf("more behind the JSON object, from byte %d", end+1)
	}
	if raw.Invoice == nil {
		return nil, errors.New(`no "invoice"`)
	}
	if err := checkName("invoice", *raw.Invoice, maxInvoice); err != nil {
		return nil, err
	}
	if *raw.Invoice != strings.TrimSpace(*raw.Invoice) {
		// A header of NATS could not carry it as it is.
		return nil, fmt.Errorf("invoice %q begins or ends with white space", *raw.Invoice)
	}
	if len(raw.Lines) == 0 {
		return nil, fmt.Errorf(`invoice %q has no "lines"`, *raw.Invoice)
	}
	o := &Order{Invoice: *raw.Invoice, Lines: make([]Line, len(raw.Lines))}
	for i, l := range raw.Lines {
		where := fmt.Sprintf("invoice %q, order line %d", o.Invoice, i+1)
		if l.SKU == nil {
			return nil, fmt.Errorf(`%s: no "sku"`, where)
		}
		if err := checkName("sku", *l.SKU, maxSKU); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		if l.Quantity == nil {
			return nil, fmt.Errorf(`%s: no "quantity"`, where)
		}
		if n := *l.Quantity; n < -maxQuantity || n > maxQuantity {
			return nil, fmt.Errorf("%s: quantity %d is beyond %d", where, n, maxQuantity)
		}
		o.Lines[i] = Line{SKU: *l.SKU, Quantity: *l.Quantity}
	}
	return o, nil
}

func checkName(what, s string, most int) error {
	switch {
	case strings.TrimSpace(s) == "":
		return fmt.Errorf("%s is blank", what)
	case len(s) > most:
		return fmt.Errorf("%s has %d bytes; at most %d are possible", what, len(s), most)
	case strings.ContainsAny(s, "\x00\t\r\n"):
		return fmt.Errorf("%s %q has a control character", what, s)
	}
	return nil
}

// explain puts encoding/json's words into those of somebody who sees a file.
func explain(err error) error {
	var (
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: %w (at byte %d)", err, syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("a JSON %s, not an object", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%q is %s, not %s (at byte %d)", kind.Field, kind.Value, wanted[kind.Type.Kind()], kind.Offset)
	}
	return fmt.Errorf("not JSON: %w", err)
}

var wanted = map[reflect.Kind]string{
	reflect.String: "a string",
	reflect.Int64:  "a whole number",
	reflect.Slice:  "an array",
	reflect.Struct: "an object",
}

// Units returns what the order takes of each article, once an article, sorted
// by its bytes.
func (o *Order) Units() []Line {
	lines := slices.Clone(o.Lines)
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(a.SKU, b.SKU) })
	sums := lines[:0]
	for _, l := range lines {
		if n := len(sums); n > 0 && sums[n-1].SKU == l.SKU {
			sums[n-1].Quantity += l.Quantity
		} else {
			sums = append(sums, l)
		}
	}
	return sums
}
