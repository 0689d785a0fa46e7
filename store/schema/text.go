package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
)

const base64Prefix = "base64:"

// EncodeText returns s as every database's text column can hold it: s itself,
// or, when s is not UTF-8, has NUL, or begins with "base64:", that word and its
// bytes in base64 (RFC 4648). Different strings stay different.
func EncodeText(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && !strings.HasPrefix(s, base64Prefix) {
		return s
	}
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(s))
}

// DecodeText undoes EncodeText.
func DecodeText(s string) (string, error) {
	b64, ok := strings.CutPrefix(s, base64Prefix)
	if !ok {
		return s, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil {
		return "", fmt.Errorf("yekbar: stored text %.40q: %w", s, err)
	}
	return string(b), nil
}

// HashKey stands for an ordering key, of any length and any bytes, in
// held_messages.key_hash: the first 16 bytes of its SHA-256.
func HashKey(orderingKey string) []byte {
	sum := sha256.Sum256([]byte(orderingKey))
	return sum[:16]
}

// EncodeHeader returns h as a JSON array of [name, value], in order, each
// encoded as by EncodeText.
func EncodeHeader(h yekbar.Header) string {
	pairs := make([][2]string, len(h))
	for i, f := range h {
		pairs[i] = [2]string{EncodeText(f.Name), EncodeText(string(f.Value))}
	}
	return encodeJSON(pairs)
}

// DecodeHeader undoes EncodeHeader; no headers are nil.
func DecodeHeader(s string) (yekbar.Header, error) {
	var pairs [][2]string
	if err := json.Unmarshal([]byte(s), &pairs); err != nil {
		return nil, fmt.Errorf("yekbar: stored headers: %w", err)
	}
	var h yekbar.Header
	for _, p := range pairs {
		name, err := DecodeText(p[0])
		if err != nil {
			return nil, err
		}
		value, err := DecodeText(p[1])
		if err != nil {
			return nil, err
		}
		h.Add(name, value)
	}
	return h, nil
}

// EncodeErrors returns error texts as a JSON array. They are for people: what
// is not UTF-8 in them is replaced (U+FFFD).
func EncodeErrors(errs []string) string {
	if errs == nil {
		errs = []string{}
	}
	return encodeJSON(errs)
}

// DecodeErrors undoes EncodeErrors; no errors are nil.
func DecodeErrors(s string) ([]string, error) {
	var errs []string
	if err := json.Unmarshal([]byte(s), &errs); err != nil {
		return nil, fmt.Errorf("yekbar: stored errors: %w", err)
	}
	if len(errs) == 0 {
		return nil, nil
	}
	return errs, nil
}

// encodeJSON leaves <, > and & readable. Strings and arrays of them always
// encode.
func encodeJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
