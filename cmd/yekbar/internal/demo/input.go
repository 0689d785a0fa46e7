package demo

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
)

// An input is where the orders come from.
type input struct {
	orders.Source
	count int // of orders, about; 0: unknown
	close func() error
}

func openInput(c Config) (*input, error) {
	nothing := func() error { return nil }
	switch c.Input {
	case "":
		return &input{orders.NewMade(c.Orders, c.Seed), c.Orders, nothing}, nil
	case "-":
		r, err := orders.NewReader(c.Stdin)
		if err != nil {
			return nil, fmt.Errorf("--input -: %w", err)
		}
		return &input{r, 0, nothing}, nil
	}
	f, err := os.Open(c.Input)
	if err != nil {
		return nil, fmt.Errorf("--input: %w", err)
	}
	in, err := readTwice(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--input %s: %w", c.Input, err), f.Close())
	}
	return in, nil
}

// readTwice reads a file once to count its lines, so that kills can be spread
// over them, and rewinds it. What can't be rewound (a pipe) is not counted.
func readTwice(f *os.File) (*input, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("is a directory")
	}
	n := 0
	if info.Mode().IsRegular() {
		r, err := orders.NewReader(f)
		if err != nil {
			return nil, err
		}
		// An error in the middle comes again when it is read for good.
		n, _ = r.Count()
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	r, err := orders.NewReader(f)
	if err != nil {
		return nil, err
	}
	return &input{r, n, f.Close}, nil
}

// The first order of the data set that Attribution is about.
const (
	retailInvoice = "536365"
	retailHash    = "2744987a1450def5b9667c900d3a1e37"
	attribution   = `Orders: "Online Retail", D. Chen (2015), UCI Machine Learning Repository,
  doi 10.24432/C5BW33, licence CC BY 4.0; changed: lines grouped to orders.`
)

// attribute names the input's authors where its licence wants that.
func attribute(l *ledger) string {
	if hash, ok := l.orders[retailInvoice]; ok && hex.EncodeToString(hash[:]) == retailHash {
		return attribution
	}
	return ""
}
