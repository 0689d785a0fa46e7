package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/yekbar-go/yekbar"
)

// A process does what one message asks for.
type process func(ctx context.Context, m *yekbar.Message) error

// load lets clients process new messages, one after the other each, for a
// time.
func load(ctx context.Context, clients int, d time.Duration, rows int, do process) (round, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		all       sync.WaitGroup
		mu        sync.Mutex
		latencies []time.Duration
		errs      []error
		before    runtime.MemStats
		after     runtime.MemStats
	)
	runtime.ReadMemStats(&before)
	begin := time.Now()
	for range clients {
		all.Go(func() {
			mine, err := client(ctx, begin.Add(d), rows, do)
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, mine...)
			if err != nil {
				errs = append(errs, err)
				cancel()
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	if err := errors.Join(errs...); err != nil {
		return round{}, err
	}
	n := float64(len(latencies))
	return round{rate: n / took.Seconds(), latencies: latencies, allocs: float64(after.Mallocs-before.Mallocs) / n}, nil
}

func client(ctx context.Context, until time.Time, rows int, do process) ([]time.Duration, error) {
	var latencies []time.Duration
	for now := time.Now(); now.Before(until); {
		key := strconv.Itoa(rand.IntN(rows) + 1)
		m := &yekbar.Message{ID: uuid.NewString(), OrderingKey: key, Payload: []byte(key)}
		if err := do(ctx, m); err != nil {
			return nil, err
		}
		end := time.Now()
		latencies = append(latencies, end.Sub(now))
		now = end
	}
	return latencies, nil
}
