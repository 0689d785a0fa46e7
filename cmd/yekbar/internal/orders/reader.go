package orders

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line that a Reader takes, in bytes.
const MaxLine = 8 << 20

// A Source gives orders one by one, and io.EOF after the last. After a
// *LineError it goes on; after any other error it does not.
type Source interface {
	// Next returns an order and its JSON, which is valid until the next call.
	Next() (*Order, []byte, error)
}

// A LineError reports a line that is no order.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// A Reader reads orders from NDJSON, one a line, also when it is compressed
// with gzip. It holds one line at a time. Blank lines are passed over.
type Reader struct {
	in   *bufio.Reader
	buf  []byte
	line int
}

// NewReader looks at the first bytes of r to see whether they are gzip.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	magic, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("not the gzip it begins like: %w", err)
		}
		in = bufio.NewReaderSize(z, 64<<10)
	}
	bom, err := in.Peek(3)
	if err == nil && string(bom) == "\ufeff" {
		_, err = in.Discard(len(bom))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &Reader{in: in}, nil
}

// Next implements Source.
func (r *Reader) Next() (*Order, []byte, error) {
	for {
		text, err := r.next()
		if err != nil {
			return nil, nil, err
		}
		if len(text) == 0 {
			continue
		}
		o, err := Parse(text)
		if err != nil {
			return nil, nil, &LineError{r.line, err}
		}
		return o, text, nil
	}
}

// Line returns the number of the line that was read last.
func (r *Reader) Line() int { return r.line }

// Count reads to the end and returns how many lines are not blank.
func (r *Reader) Count() (int, error) {
	n := 0
	for {
		text, err := r.next()
		var long *LineError
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case errors.As(err, &long):
			continue
		case err != nil:
			return n, err
		case len(text) > 0:
			n++
		}
	}
}

// next returns the next line without the white space around it.
func (r *Reader) next() ([]byte, error) {
	r.buf = r.buf[:0]
	size := 0
	for {
		part, err := r.in.ReadSlice('\n')
		size += len(part)
		if size <= MaxLine {
			r.buf = append(r.buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && size == 0 {
			return nil, io.EOF
		}
		r.line++
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("broke off in line %d: %w", r.line, err)
		}
		if size > MaxLine {
			return nil, &LineError{r.line, fmt.Errorf("longer than %d bytes", MaxLine)}
		}
		return bytes.TrimSpace(r.buf), nil
	}
}
