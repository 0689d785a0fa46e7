package schema

import (
	"testing"
	"time"
)

func TestWatermark(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	p := Pruning{FirstSeen: start}
	now := start
	every := func(gap, total, retention time.Duration) {
		t.Helper()
		for range int(total / gap) {
			now = now.Add(gap)
			before := p
			p = p.Advance(now, retention)
			if !p.Watermark.IsZero() && !before.Watermark.IsZero() {
				if moved := p.Watermark.Sub(before.Watermark); moved < 0 || moved > 2*gap {
					t.Fatalf("%v: the watermark moved by %v in %v", now.Sub(start), moved, gap)
				}
			}
			if limit := p.Limit(now); limit.After(before.Watermark) {
				t.Fatalf("%v: claims up to %v are deleted, and the watermark a minute ago was %v", now.Sub(start), limit, before.Watermark)
			}
		}
	}
	want := func(watermark, limit time.Duration) {
		t.Helper()
		for _, c := range []struct {
			name string
			got  time.Time
			want time.Duration
		}{{"watermark", p.Watermark, watermark}, {"limit", p.Limit(now), limit}} {
			if c.want < 0 && !c.got.IsZero() || c.want >= 0 && !c.got.Equal(start.Add(c.want)) {
				t.Errorf("after %v the %s is %v, want the start and %v (negative: none)", now.Sub(start), c.name, c.got.Sub(start), c.want)
			}
		}
	}
	every(time.Minute, day, day)
	want(-1, -1) // what was first seen a day ago has lost nothing in a day
	every(time.Minute, time.Hour, day)
	want(time.Hour, time.Hour-time.Minute)

	now = now.Add(10 * day) // it was down
	before := p.Watermark.Sub(start)
	p = p.Advance(now, day)
	want(before+20*time.Minute, before)
	every(time.Minute, 2*time.Hour, day)
	want(before+20*time.Minute+4*time.Hour, before+20*time.Minute+4*time.Hour-2*time.Minute)

	held := p.Watermark.Sub(start)
	every(time.Minute, time.Hour, -1) // kept for ever
	want(held, held)
	every(time.Minute, time.Hour, 100*day) // never back
	want(held, held)

	every(10*time.Second, 2*time.Minute, day) // calls within the minute still come of age
	if limit := p.Limit(now).Sub(start); limit <= held {
		t.Errorf("with a call every ten seconds nothing comes of age: %v, before %v", limit, held)
	}
	p = p.Advance(now.Add(-time.Hour), day) // a clock that went back
	if p.Watermark.Sub(start) < held {
		t.Error("the watermark went back with the clock")
	}
}

// Claims of a former name may be gone up to its watermark, and were there since
// it was first seen.
func TestMergedWatermark(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	own := Pruning{FirstSeen: at(50), CalledAt: at(55)}
	former := Pruning{FirstSeen: at(1), Watermark: at(30), CalledAt: at(40), Published: at(30), PublishedAt: at(40), Prunable: at(29)}
	if got := own.Merge(former); got != (Pruning{FirstSeen: at(1), Watermark: at(30), CalledAt: at(55)}) {
		t.Errorf("merged: %+v", got)
	}
	if got := former.Merge(own); got.Watermark != at(30) || got.FirstSeen != at(1) || got.CalledAt != at(55) || got.Prunable != at(29) {
		t.Errorf("merged: %+v", got)
	}
	if got := own.Merge(Pruning{}); got != own {
		t.Errorf("merged with nothing: %+v", got)
	}
}
