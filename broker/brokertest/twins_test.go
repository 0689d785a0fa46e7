package brokertest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
)

// A twin is an adapter that is right but for one fault.
type twin struct {
	broker.Source
	deliver func(broker.Delivery) broker.Delivery
	receive func(s broker.Source, ctx context.Context, limit int) ([]broker.Delivery, error)
	caps    func(*broker.Capabilities)
	close   func(broker.Source, context.Context) error
}

func (t *twin) Capabilities() broker.Capabilities {
	c := t.Source.Capabilities()
	if t.caps != nil {
		t.caps(&c)
	}
	return c
}

func (t *twin) Receive(ctx context.Context, limit int) ([]broker.Delivery, error) {
	receive := broker.Source.Receive
	if t.receive != nil {
		receive = t.receive
	}
	ds, err := receive(t.Source, ctx, limit)
	if t.deliver != nil {
		for i, d := range ds {
			ds[i] = t.deliver(d)
		}
	}
	return ds, err
}

func (t *twin) Close(ctx context.Context) error {
	if t.close != nil {
		return t.close(t.Source, ctx)
	}
	return t.Source.Close(ctx)
}

// odd is a delivery some of whose methods are replaced.
type odd struct {
	broker.Delivery
	ack         func(context.Context) error
	nack        func(context.Context, time.Duration) error
	extend      func(context.Context) error
	message     func() (*yekbar.Message, error)
	raw         func() []byte
	coordinates func() string
	attempt     func() (int, bool)
	lost        <-chan struct{}
}

func (o *odd) Ack(ctx context.Context) error {
	if o.ack != nil {
		return o.ack(ctx)
	}
	return o.Delivery.Ack(ctx)
}

func (o *odd) Nack(ctx context.Context, d time.Duration) error {
	if o.nack != nil {
		return o.nack(ctx, d)
	}
	return o.Delivery.Nack(ctx, d)
}

func (o *odd) Extend(ctx context.Context) error {
	if o.extend != nil {
		return o.extend(ctx)
	}
	return o.Delivery.Extend(ctx)
}

func (o *odd) Message() (*yekbar.Message, error) {
	if o.message != nil {
		return o.message()
	}
	return o.Delivery.Message()
}

func (o *odd) Raw() []byte {
	if o.raw != nil {
		return o.raw()
	}
	return o.Delivery.Raw()
}

func (o *odd) Coordinates() string {
	if o.coordinates != nil {
		return o.coordinates()
	}
	return o.Delivery.Coordinates()
}

func (o *odd) Attempt() (int, bool) {
	if o.attempt != nil {
		return o.attempt()
	}
	return o.Delivery.Attempt()
}

func (o *odd) Lost() <-chan struct{} {
	if o.lost != nil {
		return o.lost
	}
	return o.Delivery.Lost()
}

// changed returns a fault that edits each message.
func changed(edit func(*yekbar.Message)) func() *twin {
	return oddly(func(d broker.Delivery) *odd {
		return &odd{message: func() (*yekbar.Message, error) {
			m, err := d.Message()
			if err == nil {
				edit(m)
			}
			return m, err
		}}
	})
}

func oddly(f func(broker.Delivery) *odd) func() *twin {
	return func() *twin {
		return &twin{deliver: func(d broker.Delivery) broker.Delivery {
			o := f(d)
			o.Delivery = d
			return o
		}}
	}
}

// oddPublisher is a publisher whose Publish is replaced.
type oddPublisher struct {
	broker.Publisher
	publish func(context.Context, []*yekbar.Message) error
}

func (p *oddPublisher) Publish(ctx context.Context, ms []*yekbar.Message) error {
	return p.publish(ctx, ms)
}

