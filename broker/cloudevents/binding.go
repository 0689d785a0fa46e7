package cloudevents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
)

// A Binding is how a transport spells attributes in binary mode.
type Binding struct {
	// Prefix stands before an attribute's name in the name of its header.
	Prefix string
	// Also are further prefixes that are understood.
	Also []string
	// Fold compares names of headers without regard to case.
	Fold bool
	// Percent encodes what is not printable ASCII, space, quote and percent
	// sign, as the HTTP binding prescribes.
	Percent bool
}

// The bindings of CloudEvents 1.0.
var (
	HTTP  = Binding{Prefix: "ce-", Fold: true, Percent: true}
	NATS  = Binding{Prefix: "ce-", Fold: true, Percent: true} // 1.0.3-wip, the first with a binary mode
	Kafka = Binding{Prefix: "ce_"}
	AMQP  = Binding{Prefix: "cloudEvents:", Also: []string{"cloudEvents_"}}
	MQTT  = Binding{}
)

const specVersion = "specversion"

// A field is an attribute that a Message has a field for.
type field struct {
	name string
	get  func(*yekbar.Message) string
	set  func(*yekbar.Message, string) bool // false: can't be understood
}

var fields = []field{
	text("id", func(m *yekbar.Message) *string { return &m.ID }),
	text("source", func(m *yekbar.Message) *string { return &m.Source }),
	text("type", func(m *yekbar.Message) *string { return &m.Type }),
	text("subject", func(m *yekbar.Message) *string { return &m.Subject }),
	{"time", formatTime, parseTime},
	text("partitionkey", func(m *yekbar.Message) *string { return &m.OrderingKey }),
}

func text(name string, at func(*yekbar.Message) *string) field {
	return field{name,
		func(m *yekbar.Message) string { return *at(m) },
		func(m *yekbar.Message, s string) bool { *at(m) = s; return true }}
}

func formatTime(m *yekbar.Message) string {
	if m.Time.IsZero() {
		return ""
	}
	return m.Time.UTC().Format(time.RFC3339Nano)
}

func parseTime(m *yekbar.Message, s string) bool {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err == nil {
		m.Time = t.UTC()
	}
	return err == nil
}

func fieldOf(attribute string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == attribute })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// attribute returns the attribute that a header stands for.
func (b *Binding) attribute(header string) (name string, ok bool) {
	if b.Fold {
		header = strings.ToLower(header)
	}
	for _, p := range append([]string{b.Prefix}, b.Also...) {
		if name, ok = strings.CutPrefix(header, p); ok {
			return name, name != ""
		}
	}
	return "", false
}

// Owns reports whether Write writes the header: it stands for a field of the
// Message, or for specversion.
func (b *Binding) Owns(header string) bool {
	name, ok := b.attribute(header)
	if !ok {
		return false
	}
	_, ok = fieldOf(name)
	return ok || name == specVersion
}

// Read sets the fields of m from the headers; those without a header stay. A
// time that is not RFC 3339 stays zero: the header has it. It is an error when
// an attribute stands there twice with different values, is not UTF-8, or the
// version is not 1.x.
func (b *Binding) Read(h yekbar.Header, m *yekbar.Message) error {
	seen := map[string]string{}
	for _, f := range h {
		name, ok := b.attribute(f.Name)
		if !ok || !b.Owns(f.Name) {
			continue
		}
		value, err := b.decode(string(f.Value))
		if err != nil {
			return fmt.Errorf("yekbar/broker/cloudevents: header %q: %w", f.Name, err)
		}
		if old, twice := seen[name]; twice && old != value {
			return fmt.Errorf("yekbar/broker/cloudevents: the attribute %q stands there twice, with different values", name)
		}
		seen[name] = value
		if f, ok := fieldOf(name); ok {
			f.set(m, value)
		}
	}
	if v, ok := seen[specVersion]; ok {
		return versionProblem(v)
	}
	return nil
}

func versionProblem(v string) error {
	if !strings.HasPrefix(v, "1.") {
		return fmt.Errorf("yekbar/broker/cloudevents: specversion %q is not supported; 1.0 is", v)
	}
	return nil
}

// Write returns the headers that stand for the fields of m which are not
// empty; specversion is with them when id, source and type, which CloudEvents
// demands, all are. It is an error when one is not UTF-8.
func (b *Binding) Write(m *yekbar.Message) (yekbar.Header, error) {
	var h yekbar.Header
	if m.ID != "" && m.Source != "" && m.Type != "" {
		h.Add(b.Prefix+specVersion, "1.0")
	}
	for _, f := range fields {
		v := f.get(m)
		if v == "" {
			continue
		}
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("yekbar/broker/cloudevents: the attribute %q is not UTF-8", f.name)
		}
		h.Add(b.Prefix+f.name, b.encode(v))
	}
	return h, nil
}

const hexDigits = "0123456789ABCDEF"

func (b *Binding) encode(s string) string {
	if !b.Percent {
		return s
	}
	var e strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			e.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		} else {
			e.WriteByte(c)
		}
	}
	return e.String()
}

var errNotUTF8 = errors.New("the value is not UTF-8")

// decode undoes quotes, which older encoders set, and percent-encoding. A
// percent sign without two digits stands for itself.
func (b *Binding) decode(s string) (string, error) {
	if b.Percent {
		s = unescape(unquote(s))
	}
	if !utf8.ValidString(s) {
		return "", errNotUTF8
	}
	return s, nil
}

func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	in := s[1 : len(s)-1]
	var u strings.Builder
	for i := 0; i < len(in); i++ {
		if in[i] == '"' {
			return s // not one quoted string
		}
		if in[i] == '\\' {
			if i++; i == len(in) {
				return s
			}
		}
		u.WriteByte(in[i])
	}
	return u.String()
}

func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var u strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := hexValue(s[i+1]), hexValue(s[i+2])
			if hi >= 0 && lo >= 0 {
				u.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		u.WriteByte(s[i])
	}
	return u.String()
}

func hexValue(c byte) int {
	if 'a' <= c && c <= 'f' {
		c -= 'a' - 'A'
	}
	return strings.IndexByte(hexDigits, c)
}
