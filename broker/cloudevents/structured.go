package cloudevents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
)

// ContentType is the media type of a message in structured mode.
const ContentType = "application/cloudevents+json"

const dataContentType = "datacontenttype"

// Structured reports whether a content type announces structured mode. It is
// an error when it announces a format other than JSON, or a batch.
func Structured(contentType string) (bool, error) {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		t = ""
	}
	if !strings.HasPrefix(t, "application/cloudevents") {
		return false, nil
	}
	if t != ContentType && t != "application/cloudevents" {
		return false, fmt.Errorf("yekbar/broker/cloudevents: content type %q is not supported; %s is, one event a message", t, ContentType)
	}
	return true, nil
}

// ReadStructured sets the fields and the payload of m from a JSON object of
// the JSON event format. Attributes that have no field are appended to the
// header under the binding's names. The payload is the data: the bytes of
// data_base64; the text of a data that is a string when datacontenttype is
// not JSON; otherwise the JSON text of data as it stands.
func (b *Binding) ReadStructured(event []byte, m *yekbar.Message) error {
	members, err := parseObject(event)
	if err != nil {
		return fmt.Errorf("yekbar/broker/cloudevents: structured mode: %w", err)
	}
	if err := b.readMembers(members, m); err != nil {
		return fmt.Errorf("yekbar/broker/cloudevents: structured mode: %w", err)
	}
	return nil
}

type member struct {
	name  string
	value json.RawMessage
}

// parseObject returns the members in order, each once.
func parseObject(event []byte) ([]member, error) {
	if !utf8.Valid(event) {
		return nil, errors.New("the event is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(event))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the event is no JSON object")
	}
	var members []member
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok || seen[name] {
			return nil, fmt.Errorf("the member %q stands there twice", name)
		}
		seen[name] = true
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		if string(v) != "null" || name == "data" {
			members = append(members, member{name, v})
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there are bytes after the JSON object")
	}
	return members, nil
}

func (b *Binding) readMembers(members []member, m *yekbar.Message) error {
	version, contentType := "", "application/json"
	var data, base json.RawMessage
	for _, x := range members {
		switch x.name {
		case "data":
			data = x.value
			continue
		case "data_base64":
			base = x.value
			continue
		}
		f, known := fieldOf(x.name)
		v, err := attributeText(x, known || x.name == specVersion)
		if err != nil {
			return err
		}
		switch {
		case x.name == specVersion:
			version = v
			continue
		case x.name == dataContentType:
			contentType = v
		case known && f.set(m, v):
			continue
		}
		m.Header.Add(b.Prefix+x.name, b.encode(v))
	}
	if err := versionProblem(version); err != nil {
		return err
	}
	payload, err := payloadOf(data, base, contentType)
	m.Payload = payload
	return err
}

// attributeText returns an attribute's text: a string, or where it may be one,
// a boolean or a number.
func attributeText(x member, mustBeString bool) (string, error) {
	switch x.value[0] {
	case '"':
		var s string
		if err := json.Unmarshal(x.value, &s); err != nil {
			return "", err
		}
		// A lone surrogate becomes the replacement character, and so two
		// different texts could become one.
		if strings.ContainsRune(s, utf8.RuneError) && !bytes.ContainsRune(x.value, utf8.RuneError) && !bytes.Contains(bytes.ToLower(x.value), []byte(`\ufffd`)) {
			return "", fmt.Errorf("the member %q has half a surrogate pair", x.name)
		}
		return s, nil
	case '{', '[':
	default:
		if !mustBeString {
			return string(x.value), nil
		}
	}
	return "", fmt.Errorf("the member %q is not a string", x.name)
}

func payloadOf(data, base json.RawMessage, contentType string) ([]byte, error) {
	if data != nil && base != nil {
		return nil, errors.New("it has both data and data_base64")
	}
	if base != nil {
		s, err := attributeText(member{"data_base64", base}, true)
		if err != nil {
			return nil, err
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, fmt.Errorf("data_base64: %w", err)
		}
		return b, nil
	}
	if len(data) > 0 && data[0] == '"' && !isJSON(contentType) {
		s, err := attributeText(member{"data", data}, true)
		return []byte(s), err
	}
	return data, nil
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	_, sub, _ := strings.Cut(t, "/")
	return err == nil && (sub == "json" || strings.HasSuffix(sub, "+json"))
}

// WriteStructured returns m as a JSON object of the JSON event format, with
// the attributes of the binding that its header has. ReadStructured gives back
// the same payload, byte for byte. CloudEvents demands ID, Source and Type; it
// is an error when one is empty, or an attribute is not UTF-8.
func (b *Binding) WriteStructured(m *yekbar.Message) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(`{"specversion":"1.0"`)
	put := func(name, value string) error {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return fmt.Errorf("yekbar/broker/cloudevents: the attribute %q is not UTF-8", name)
		}
		n, err := json.Marshal(name)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, ",%s:%s", n, v)
		return nil
	}
	for _, f := range fields {
		v := f.get(m)
		if v == "" {
			if f.name == "id" || f.name == "source" || f.name == "type" {
				return nil, fmt.Errorf("yekbar/broker/cloudevents: structured mode needs the attribute %q", f.name)
			}
			continue
		}
		if err := put(f.name, v); err != nil {
			return nil, err
		}
	}
	contentType := "application/json"
	seen := map[string]bool{"data": true, "data_base64": true}
	for _, f := range m.Header {
		name, ok := b.attribute(f.Name)
		if !ok || b.Prefix == "" || b.Owns(f.Name) || seen[name] {
			continue
		}
		seen[name] = true
		v, err := b.decode(string(f.Value))
		if err != nil {
			return nil, fmt.Errorf("yekbar/broker/cloudevents: header %q: %w", f.Name, err)
		}
		if name == dataContentType {
			contentType = v
		}
		if err := put(name, v); err != nil {
			return nil, err
		}
	}
	switch p := m.Payload; {
	case len(p) == 0:
	case isJSON(contentType) && utf8.Valid(p) && json.Valid(p) && len(bytes.TrimSpace(p)) == len(p):
		out.WriteString(`,"data":`)
		out.Write(p)
	default:
		fmt.Fprintf(&out, `,"data_base64":%q`, base64.StdEncoding.EncodeToString(p))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
