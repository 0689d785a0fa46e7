package yekbar

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A fingerprint is a tag, which names how it was made, and these many bytes of
// a SHA-256. Only fingerprints with equal tags are compared.
const fingerprintHash = 16

const (
	tagBytes byte = 1 // of the payload as it is
	tagJSON  byte = 2 // of the payload as canonical JSON; four bytes that name the ignored fields follow
)

// Fingerprint returns a tag and 16 bytes of the SHA-256 of the payload. (Of a
// CloudEvents message in structured mode, the payload is its data.)
func (m *Message) Fingerprint() []byte {
	return fingerprint([]byte{tagBytes}, m.Payload)
}

func fingerprint(tag, data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(slices.Clip(tag), sum[:fingerprintHash]...)
}

// NoFingerprint compares no payloads: the same ID is always a duplicate.
func NoFingerprint(*Message) []byte { return nil }

// JSONFingerprint fingerprints a JSON payload independent of spacing and of
// the order of members, and without the members of the outermost object that
// are named. Numbers are compared as they are written. A payload that is no
// JSON (RFC 8259) is fingerprinted as [Message.Fingerprint] does.
func JSONFingerprint(ignore ...string) func(*Message) []byte {
	ignore = slices.Compact(slices.Sorted(slices.Values(ignore)))
	names := sha256.Sum256([]byte(strings.Join(ignore, "\x00")))
	tag := append([]byte{tagJSON}, names[:4]...)
	return func(m *Message) []byte {
		c, ok := canonicalJSON(m.Payload, ignore)
		if !ok {
			return m.Fingerprint()
		}
		return fingerprint(tag, c)
	}
}

func canonicalJSON(payload []byte, ignore []string) ([]byte, bool) {
	if !utf8.Valid(payload) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false
	}
	if o, ok := v.(map[string]any); ok {
		for _, name := range ignore {
			delete(o, name)
		}
	}
	c, err := json.Marshal(v) // sorts members
	return c, err == nil
}

// sameFingerprint reports whether two fingerprints speak for the same payload;
// those that can't be compared do.
func sameFingerprint(a, b []byte) bool {
	i, j := len(a)-fingerprintHash, len(b)-fingerprintHash
	if i <= 0 || j <= 0 || !bytes.Equal(a[:i], b[:j]) {
		return true
	}
	return bytes.Equal(a, b)
}
