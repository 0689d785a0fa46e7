package cloudevents_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker/cloudevents"
)

var bindings = map[string]cloudevents.Binding{
	"HTTP": cloudevents.HTTP, "NATS": cloudevents.NATS, "Kafka": cloudevents.Kafka, "AMQP": cloudevents.AMQP, "MQTT": cloudevents.MQTT,
}

func TestBinaryModeSpelling(t *testing.T) {
	m := &yekbar.Message{ID: "A 1%", Source: "/shop", Type: "order.placed"}
	for name, want := range map[string][2]string{
		"HTTP": {"ce-id", "A%201%25"}, "NATS": {"ce-id", "A%201%25"}, "Kafka": {"ce_id", "A 1%"}, "AMQP": {"cloudEvents:id", "A 1%"}, "MQTT": {"id", "A 1%"},
	} {
		b := bindings[name]
		h, err := b.Write(m)
		if err != nil || h.Get(want[0]) != want[1] || h.Get(b.Prefix+"specversion") != "1.0" {
			t.Errorf("%s: wrote %q, %v", name, h, err)
		}
	}
	// What CloudEvents demands is not all there, so it does not claim to be one.
	b := cloudevents.NATS
	if h, err := b.Write(&yekbar.Message{ID: "m-1"}); err != nil || len(h) != 1 || h.Get("ce-id") != "m-1" {
		t.Errorf("wrote %q, %v", h, err)
	}
}

func TestBinaryModeReading(t *testing.T) {
	field := func(name, value string) yekbar.HeaderField {
		return yekbar.HeaderField{Name: name, Value: []byte(value)}
	}
	for _, test := range []struct {
		name, binding string
		header        yekbar.Header
		want          yekbar.Message
		problem       string
	}{
		{"other case", "NATS", yekbar.Header{field("Ce-Id", "m-1")}, yekbar.Message{ID: "m-1"}, ""},
		{"other case is another header", "Kafka", yekbar.Header{field("Ce_Id", "m-1")}, yekbar.Message{}, ""},
		{"the other prefix", "AMQP", yekbar.Header{field("cloudEvents_id", "m-1")}, yekbar.Message{ID: "m-1"}, ""},
		{"quoted", "HTTP", yekbar.Header{field("ce-id", `"a \"b\" c"`)}, yekbar.Message{ID: `a "b" c`}, ""},
		{"lower-case digits", "HTTP", yekbar.Header{field("ce-id", "%e2%82%ac")}, yekbar.Message{ID: "€"}, ""},
		{"percent alone", "HTTP", yekbar.Header{field("ce-id", "50%")}, yekbar.Message{ID: "50%"}, ""},
		{"twice the same", "NATS", yekbar.Header{field("ce-id", "m-1"), field("CE-ID", "m-1")}, yekbar.Message{ID: "m-1"}, ""},
		{"twice", "NATS", yekbar.Header{field("ce-id", "m-1"), field("CE-ID", "m-2")}, yekbar.Message{}, "twice"},
		{"overlong", "NATS", yekbar.Header{field("ce-id", "%C0%A0")}, yekbar.Message{}, "not UTF-8"},
		{"not UTF-8", "Kafka", yekbar.Header{field("ce_id", "\xff")}, yekbar.Message{}, "not UTF-8"},
		{"old version", "NATS", yekbar.Header{field("ce-specversion", "0.3")}, yekbar.Message{}, "specversion"},
		{"odd time", "NATS", yekbar.Header{field("ce-time", "yesterday")}, yekbar.Message{}, ""},
		{"key", "Kafka", yekbar.Header{field("ce_partitionkey", "k")}, yekbar.Message{OrderingKey: "k"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := bindings[test.binding]
			var m yekbar.Message
			err := b.Read(test.header, &m)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("error is %v, want one with %q", err, test.problem)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(m, test.want) {
				t.Errorf("got %+v, %v", m, err)
			}
		})
	}
}

