package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
	"github.com/yekbar-go/yekbar/worker"
)

// A naive worker is the loop that people write first; each of its mistakes can
// be switched on.
type naive struct {
	src broker.Source
	p   worker.Processor

	ackFirst, ackOnError, ackOnRunContext, unbounded, noExtend, keepsLost, nackAtOnce, burnsOutage, nackOnRunContext bool
}

func (n *naive) Run(ctx context.Context) error {
	limit := 4
	if n.unbounded {
		limit = 1000
	}
	slots := make(chan struct{}, limit)
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		ds, err := n.src.Receive(ctx, 1)
		if err != nil {
			return nil
		}
		group.Go(func() {
			defer func() { <-slots }()
			n.handle(ctx, ds[0])
		})
	}
}

func (n *naive) handle(ctx context.Context, d broker.Delivery) {
	settling := context.WithoutCancel(ctx)
	handling, cancel := context.WithCancel(settling)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-d.Lost():
				if !n.keepsLost {
					cancel()
				}
				return
			case <-time.After(10 * time.Second):
				if !n.noExtend {
					_ = d.Extend(settling)
				}
			}
		}
	}()
	if n.ackFirst {
		_ = d.Ack(settling)
	}
	m, err := d.Message()
	if err == nil {
		_, err = n.p.Process(handling, m)
	}
	for errors.Is(err, yekbar.ErrUnavailable) && !n.burnsOutage && ctx.Err() == nil {
		pass(time.Second)
		_, err = n.p.Process(handling, m)
	}
	ackContext, nackContext, delay := settling, settling, 30*time.Second
	if n.ackOnRunContext {
		ackContext = ctx
	}
	if n.nackOnRunContext {
		nackContext = ctx
	}
	if n.nackAtOnce {
		delay = time.Millisecond
	}
	if err == nil || n.ackOnError {
		_ = d.Ack(ackContext)
	} else {
		if ctx.Err() != nil {
			delay = 0
		}
		_ = d.Nack(nackContext, delay)
	}
}

// A promise is what every worker must keep; it returns how it was broken.
type promise struct {
	name string
	test func(start func(broker.Source, worker.Processor) (stop func() error)) error
}

func oneMessage() *membroker.Broker {
	b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
	_ = b.Publisher().Publish(context.Background(), []*yekbar.Message{{ID: "m-1", Topic: topic}})
	return b
}

var promises = []promise{
	{"acknowledged only after COMMIT", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		release := make(chan struct{})
		stop := start(b.Source(topic), &processor{process: func(context.Context, *yekbar.Message) error { <-release; return nil }})
		synctest.Wait()
		c := b.Counts(topic)
		close(release)
		if err := stop(); err != nil {
			return err
		}
		if c.Acked != 0 {
			return errors.New("acknowledged while the handler ran")
		}
		return nil
	}},
	{"an error is never acknowledged", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		stop := start(b.Source(topic), &processor{process: func(context.Context, *yekbar.Message) error { return errors.New("no") }})
		await(time.Minute)
		if err := stop(); err != nil {
			return err
		}
		if c := b.Counts(topic); c.Acked != 0 {
			return errors.New("acknowledged although the handler failed")
		}
		return nil
	}},
	{"an error is no hot loop", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		stop := start(b.Source(topic), &processor{process: func(context.Context, *yekbar.Message) error { return errors.New("no") }})
		await(time.Minute)
		if err := stop(); err != nil {
			return err
		}
		if c := b.Counts(topic); c.Deliveries > 15 {
			return fmt.Errorf("delivered %d times in a minute", c.Deliveries)
		}
		return nil
	}},
	{"done during shutdown is acknowledged", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		stop := start(b.Source(topic), &processor{process: func(context.Context, *yekbar.Message) error { pass(2 * time.Second); return nil }})
		await(time.Second)
		if err := stop(); err != nil {
			return err
		}
		if c := b.Counts(topic); c.Acked != 1 {
			return errors.New("done, and not acknowledged")
		}
		return nil
	}},
	{"failed during shutdown is given back", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		src := &keepsOpen{b.Source(topic)}
		stop := start(src, &processor{process: func(context.Context, *yekbar.Message) error {
			pass(2 * time.Second)
			return errors.New("no")
		}})
		await(time.Second)
		if err := stop(); err != nil {
			return err
		}
		if c := b.Counts(topic); c.Waiting != 1 {
			return errors.New("neither done nor given back")
		}
		return nil
	}},
	{"holds a bounded number", func(start func(broker.Source, worker.Processor) func() error) error {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		ms := numbered(5000)
		for _, m := range ms {
			m.Topic = topic
		}
		_ = b.Publisher().Publish(context.Background(), ms)
		release := make(chan struct{})
		stop := start(b.Source(topic), &processor{process: func(context.Context, *yekbar.Message) error { <-release; return nil }})
		synctest.Wait()
		c := b.Counts(topic)
		close(release)
		if err := stop(); err != nil {
			return err
		}
		if c.MostHeld > 8 {
			return fmt.Errorf("held %d deliveries, 8 are allowed", c.MostHeld)
		}
		return nil
	}},
	{"a slow handler keeps its lease", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		stop := start(b.Source(topic), &processor{process: func(context.Context, *yekbar.Message) error { pass(5 * time.Minute); return nil }})
		await(10 * time.Minute)
		if err := stop(); err != nil {
			return err
		}
		if c := b.Counts(topic); c.Deliveries != 1 {
			return fmt.Errorf("delivered %d times", c.Deliveries)
		}
		return nil
	}},
	{"a lost lease cancels the handler", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		cancelled := false
		stop := start(b.Source(topic), &processor{process: func(ctx context.Context, _ *yekbar.Message) error {
			select {
			case <-ctx.Done():
				cancelled = true
			case <-time.After(10 * time.Second):
			}
			return nil
		}})
		await(time.Second)
		b.LoseLeases(topic)
		await(time.Minute)
		if err := stop(); err != nil {
			return err
		}
		if !cancelled {
			return errors.New("went on without its lease")
		}
		return nil
	}},
	{"an outage of the database spends no deliveries", func(start func(broker.Source, worker.Processor) func() error) error {
		b := oneMessage()
		stop := start(b.Source(topic), &processor{process: func(context.Context, *yekbar.Message) error { return yekbar.ErrUnavailable }})
		await(10 * time.Minute)
		n := b.Counts(topic).Deliveries
		if err := stop(); err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("delivered %d times", n)
		}
		return nil
	}},
}

