package worker

import (
	"sync/atomic"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

// Stats counts what a Worker has done since Run began, and says how it stands.
// What it has is always the same, so it makes a constant number of series.
type Stats struct {
	Received   int64 // deliveries
	Applied    int64 // messages that took effect here
	Duplicates int64 // that had taken effect, or been taken over, before
	Failed     int64 // failed attempts that will be repeated
	Parked     int64 // messages that the database keeps until their next attempt
	SetAside   int64 // dead messages
	Acked      int64 // deliveries acknowledged
	GivenBack  int64 // deliveries given back
	Lost       int64 // deliveries whose lease was lost before they were settled; the broker delivers them again
	Abandoned  int64 // deliveries that could not be settled, because the broker did not answer
	Stuck      int64 // handlers that did not end long after their context had
	Pauses     int64 // times the consumer was paused, by a person or by itself
	Pruned     int64 // claims that were deleted, past their retention

	Processed   int64         // messages whose processing has ended
	ProcessTime time.Duration // that took, in sum, of all batches

	Held     int // deliveries here now
	Waiting  int // of those, behind another message of their ordering key
	StuckNow int // handlers
	Batch    int // the most messages in a transaction now

	// Lag is how long ago the broker received the message that came last; 0
	// where it doesn't say.
	Lag time.Duration
	// Reasons counts the messages that are held for the consumer, by every
	// workers' doing, by each of the Reason constants; at most 30 s old.
	Reasons map[string]int64
	// OldestParked is when the oldest of the parked ones was taken over, by
	// the database's clock; zero when none is. At most 30 s old.
	OldestParked time.Time
}

var reasons = []string{
	yekbar.ReasonDelayed, yekbar.ReasonBehindKey, yekbar.ReasonReplayed, yekbar.ReasonAttempts, yekbar.ReasonPermanent, yekbar.ReasonConflict,
	yekbar.ReasonIdentity, yekbar.ReasonUndecodable, yekbar.ReasonCrash, yekbar.ReasonBoundary, yekbar.ReasonBeyond,
}

// Stats returns the counts; they are not taken at one moment.
func (w *Worker) Stats() Stats {
	c := &w.counters
	s := Stats{
		Received:    c.received.Load(),
		Applied:     c.applied.Load(),
		Duplicates:  c.duplicates.Load(),
		Failed:      c.failed.Load(),
		Parked:      c.parked.Load(),
		SetAside:    c.setAside.Load(),
		Acked:       c.acked.Load(),
		GivenBack:   c.givenBack.Load(),
		Lost:        c.lost.Load(),
		Abandoned:   c.abandoned.Load(),
		Stuck:       c.stuck.Load(),
		Pauses:      c.pauses.Load(),
		Pruned:      c.pruned.Load(),
		Processed:   c.processed.Load(),
		ProcessTime: time.Duration(c.processTime.Load()),
		Held:        w.jobs.len(),
		Waiting:     w.queue.waitingBehind(),
		StuckNow:    int(c.stuckNow.Load()),
		Batch:       w.batch.size(),
		Lag:         time.Duration(c.lag.Load()),
		Reasons:     make(map[string]int64, len(reasons)),
	}
	stored := w.stored.Load()
	for _, r := range reasons {
		if s.Reasons[r] = 0; stored != nil {
			s.Reasons[r] = stored.Reasons[r]
		}
	}
	if stored != nil {
		s.OldestParked = stored.OldestParked
	}
	return s
}

type counters struct {
	received, applied, duplicates, failed, parked, setAside, acked, givenBack, lost, abandoned atomic.Int64
	stuck, stuckNow, pauses, pruned, processed, processTime, lag                               atomic.Int64

	settleError atomic.Pointer[error]
}

func (c *counters) count(r yekbar.Result) {
	if r.Outcome == yekbar.Applied {
		c.applied.Add(1)
	} else {
		c.duplicates.Add(1)
	}
}

func (c *counters) took(messages int, d time.Duration) {
	c.processed.Add(int64(messages))
	c.processTime.Add(int64(d))
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

// noteAge notes how old a delivery is.
func (w *Worker) noteAge(d broker.Delivery) {
	if s, ok := d.(broker.Stamped); ok && !s.ReceivedAt().IsZero() {
		w.counters.lag.Store(int64(max(0, time.Since(s.ReceivedAt()))))
	}
}
