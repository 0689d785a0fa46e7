package demo

import (
	"math/rand/v2"
	"slices"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/failpoint"
)

// anywhere is a kill at no special moment.
const anywhere failpoint.Point = "anywhere"

// everyResults is the distance of two kills in results, on average, where
// nobody knows how many orders will come.
const everyResults = 25

// A killer decides when which worker dies, and how: a third anywhere, a third
// right before COMMIT, a third right after COMMIT. It knows time only as the
// number of results.
type killer struct {
	random *rand.Rand
	due    []int             // number of results after which each kill is due
	kinds  []failpoint.Point // of each
	done   map[failpoint.Point]int
	next   int
}

// newKiller plans kills over the given number of results; 0: unknown.
func newKiller(kills, results int, seed uint64) *killer {
	k := &killer{
		random: rand.New(rand.NewPCG(seed, 0x6b696c6c)),
		done:   map[failpoint.Point]int{},
	}
	if results == 0 {
		results = everyResults * kills
	}
	for i := range kills {
		k.due = append(k.due, int((float64(i)+k.random.Float64())/float64(kills)*0.9*float64(results)))
		k.kinds = append(k.kinds, [...]failpoint.Point{failpoint.AfterCommit, failpoint.BeforeCommit, anywhere}[i%3])
	}
	k.random.Shuffle(kills, func(i, j int) { k.kinds[i], k.kinds[j] = k.kinds[j], k.kinds[i] })
	return k
}

// strike kills, or tells to die, as many workers as are due. A worker that was
// told dies at its next COMMIT.
func (k *killer) strike(results int, workers []*child) {
	for k.next < len(k.due) && k.due[k.next] <= results {
		w := k.victim(workers)
		if w == nil {
			return
		}
		kind := k.kinds[k.next]
		k.next++
		if kind == anywhere {
			w.kill()
			k.done[anywhere]++
		} else if err := w.write(command{DieAt: kind}); err != nil {
			// It ended by itself; the notice of that says why.
			return
		} else {
			w.armed = kind
		}
	}
}

// finish is for when there is nothing left to do and nobody comes to a COMMIT:
// what was not struck yet is struck now, wherever it is.
func (k *killer) finish(workers []*child) {
	for k.count() < len(k.due) {
		i := slices.IndexFunc(workers, func(w *child) bool { return w.armed != "" && !w.killed })
		var w *child
		if i >= 0 {
			w = workers[i]
		} else if w = k.victim(workers); w == nil {
			return
		} else if k.next < len(k.due) {
			k.next++
		}
		w.kill()
		k.done[anywhere]++
	}
}

// victim returns a worker that is ready and has no other end before it.
func (k *killer) victim(workers []*child) *child {
	alive := slices.DeleteFunc(slices.Clone(workers), func(w *child) bool {
		return !w.ready || w.armed != "" || w.killed || w.stopping
	})
	if len(alive) == 0 {
		return nil
	}
	return alive[k.random.IntN(len(alive))]
}

// died books a worker that has killed itself as it was told.
func (k *killer) died(at failpoint.Point) { k.done[at]++ }

// count returns how many kills there were.
func (k *killer) count() int {
	n := 0
	for _, c := range k.done {
		n += c
	}
	return n
}
