package yekbar

import (
	"math/rand/v2"
	"time"
)

// A Backoff is a number of tries with growing, jittered pauses.
type Backoff struct {
	Tries int           // all together, the first included; 1 means no retry
	Min   time.Duration // pause after the first failure
	Max   time.Duration // no pause is longer
}

// Pause returns the pause after the given number of failures: it doubles from
// Min to Max with each, and of that a random half to the whole is waited, so
// that those who failed together don't come back together.
func (b Backoff) Pause(failures int) time.Duration {
	d := b.Min
	for i := 1; i < failures && d < b.Max; i++ {
		d *= 2
	}
	d = min(d, b.Max)
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1)
}
