package worker

import (
	"sync/atomic"

	"github.com/yekbar-go/yekbar"
)

// Stats counts what a Worker has done since Run began.
type Stats struct {
	Received   int64 // deliveries
	Applied    int64 // messages that took effect here
	Duplicates int64 // that had taken effect, or been set aside, before
	Failed     int64 // failed attempts that were given back
	SetAside   int64 // dead messages
	Acked      int64 // deliveries acknowledged
	GivenBack  int64 // deliveries given back
	Lost       int64 // deliveries that were not ours any more when they were to be settled; the broker delivers them again
	Abandoned  int64 // deliveries that could not be settled, because the broker did not answer
	Held       int   // deliveries here now
}

// Stats returns the counts; they are not taken at one moment.
func (w *Worker) Stats() Stats {
	c := &w.counters
	return Stats{
		Received:   c.received.Load(),
		Applied:    c.applied.Load(),
		Duplicates: c.duplicates.Load(),
		Failed:     c.failed.Load(),
		SetAside:   c.setAside.Load(),
		Acked:      c.acked.Load(),
		GivenBack:  c.givenBack.Load(),
		Lost:       c.lost.Load(),
		Abandoned:  c.abandoned.Load(),
		Held:       w.jobs.len(),
	}
}

type counters struct {
	received, applied, duplicates, failed, setAside, acked, givenBack, lost, abandoned atomic.Int64

	settleError atomic.Pointer[error]
}

func (c *counters) count(r yekbar.Result) {
	if r.Outcome == yekbar.Applied {
		c.applied.Add(1)
	} else {
		c.duplicates.Add(1)
	}
}

func (c *counters) abandon(err error) {
	c.settleError.Store(&err)
	c.abandoned.Add(1)
}

func (c *counters) lastSettleError() error {
	if p := c.settleError.Load(); p != nil {
		return *p
	}
	return nil
}