func TestTwinsAreCaught(t *testing.T) {
	// A greedy source fetches ahead, whatever it is asked for.
	greedy := func() *twin {
		var mu sync.Mutex
		var ahead []broker.Delivery
		return &twin{receive: func(s broker.Source, ctx context.Context, limit int) ([]broker.Delivery, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(ahead) == 0 {
				ds, err := s.Receive(ctx, 100)
				if err != nil {
					return nil, err
				}
				ahead = ds
			}
			n := min(limit, len(ahead))
			ds := slices.Clone(ahead[:n])
			ahead = ahead[n:]
			return ds, nil
		}}
	}
	for _, test := range []struct {
		name, check string
		source      func() *twin
		publish     func(p broker.Publisher) func(context.Context, []*yekbar.Message) error
		sourceCaps  func(*broker.Capabilities)
	}{
		{name: "acknowledges on receipt", check: "unsettled comes again after the lease", source: oddly(func(d broker.Delivery) *odd {
			_ = d.Ack(context.Background())
			return &odd{lost: closed()}
		})},
		{name: "drops acknowledgements", check: "acknowledged is done", source: oddly(func(broker.Delivery) *odd {
			return &odd{ack: func(context.Context) error { return nil }}
		})},
		{name: "Nack acknowledges", check: "Nack brings it again at once", source: oddly(func(d broker.Delivery) *odd {
			return &odd{nack: func(ctx context.Context, _ time.Duration) error { return d.Ack(ctx) }}
		})},
		{name: "Nack ignores its delay", check: "Nack honours its delay", source: oddly(func(d broker.Delivery) *odd {
			return &odd{nack: func(ctx context.Context, _ time.Duration) error { return d.Nack(ctx, 0) }}
		})},
		{name: "Extend does nothing", check: "Extend holds the lease", source: oddly(func(broker.Delivery) *odd {
			return &odd{extend: func(context.Context) error { return nil }}
		})},
		{name: "Extend hides that it can't", check: "Extend says when it can't", source: func() *twin {
			w := oddly(func(broker.Delivery) *odd { return &odd{extend: func(context.Context) error { return nil }} })()
			w.caps = func(c *broker.Capabilities) { c.Extendable = false }
			return w
		}},
		{name: "Lost never closes", check: "unsettled comes again after the lease", source: oddly(func(broker.Delivery) *odd {
			return &odd{lost: make(chan struct{})}
		})},
		{name: "settles what it lost", check: "unsettled comes again after the lease", source: oddly(func(d broker.Delivery) *odd {
			return &odd{ack: func(ctx context.Context) error { _ = d.Ack(ctx); return nil }}
		})},
		{name: "settles twice", check: "settled once", source: oddly(func(d broker.Delivery) *odd {
			return &odd{ack: func(ctx context.Context) error {
				if err := d.Ack(ctx); !errors.Is(err, broker.ErrSettled) {
					return err
				}
				return nil
			}}
		})},
		{name: "both of two at once succeed", check: "settled once by many at a time", source: oddly(func(d broker.Delivery) *odd {
			return &odd{nack: func(ctx context.Context, delay time.Duration) error {
				if err := d.Nack(ctx, delay); !errors.Is(err, broker.ErrSettled) {
					return err
				}
				return nil
			}}
		})},
		{name: "a cancelled Ack settles", check: "a cancelled settling leaves it open", source: oddly(func(d broker.Delivery) *odd {
			return &odd{ack: func(ctx context.Context) error { return errors.Join(d.Ack(context.WithoutCancel(ctx)), ctx.Err()) }}
		})},
		{name: "Receive ignores its limit", check: "Receive honours its limit", source: func() *twin {
			return &twin{receive: func(s broker.Source, ctx context.Context, _ int) ([]broker.Delivery, error) { return s.Receive(ctx, 5) }}
		}},
		{name: "fetches ahead", check: "Receive holds nothing back", source: greedy},
		{name: "Receive ignores its context", check: "Receive honours its context", source: func() *twin {
			return &twin{receive: func(s broker.Source, ctx context.Context, limit int) ([]broker.Delivery, error) {
				return s.Receive(context.WithoutCancel(ctx), limit)
			}}
		}},
		{name: "loses what came to a cancelled Receive", check: "Receive honours its context", source: func() *twin {
			cancelled := false
			return &twin{receive: func(s broker.Source, ctx context.Context, limit int) ([]broker.Delivery, error) {
				ds, err := s.Receive(ctx, limit)
				if len(ds) > 0 && cancelled {
					return s.Receive(ctx, limit)
				}
				cancelled = errors.Is(err, context.Canceled)
				return ds, err
			}}
		}},
		{name: "Close is no end", check: "Receive ends when the source closes", source: func() *twin {
			return &twin{close: func(broker.Source, context.Context) error { return nil }}
		}},
		{name: "Close keeps what it holds", check: "Close gives back", source: func() *twin {
			return &twin{close: func(broker.Source, context.Context) error { return nil }}
		}},
		{name: "coordinates of a delivery, not a message", check: "Nack brings it again at once", source: oddly(func(d broker.Delivery) *odd {
			return &odd{coordinates: func() string { n, _ := d.Attempt(); return d.Coordinates() + " " + strconv.Itoa(n) }}
		})},
		{name: "one place for all", check: "every message is delivered", source: oddly(func(broker.Delivery) *odd {
			return &odd{coordinates: func() string { return "orders" }}
		})},
		{name: "hides redelivery", check: "Nack brings it again at once", source: oddly(func(broker.Delivery) *odd {
			return &odd{attempt: func() (int, bool) { return 1, false }}
		})},
		{name: "counts and doesn't say so", check: "every message is delivered", source: func() *twin {
			return &twin{caps: func(c *broker.Capabilities) { c.Counts = false }}
		}},
		{name: "claims an order", check: "order is kept as declared", source: func() *twin {
			return &twin{caps: func(c *broker.Capabilities) { c.Order = broker.Total }}
		}, sourceCaps: func(c *broker.Capabilities) { c.Order = broker.PerKey }},
		{name: "claims that acknowledgements keep order", check: "a held delivery holds back what AckInOrder says", source: func() *twin {
			return &twin{caps: func(c *broker.Capabilities) { c.AckInOrder = true }}
		}},
		{name: "commits a prefix and doesn't say so", check: "a held delivery holds back what AckInOrder says", source: func() *twin {
			return &twin{caps: func(c *broker.Capabilities) { c.AckInOrder = false }}
		}, sourceCaps: func(c *broker.Capabilities) { c.AckInOrder = true }},
		{name: "leaves goroutines", check: leaks.name, source: func() *twin {
			return &twin{close: func(s broker.Source, ctx context.Context) error {
				go func() { <-ctx.Done(); select {} }()
				return s.Close(ctx)
			}}
		}},
		{name: "a goroutine for each delivery", check: "a thousand redeliveries", source: oddly(func(broker.Delivery) *odd {
			go func() { select {} }()
			return &odd{}
		})},
		{name: "guesses an ID", check: "a message without ID has none", source: changed(func(m *yekbar.Message) {
			if m.ID == "" {
				m.ID = "guessed"
			}
		})},
		{name: "trims IDs", check: "a message keeps its fields", source: changed(func(m *yekbar.Message) { m.ID = string(bytes.ToLower([]byte(m.ID))) })},
		{name: "loses the time's fraction", check: "a message keeps its fields", source: changed(func(m *yekbar.Message) { m.Time = m.Time.Truncate(time.Second) })},
		{name: "keeps one value of a header", check: "headers are kept byte for byte", source: changed(func(m *yekbar.Message) { m.Header.Set("Trace", m.Header.Get("Trace")) })},
		{name: "joins header names by case", check: "headers are kept byte for byte", source: changed(func(m *yekbar.Message) {
			for i := range m.Header {
				if m.Header[i].Name == "trace" {
					m.Header[i].Name = "Trace"
				}
			}
		})},
		{name: "cuts payloads", check: "the largest payload", source: changed(func(m *yekbar.Message) { m.Payload = m.Payload[:min(len(m.Payload), 1000)] })},
		{name: "drops empty payloads", check: "an empty payload", source: oddly(func(d broker.Delivery) *odd {
			return &odd{message: func() (*yekbar.Message, error) {
				m, err := d.Message()
				if err == nil && len(m.Payload) == 0 {
					return nil, errors.New("no payload")
				}
				return m, err
			}}
		})},
		{name: "decodes what it can't", check: "undecodable", source: oddly(func(broker.Delivery) *odd {
			return &odd{message: func() (*yekbar.Message, error) { return &yekbar.Message{}, nil }}
		})},
		{name: "no raw bytes", check: "undecodable", source: oddly(func(broker.Delivery) *odd {
			return &odd{raw: func() []byte { return nil }}
		})},
		{name: "one message for all", check: "Message gives each caller its own", source: oddly(func(d broker.Delivery) *odd {
			m, err := d.Message()
			return &odd{message: func() (*yekbar.Message, error) { return m, err }}
		})},
		{name: "an outage is an error like any other", check: "an outage of the broker", source: func() *twin {
			return &twin{receive: func(s broker.Source, ctx context.Context, limit int) ([]broker.Delivery, error) {
				ds, err := s.Receive(ctx, limit)
				if errors.Is(err, broker.ErrOutage) {
					err = errors.New("EOF")
				}
				return ds, err
			}}
		}},
		{name: "confirms what it didn't send", check: "every message is delivered", publish: func(p broker.Publisher) func(context.Context, []*yekbar.Message) error {
			return func(ctx context.Context, ms []*yekbar.Message) error { return p.Publish(ctx, ms[:len(ms)-1]) }
		}},
		{name: "takes confirmed for routed", check: "unroutable", publish: ignoring(broker.ErrUnroutable)},
		{name: "drops what is too large", check: "too large", publish: ignoring(broker.ErrTooLarge)},
		{name: "fails all for one", check: "too large", publish: func(p broker.Publisher) func(context.Context, []*yekbar.Message) error {
			return func(ctx context.Context, ms []*yekbar.Message) error {
				err := p.Publish(ctx, ms)
				if e := (*broker.PublishError)(nil); errors.As(err, &e) {
					return &broker.PublishError{Failed: map[int]error{0: e.Failed[1], 1: e.Failed[1], 2: e.Failed[1]}}
				}
				return err
			}
		}},
		{name: "publishes after Close", check: "a closed publisher", publish: ignoring(broker.ErrClosed)},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := append(slices.Concat(checks, contentChecks), leaks)
			i := slices.IndexFunc(all, func(c check) bool { return c.name == test.check })
			if i < 0 {
				t.Fatalf("no check %q", test.check)
			}
			if test.check != leaks.name && test.name != "a goroutine for each delivery" {
				t.Parallel()
			}
			caps := membroker.Typical()
			caps.Lease = 500 * time.Millisecond
			if test.sourceCaps != nil {
				test.sourceCaps(&caps)
			}
			if skip, err := perform(t.Context(), all[i], memory(caps, nil, nil)); skip != "" && test.name != "Extend hides that it can't" || err != nil {
				t.Fatalf("the right adapter: %s %v", skip, err)
			}
			skip, err := perform(t.Context(), all[i], memory(caps, test.source, test.publish))
			if err == nil {
				t.Errorf("not caught (skipped: %q)", skip)
			}
		})
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func ignoring(what error) func(p broker.Publisher) func(context.Context, []*yekbar.Message) error {
	return func(p broker.Publisher) func(context.Context, []*yekbar.Message) error {
		return func(ctx context.Context, ms []*yekbar.Message) error {
			if err := p.Publish(ctx, ms); !errors.Is(err, what) {
				return err
			}
			return nil
		}
	}
}

func memory(caps broker.Capabilities, fault func() *twin, publish func(p broker.Publisher) func(context.Context, []*yekbar.Message) error) *Fixture {
	const topic = "orders"
	b := membroker.New(membroker.Config{Capabilities: caps, Topics: []string{topic}})
	return &Fixture{
		Source: func(context.Context) (broker.Source, error) {
			if fault == nil {
				return b.Source(topic), nil
			}
			w := fault()
			w.Source = b.Source(topic)
			return w, nil
		},
		Publisher: func(context.Context) (broker.Publisher, error) {
			if publish == nil {
				return b.Publisher(), nil
			}
			p := b.Publisher()
			return &oddPublisher{p, publish(p)}, nil
		},
		Topic:      topic,
		Unroutable: "elsewhere",
		PublishUndecodable: func(context.Context) ([]byte, error) {
			b.PublishRaw(topic, []byte("{bad"))
			return []byte("{bad"), nil
		},
		Stop:        func() error { b.SetOutage(true); return nil },
		Start:       func() error { b.SetOutage(false); return nil },
		AcksSurvive: true,
		Patience:    2 * time.Second,
	}
}
