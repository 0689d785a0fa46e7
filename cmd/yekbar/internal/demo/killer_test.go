package demo

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/failpoint"
)

func TestKillerPlansEveryKindOverTheWholeRun(t *testing.T) {
	k := newKiller(30, 1000, 1)
	if !slices.IsSorted(k.due) || k.due[0] < 0 || k.due[0] > 100 || k.due[29] < 800 || k.due[29] >= 1000 {
		t.Errorf("due at %v", k.due)
	}
	counts := map[failpoint.Point]int{}
	for _, kind := range k.kinds {
		counts[kind]++
	}
	if len(counts) != 3 || counts[anywhere] != 10 || counts[failpoint.BeforeCommit] != 10 {
		t.Errorf("kinds %v", counts)
	}
	if again := newKiller(30, 1000, 1); !slices.Equal(again.due, k.due) || !slices.Equal(again.kinds, k.kinds) {
		t.Error("the same seed planned something else")
	}
	if unknown := newKiller(4, 0, 1); unknown.due[3] >= 4*everyResults {
		t.Errorf("without a number of results due at %v", unknown.due)
	}
	newKiller(0, 1000, 1).strike(1000, nil)
}

// sink is a worker's standard input that keeps what is said.
type sink struct{ strings.Builder }

func (*sink) Close() error { return nil }

func TestKillerStrikesOnlyTheLiving(t *testing.T) {
	in := &sink{}
	living := &child{number: 1, ready: true, stdin: in}
	workers := []*child{{number: 2}, {number: 3, ready: true, killed: true}, {number: 4, ready: true, armed: failpoint.BeforeCommit}, {number: 5, ready: true, stopping: true}, living}
	k := newKiller(2, 100, 1)
	k.kinds = []failpoint.Point{failpoint.AfterCommit, failpoint.BeforeCommit}
	k.strike(k.due[0]-1, workers)
	if in.Len() > 0 {
		t.Fatal("struck before it was due")
	}
	k.strike(100, workers)
	if got := in.String(); got != `{"die_at":"after COMMIT"}`+"\n" || living.armed != failpoint.AfterCommit {
		t.Errorf("told %q", got)
	}
	if k.count() != 0 {
		t.Error("counted before it died")
	}
	k.died(failpoint.AfterCommit)
	if k.count() != 1 {
		t.Error("not counted when it died")
	}
}

func TestKillerFinishesWithRealKills(t *testing.T) {
	var workers []*child
	for i := range 3 {
		w := &child{number: i, ready: true, cmd: exec.Command("sleep", "600")}
		if err := w.cmd.Start(); err != nil {
			t.Skipf("no sleep: %v", err)
		}
		t.Cleanup(func() { _ = w.cmd.Wait() })
		workers = append(workers, w)
	}
	workers[1].armed = failpoint.BeforeCommit
	k := newKiller(3, 100, 1)
	k.next = 1 // the armed one's
	k.finish(workers)
	if k.done[anywhere] != 3 {
		t.Errorf("%v", k.done)
	}
	for _, w := range workers {
		if err := w.cmd.Wait(); err == nil || !strings.Contains(w.cmd.ProcessState.String(), "killed") {
			t.Errorf("worker %d: %v", w.number, w.cmd.ProcessState)
		}
	}
}
