package schema

import "time"

// How the watermark moves; see yekbar.RetentionStore.
const (
	// ripening is how long a watermark has been published before claims are
	// deleted by it, so that each worker has read it.
	ripening = time.Minute
	// longestGap is the longest time between two calls that counts: over
	// more of it the consumer was down.
	longestGap = 10 * time.Minute
	// pace is how fast the watermark may move, in times of the clock.
	pace = 2
)

// A Pruning is what the row of a consumer says of its watermark. All times are
// by the database's clock; the zero time is NULL.
type Pruning struct {
	FirstSeen time.Time
	Watermark time.Time // in force: up to when claims may be gone
	CalledAt  time.Time // the last call of Watermark
	// Published comes of age at PublishedAt and a minute; then it is
	// Prunable, and claims before that are deleted.
	Published, PublishedAt, Prunable time.Time
}

// Advance is what a call of yekbar.RetentionStore's Watermark makes of p.
func (p Pruning) Advance(now time.Time, retention time.Duration) Pruning {
	last := p.CalledAt
	if last.IsZero() || last.After(now) {
		last = now
	}
	p.CalledAt = now
	base := p.Watermark
	if base.IsZero() {
		base = p.FirstSeen // nothing was claimed before, so nothing can be gone
	}
	step := pace * min(now.Sub(last), longestGap)
	if to := earlier(now.Add(-retention), base.Add(step)); retention >= 0 && to.After(base) {
		p.Watermark = to
	}
	p.Prunable = p.Limit(now)
	if ripe(p.PublishedAt, now) && p.Watermark.After(p.Published) {
		p.Published, p.PublishedAt = p.Watermark, now
	}
	return p
}

// Limit returns up to when claims are deleted now; the zero time: none are.
func (p Pruning) Limit(now time.Time) time.Time {
	if !p.PublishedAt.IsZero() && ripe(p.PublishedAt, now) {
		return p.Published
	}
	return p.Prunable
}

// Merge is what becomes of p when another name's claims move to it.
func (p Pruning) Merge(other Pruning) Pruning {
	if !other.FirstSeen.IsZero() && (p.FirstSeen.IsZero() || other.FirstSeen.Before(p.FirstSeen)) {
		p.FirstSeen = other.FirstSeen
	}
	if other.Watermark.After(p.Watermark) {
		p.Watermark = other.Watermark
	}
	if other.CalledAt.After(p.CalledAt) {
		p.CalledAt = other.CalledAt
	}
	return p
}

// ripe is true of what was published long enough ago, or never.
func ripe(published, now time.Time) bool {
	return published.IsZero() || !now.Before(published.Add(ripening))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