// keepsOpen is a source whose Close gives nothing back, as when the process
// ends without it.
type keepsOpen struct{ broker.Source }

func (*keepsOpen) Close(context.Context) error { return nil }

func starting(open func(broker.Source, worker.Processor) (worker.Runner, error)) func(broker.Source, worker.Processor) func() error {
	return func(src broker.Source, p worker.Processor) func() error {
		r, err := open(src, p)
		if err != nil {
			return func() error { return err }
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		return func() error {
			cancel()
			return <-ended
		}
	}
}

func TestPromisesAreKeptAndTwinsAreCaught(t *testing.T) {
	right := starting(func(src broker.Source, p worker.Processor) (worker.Runner, error) {
		return worker.New(src, p, worker.Config{Concurrency: 4, Prefetch: 8, Logger: slog.New(slog.DiscardHandler)})
	})
	twins := map[string]func(*naive){
		"acknowledged only after COMMIT":                 func(n *naive) { n.ackFirst = true },
		"an error is never acknowledged":                 func(n *naive) { n.ackOnError = true },
		"an error is no hot loop":                        func(n *naive) { n.nackAtOnce = true },
		"done during shutdown is acknowledged":           func(n *naive) { n.ackOnRunContext = true },
		"failed during shutdown is given back":           func(n *naive) { n.nackOnRunContext = true },
		"holds a bounded number":                         func(n *naive) { n.unbounded = true },
		"a slow handler keeps its lease":                 func(n *naive) { n.noExtend = true },
		"a lost lease cancels the handler":               func(n *naive) { n.keepsLost = true },
		"an outage of the database spends no deliveries": func(n *naive) { n.burnsOutage = true },
	}
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := p.test(right); err != nil {
					t.Errorf("the worker: %v", err)
				}
			})
			// A naive worker without the mistake keeps it too, so it is the
			// mistake that is caught.
			for _, fault := range []func(*naive){nil, twins[p.name]} {
				synctest.Test(t, func(t *testing.T) {
					err := p.test(starting(func(src broker.Source, proc worker.Processor) (worker.Runner, error) {
						n := &naive{src: src, p: proc}
						if fault != nil {
							fault(n)
						}
						return n, nil
					}))
					if (err == nil) != (fault == nil) {
						t.Errorf("the naive worker with its mistake (%v): %v", fault != nil, err)
					}
				})
			}
		})
	}
}
