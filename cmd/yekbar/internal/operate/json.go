package operate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// WriteJSON writes a value on one line. What could do something to a terminal
// is escaped, beyond what JSON asks for.
func WriteJSON(w io.Writer, v any) error {
	var plain, safe bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	for _, r := range plain.String() {
		if printable(r) || r == '\n' {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err := w.Write(safe.Bytes())
	return err
}

// bytesJSON is text where it is text, and base64 where not.
type bytesJSON struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

func newBytes(p []byte) *bytesJSON {
	if p == nil {
		return nil
	}
	s := string(p)
	if utf8.ValidString(s) {
		return &bytesJSON{Text: &s}
	}
	s = base64.StdEncoding.EncodeToString(p)
	return &bytesJSON{Base64: &s}
}

// when is a time for JSON; nil for none.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
