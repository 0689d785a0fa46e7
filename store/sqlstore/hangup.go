package sqlstore

import (
	"context"
	"time"
)

// silence is how long after its context's end a driver may still wait for the
// server.
const silence = 5 * time.Second

// hangUp closes the network connection when a driver doesn't come back though
// the context of its call has ended: lib/pq asks the server to cancel and then
// waits for the answer, which a broken network never brings. stop is called
// when the call has returned.
func (c *conn) hangUp(ctx context.Context) (stop func()) {
	if c.guard == nil || c.guard.dialect == SQLite || ctx.Done() == nil {
		return func() {}
	}
	back := make(chan struct{})
	detach := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(silence)
		defer timer.Stop()
		select {
		case <-back:
		case <-timer.C:
			_ = c.raw.Close() // the call that waits gets the error
		}
	})
	return func() {
		detach()
		close(back)
	}
}
