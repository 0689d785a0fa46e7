package worker

import (
	"context"
	"errors"
	"sync"
)

// A Runner is a Worker, an outbox relay, an executor of effects, or the like:
// Run blocks until ctx ends and everything it began is settled.
type Runner interface {
	Run(ctx context.Context) error
}

var _ Runner = (*Worker)(nil)

// RunAll runs all until ctx ends or one fails, then ends and waits for the
// rest. It returns all their errors.
func RunAll(ctx context.Context, rs ...Runner) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(rs))
	var group sync.WaitGroup
	for i, r := range rs {
		group.Go(func() {
			if errs[i] = r.Run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