func TestStructuredMode(t *testing.T) {
	const start = `{"specversion":"1.0","id":"m-1","source":"/s","type":"t"`
	for _, test := range []struct{ name, event, payload, problem string }{
		{"json", start + `,"data":{ "n" : 1 }}`, `{ "n" : 1 }`, ""},
		{"json string", start + `,"data":"x"}`, `"x"`, ""},
		{"text", start + `,"datacontenttype":"text/plain","data":"x\ny"}`, "x\ny", ""},
		{"base64", start + `,"data_base64":"AP8="}`, "\x00\xff", ""},
		{"null data", start + `,"data":null}`, "null", ""},
		{"no data", start + `}`, "", ""},
		{"both", start + `,"data":1,"data_base64":"AA=="}`, "", "both"},
		{"bad base64", start + `,"data_base64":"?"}`, "", "base64"},
		{"id twice", start + `,"id":"m-2"}`, "", "twice"},
		{"id is a number", `{"specversion":"1.0","id":1}`, "", "not a string"},
		{"half a pair", `{"specversion":"1.0","id":"\ud800"}`, "", "surrogate"},
		{"no version", `{"id":"m-1"}`, "", "specversion"},
		{"trailing bytes", start + `} {}`, "", "after"},
		{"array", `[]`, "", "object"},
		{"cut", start, "", "EOF"},
		{"not UTF-8", start + ",\"x\":\"\xff\"}", "", "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := cloudevents.NATS
			var m yekbar.Message
			err := b.ReadStructured([]byte(test.event), &m)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("error is %v, want one with %q", err, test.problem)
				}
				return
			}
			if err != nil || m.ID != "m-1" || m.Source != "/s" || m.Type != "t" || string(m.Payload) != test.payload {
				t.Errorf("got %+v, %v", m, err)
			}
		})
	}
	for contentType, want := range map[string]bool{
		"application/cloudevents+json": true, "Application/CloudEvents+JSON; charset=UTF-8": true, "application/cloudevents+json; charset": true, "application/json": false, "": false,
	} {
		if got, err := cloudevents.Structured(contentType); got != want || err != nil {
			t.Errorf("Structured(%q) = %v, %v", contentType, got, err)
		}
	}
	for _, contentType := range []string{"application/cloudevents-batch+json", "application/cloudevents+avro"} {
		if _, err := cloudevents.Structured(contentType); err == nil {
			t.Errorf("Structured(%q) is no error", contentType)
		}
	}
}

func TestStructuredKeepsExtensions(t *testing.T) {
	b := cloudevents.NATS
	m := yekbar.Message{ID: "m-1", Source: "/s", Type: "t", Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), OrderingKey: "k", Payload: []byte("a\x00b"),
		Header: yekbar.Header{{Name: "ce-datacontenttype", Value: []byte("image/png")}, {Name: "ce-tenant", Value: []byte("A%20B")}}}
	event, err := b.WriteStructured(&m)
	if err != nil {
		t.Fatal(err)
	}
	var got yekbar.Message
	if err := b.ReadStructured(event, &got); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("got %+v, %v\nfrom %s", got, err, event)
	}
	if _, err := b.WriteStructured(&yekbar.Message{ID: "m-1"}); err == nil {
		t.Error("an event without source is no error")
	}
}

func FuzzBinaryMode(f *testing.F) {
	f.Add("m-1", "/shop", "é €", "%41")
	f.Add(`"q"`, " ", "\x00\r\n", "%")
	f.Fuzz(func(t *testing.T, id, source, subject, key string) {
		m := yekbar.Message{ID: id, Source: source, Subject: subject, OrderingKey: key}
		for name, b := range bindings {
			h, err := b.Write(&m)
			valid := utf8.ValidString(id) && utf8.ValidString(source) && utf8.ValidString(subject) && utf8.ValidString(key)
			if (err == nil) != valid {
				t.Fatalf("%s: Write returned %v", name, err)
			}
			if err != nil {
				continue
			}
			var got yekbar.Message
			if err := b.Read(h, &got); err != nil || !reflect.DeepEqual(got, m) {
				t.Fatalf("%s: %q came back as %+v, %v", name, h, got, err)
			}
			for _, f := range h {
				for _, c := range f.Value {
					if b.Percent && (c <= ' ' || c > '~') {
						t.Fatalf("%s: header %q has the byte %#x", name, f.Name, c)
					}
				}
			}
		}
	})
}

func FuzzStructuredMode(f *testing.F) {
	f.Add("m-1", "text/plain", []byte("x"))
	f.Add("\ufffd", "application/json", []byte(` {"a":1}`))
	f.Fuzz(func(t *testing.T, id, contentType string, payload []byte) {
		b := cloudevents.HTTP
		if id == "" || !utf8.ValidString(id) || !utf8.ValidString(contentType) {
			return
		}
		extra, err := b.Write(&yekbar.Message{Subject: contentType})
		if err != nil {
			t.Fatal(err)
		}
		m := yekbar.Message{ID: id, Source: "/s", Type: "t", Payload: payload}
		m.Header.Add("ce-datacontenttype", extra.Get("ce-subject"))
		event, err := b.WriteStructured(&m)
		if err != nil {
			t.Fatal(err)
		}
		var got yekbar.Message
		if err := b.ReadStructured(event, &got); err != nil || got.ID != id || !bytes.Equal(got.Payload, payload) {
			t.Fatalf("%s came back as %+v, %v", event, got, err)
		}
	})
}

func FuzzReadStructured(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"m-1","data":{}}`))
	f.Fuzz(func(_ *testing.T, event []byte) {
		b := cloudevents.HTTP
		var m yekbar.Message
		_ = b.ReadStructured(event, &m) // must not panic
	})
}
