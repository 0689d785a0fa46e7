package worker

import (
	"errors"
	"sync/atomic"

	"github.com/yekbar-go/yekbar"
)

// A batchSize adapts: it halves when a batch meets a transient error, such as
// a deadlock, and grows back by one with each that meets none.
type batchSize struct {
	most int64
	now  atomic.Int64
}

func (b *batchSize) size() int { return int(b.now.Load()) }

func (b *batchSize) learn(results []yekbar.BatchResult) {
	for _, r := range results {
		if errors.Is(r.Err, yekbar.ErrTransient) || errors.Is(r.Err, yekbar.ErrTimeout) {
			b.now.Store(max(1, b.now.Load()/2))
			return
		}
	}
	if n := b.now.Load(); n < b.most {
		b.now.Store(n + 1)
	}
}
