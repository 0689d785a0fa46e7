package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/broker/membroker"
	"github.com/yekbar-go/yekbar/worker"
)

func TestNewRefusesWhatDoesNotGoTogether(t *testing.T) {
	fits := membroker.Typical()
	many, short, few := fits, fits, fits
	many.ManyTopics = true
	short.Extendable, short.Lease = false, 5*time.Second
	few.MaxAttempts = 10
	for _, test := range []struct {
		name string
		caps broker.Capabilities
		c    worker.Config
		want string
	}{
		{"topics", many, worker.Config{}, "yekbar.Config.Scope"},
		{"lease", short, worker.Config{}, "yekbar.Config.Timeout"},
		{"attempts", few, worker.Config{}, "Config.MaxAttempts"},
		{"prefetch", fits, worker.Config{Concurrency: 4, Prefetch: 2}, "Prefetch (2)"},
		{"negative", fits, worker.Config{Concurrency: -1, Grace: -1}, "Grace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := membroker.New(membroker.Config{Capabilities: test.caps})
			_, err := worker.New(b.Source(topic), &processor{timeout: 10 * time.Second}, test.c)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New returned %v, want one that names %s", err, test.want)
			}
		})
	}
	b := membroker.New(membroker.Config{Capabilities: many})
	if _, err := worker.New(b.Source(topic), &processor{scoped: true}, worker.Config{}); err != nil {
		t.Errorf("a scoped consumer is refused: %v", err)
	}
}

type checker struct{ errs []error }

func (c *checker) Check(context.Context) error {
	if len(c.errs) == 0 {
		return nil
	}
	err := c.errs[0]
	c.errs = c.errs[1:]
	return err
}

func TestRunChecksTheStoreFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
		publish(t, b, numbered(1)...)
		w, err := worker.New(b.Source(topic), &processor{store: &checker{[]error{yekbar.ErrUnavailable, yekbar.ErrSchema}}},
			worker.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); !errors.Is(err, yekbar.ErrSchema) {
			t.Errorf("Run returned %v", err)
		}
		if c := b.Counts(topic); c.Deliveries != 0 {
			t.Errorf("fetched before the check: %+v", c)
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "once") {
			t.Errorf("the second Run returned %v", err)
		}
	})
}

type runner func(context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

func TestRunAllEndsAllWhenOneFails(t *testing.T) {
	broken := errors.New("broken")
	ended := false
	err := worker.RunAll(t.Context(),
		runner(func(ctx context.Context) error { <-ctx.Done(); ended = true; return nil }),
		runner(func(context.Context) error { return broken }),
		runner(func(context.Context) error { return nil }))
	if !errors.Is(err, broken) || !ended {
		t.Errorf("RunAll returned %v, ended: %v", err, ended)
	}
}
