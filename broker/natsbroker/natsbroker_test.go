package natsbroker

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
)

func TestConnectErrorsHaveNoSecrets(t *testing.T) {
	// A port that nobody listens on.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		"nats://user:s3cret@" + address,
		"nats://s3cret@" + address,
		"user:s3cret@" + address,
		"nats://user:s3cret@" + address + ",nats://other:s3cret@" + address,
		"nats://user:s3cret@bad host:1",
		"nats://user:s3cret@127.0.0.1:s3cretport",
		"nats://user:s3%zzcret@" + address,
	} {
		_, err := Connect(url, nats.Timeout(time.Second))
		if err == nil {
			t.Fatalf("%s: connected", url)
		}
		if strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "cret") {
			t.Errorf("the error has the secret: %v", err)
		}
	}
	if _, err := Connect("nats://" + address); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("the error does not say where: %v", err)
	}
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		pattern, subject string
		want             bool
	}{
		{"orders", "orders", true}, {"orders", "refunds", false}, {"orders.*", "orders.de", true}, {"orders.*", "orders.de.x", false},
		{"orders.>", "orders.de.x", true}, {"orders.>", "orders", false}, {"orders.*", "orders.>", false}, {">", "a.b", true}, {"orders.>", "orders.*", true},
		{"orders.de", "orders.*", false}, {"orders.de.x", "orders.de", false},
	} {
		if got := covers(test.pattern, test.subject); got != test.want {
			t.Errorf("covers(%q, %q) = %v", test.pattern, test.subject, got)
		}
	}
}

func TestSourceConfigIsChecked(t *testing.T) {
	err := SourceConfig{AckWait: -1}.Validate()
	for _, field := range []string{"Stream", "Durable", "AckWait"} {
		if err == nil || !strings.Contains(err.Error(), "SourceConfig."+field) {
			t.Errorf("Validate does not name %s: %v", field, err)
		}
	}
}

func TestEncodeRefusesWhatWouldChangeOnTheWire(t *testing.T) {
	p := &Publisher{}
	for _, test := range []struct {
		name string
		m    yekbar.Message
		want string
	}{
		{"line break", yekbar.Message{Topic: "a", Header: yekbar.Header{{Name: "x", Value: []byte("a\nb")}}}, "line break"},
		{"leading space", yekbar.Message{Topic: "a", Header: yekbar.Header{{Name: "x", Value: []byte(" a")}}}, "begins or ends"},
		{"name", yekbar.Message{Topic: "a", Header: yekbar.Header{{Name: "x:y"}}}, "its name"},
		{"wildcard", yekbar.Message{Topic: "a.*"}, "no subject"},
		{"no topic", yekbar.Message{}, "no subject"},
		{"not UTF-8", yekbar.Message{Topic: "a", ID: "\xff"}, "UTF-8"},
		{"notice", yekbar.Message{Topic: "a", Header: yekbar.Header{{Name: "Status", Value: []byte("100")}}}, "Status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := p.encode(&test.m); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("encode returned %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestMessageID(t *testing.T) {
	for _, test := range []struct {
		name    string
		repeats bool
		m       yekbar.Message
		want    string
	}{
		{"identity with its subject", false, yekbar.Message{Topic: "orders", ID: "m-1", Source: "/shop"}, "orders /shop m-1"},
		{"the same event elsewhere", false, yekbar.Message{Topic: "refunds", ID: "m-1", Source: "/shop"}, "refunds /shop m-1"},
		{"none without ID", false, yekbar.Message{Topic: "orders"}, ""},
		{"none that doesn't fit", false, yekbar.Message{Topic: "orders", ID: "a\nb"}, ""},
		{"none by choice", true, yekbar.Message{Topic: "orders", ID: "m-1"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &Publisher{config: PublisherConfig{AcceptRepeats: test.repeats}}
			msg, err := p.encode(&test.m)
			if err != nil {
				t.Fatal(err)
			}
			if got := msg.Header.Get(msgIDHeader); got != test.want {
				t.Errorf("%s is %q, want %q", msgIDHeader, got, test.want)
			}
		})
	}
}

// received is a message as the client library hands it out.
type received struct {
	jetstream.Msg
	header nats.Header
	data   string
}

func (r received) Headers() nats.Header { return r.header }
func (r received) Data() []byte         { return []byte(r.data) }
func (r received) Subject() string      { return "orders" }

func TestIdentityOnTheWire(t *testing.T) {
	const structured = "application/cloudevents+json"
	for _, test := range []struct {
		name    string
		msg     received
		source  string
		id      string
		problem bool
	}{
		{"CloudEvents", received{header: nats.Header{"ce-id": {"m-1"}, "ce-source": {"/s"}, "Nats-Msg-Id": {"other"}}}, "/s", "m-1", false},
		{"the server's header", received{header: nats.Header{"Nats-Msg-Id": {"m-1"}}}, "", "m-1", false},
		{"that header in other case is another", received{header: nats.Header{"nats-msg-id": {"m-1"}}}, "", "", false},
		{"none", received{data: `{"id":"m-1"}`}, "", "", false},
		{"two", received{header: nats.Header{"Nats-Msg-Id": {"m-1", "m-2"}}}, "", "", true},
		{"two of CloudEvents", received{header: nats.Header{"ce-id": {"m-1", "m-2"}}}, "", "", true},
		{"structured", received{header: nats.Header{"Content-Type": {structured}, "Nats-Msg-Id": {"other"}}, data: `{"specversion":"1.0","id":"m-1","source":"/s","type":"t","data":{}}`}, "/s", "m-1", false},
		{"structured without ID", received{header: nats.Header{"content-type": {structured}, "Nats-Msg-Id": {"other"}}, data: `{"specversion":"1.0"}`}, "", "", false},
		{"structured and broken", received{header: nats.Header{"content-type": {structured}}, data: `{`}, "", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := decode(test.msg)
			if test.problem {
				if err == nil || m != nil {
					t.Errorf("decoded %+v", m)
				}
				return
			}
			if err != nil || m.Source != test.source || m.ID != test.id {
				t.Errorf("decoded %+v, %v", m, err)
			}
		})
	}
}

func TestRawAndHeaderHaveOneOrder(t *testing.T) {
	msg := received{header: nats.Header{"b": {"2", "1"}, "a": {"3"}, "c": {""}}, data: "x"}
	for range 20 {
		if got := string(raw(msg)); got != "NATS/1.0\r\na: 3\r\nb: 2\r\nb: 1\r\nc: \r\n\r\nx" {
			t.Fatalf("raw is %q", got)
		}
	}
}
