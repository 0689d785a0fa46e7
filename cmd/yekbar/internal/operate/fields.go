package operate

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// fieldWidth is the least one of a name.
const fieldWidth = 12

// fields are lines of a name and a value.
type fields struct{ lines []field }

type field struct{ name, value string }

// add adds a line; its value is made safe to print.
func (f *fields) add(name, value string) {
	f.lines = append(f.lines, field{name, Safe(value)})
}

func (f *fields) addf(name, format string, args ...any) {
	f.add(name, fmt.Sprintf(format, args...))
}

func (f *fields) write(w io.Writer) error {
	width := fieldWidth
	for _, l := range f.lines {
		width = max(width, len(l.name))
	}
	room := columns - width - 2
	for _, l := range f.lines {
		value := l.value
		// Only what has spaces can be wrapped; IDs stay in one piece.
		if utf8.RuneCountInString(value) > room {
			value = wrap(value, room, strings.Repeat(" ", width+2))
		}
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, l.name, value); err != nil {
			return err
		}
	}
	return nil
}
