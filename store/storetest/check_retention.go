package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

func retentionChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "the watermark starts with the consumer and keeps its pace", run: watermarks[Tx]},
		{name: "what is past a watermark of age is pruned", run: prunes[Tx], single: true},
		{name: "only one prunes at a time", run: prunesRace[Tx]},
	}
}

const hour = time.Hour // the retention

func (e *env[Tx]) window(retention time.Duration) yekbar.Window {
	e.Helper()
	s := e.retention()
	w := get(e, "Watermark", func() (yekbar.Window, error) { return s.Watermark(e.ctx, suite, retention) })
	if w.Now.IsZero() {
		e.Error("Watermark gave no time")
	}
	return w
}

// wantLag asserts how far the watermark is behind the clock; it bears with a
// check that is slow.
func (e *env[Tx]) wantLag(what string, w yekbar.Window, want time.Duration) {
	e.Helper()
	if lag := w.Now.Sub(w.Watermark); w.Watermark.IsZero() || lag < want-time.Second || lag > want+patience {
		e.Errorf("%s: the watermark %v is %v behind the clock, want %v", what, w.Watermark, lag, want)
	}
}

func watermarks[Tx any](e *env[Tx]) {
	e.retention()
	for i := range 6 {
		if w := e.window(hour); !w.Watermark.IsZero() {
			e.Errorf("the watermark of a consumer that was first seen %d minutes ago is %v, want none", i*10, w.Watermark)
		}
		e.later(10 * time.Minute)
	}
	e.later(10 * time.Minute) // 70
	e.wantLag("ten minutes past the retention", e.window(hour), hour)
	e.wantLag("again", e.window(hour), hour)
	e.later(10 * time.Minute)
	e.wantLag("with a longer retention", e.window(100*hour), hour+10*time.Minute)
	e.later(10 * time.Minute)
	e.wantLag("kept for ever", e.window(yekbar.KeepForever), hour+20*time.Minute)
	e.later(time.Minute)
	e.wantLag("a minute after a call", e.window(hour), hour+19*time.Minute)
	e.later(30 * 24 * time.Hour)
	down := hour + 19*time.Minute + 30*24*time.Hour
	e.wantLag("after a month without a call", e.window(hour), down-20*time.Minute)
	e.wantLag("and at once again", e.window(hour), down-20*time.Minute)
	e.later(10 * time.Minute)
	e.wantLag("ten minutes later", e.window(hour), down-30*time.Minute)
	if got := get(e, "Watermark", func() (yekbar.Window, error) { return e.retention().Watermark(e.ctx, "other", hour) }); !got.Watermark.IsZero() {
		e.Errorf("the watermark of another consumer: %v, want none", got.Watermark)
	}
}

// age makes everything so old that the watermark is past it, but published
// only now.
func (e *env[Tx]) age() {
	e.Helper()
	e.window(hour)
	for range 5 {
		e.later(10 * time.Minute)
		e.window(hour)
	}
	e.later(25 * time.Minute)
	if w := e.window(hour); w.Watermark.IsZero() {
		e.Fatal("there is no watermark 75 minutes after the consumer was first seen")
	}
}

// prune prunes to the end and returns how many went.
func (e *env[Tx]) prune(limit int) (total int) {
	e.Helper()
	s := e.retention()
	for range 1000 {
		var more bool
		n := get(e, "Prune", func() (n int, err error) {
			n, more, err = s.Prune(e.ctx, suite, limit)
			return n, err
		})
		if n > limit {
			e.Errorf("Prune(limit %d) deleted %d", limit, n)
		}
		if total += n; !more {
			return total
		}
	}
	e.Fatal("Prune never comes to the end of a few claims")
	return total
}

func prunes[Tx any](e *env[Tx]) {
	e.retention()
	const old = 7
	if n := e.prune(3); n != 0 {
		e.Errorf("%d claims of an unknown consumer were pruned", n)
	}
	e.window(hour)
	for i := range old {
		e.applyWithResult(fmt.Sprintf("m-%d", i), "result")
	}
	rest := 0
	if e.features.Holding {
		e.park("parked", 0)
		e.bury("dead")
		rest = 2
	}
	e.done("another consumer's claim", func() error {
		c := claim("m-0")
		c.Consumer = "other"
		_, err := e.Store.Attempt(e.ctx, []yekbar.Claim{c}, e.adds("n"))
		return err
	})
	rest++
	e.age()
	e.apply("young", e.adds("n"))
	rest++
	if e.features.Attempts {
		e.fail("m-0", "late")
	}
	if n := e.prune(3); n != 0 {
		e.Errorf("%d claims were pruned by a watermark that was published just now", n)
	}
	e.later(61 * time.Second)
	if n := e.prune(3); n != old {
		e.Errorf("%d claims were pruned, want %d", n, old)
	}
	e.wantClaims(rest)
	if n := e.prune(3); n != 0 {
		e.Errorf("%d claims were pruned again", n)
	}
	e.wantState("young", yekbar.StateApplied)
	if e.features.Holding {
		e.wantState("parked", yekbar.StateParked)
		e.wantState("dead", yekbar.StateDead)
		e.wantHeld(2)
	}
	if e.features.Attempts {
		e.wantAttempts("a failure after Prune", e.fail("m-0", "new"), 1, 0, false, "new")
	}
	e.wantAgain("m-0")
}

func prunesRace[Tx any](e *env[Tx]) {
	s := e.retention()
	const old = 40
	var first sync.WaitGroup
	for range 4 {
		first.Go(func() {
			if _, err := retry(e.ctx, func() (yekbar.Window, error) { return s.Watermark(e.ctx, suite, hour) }); err != nil {
				e.Errorf("Watermark, four at once: %v", err)
			}
		})
	}
	first.Wait()
	for i := range old {
		e.apply(fmt.Sprintf("m-%02d", i), e.adds("n"))
	}
	e.age()
	e.later(61 * time.Second)
	var (
		mu    sync.Mutex
		total int
		all   sync.WaitGroup
	)
	for range 4 {
		all.Go(func() {
			for range old + 1 {
				var more bool
				n, err := retry(e.ctx, func() (n int, err error) {
					n, more, err = s.Prune(e.ctx, suite, 3)
					return n, err
				})
				if err != nil {
					e.Errorf("Prune, four at once: %v", err)
				}
				mu.Lock()
				total += n
				mu.Unlock()
				if err != nil || !more {
					return
				}
			}
		})
	}
	all.Wait()
	if total += e.prune(3); total != old {
		e.Errorf("four who pruned at once say that %d claims are gone, want %d", total, old)
	}
	e.wantClaims(0)
}
