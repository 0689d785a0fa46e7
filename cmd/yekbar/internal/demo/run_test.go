package demo

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStallSaysWhatWasLastHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{backlog: backlog{Waiting: 1200, Unsettled: 3}, crew: &crew{killer: newKiller(0, 0, 1)}}
		s := stall{since: time.Now()}
		<-time.After(stalled - time.Second)
		if err := s.check(r, false); err != nil {
			t.Fatalf("too early: %v", err)
		}
		r.crew.results++
		<-time.After(2 * time.Second)
		if err := s.check(r, false); err != nil {
			t.Fatalf("in spite of a result: %v", err)
		}
		<-time.After(stalled)
		r.crew.lastError = "worker 1, order 7: no such table"
		err := s.check(r, false)
		for _, want := range []string{"nothing has come out for 1m0s", "1,200 messages wait, 3 are unsettled", "no such table"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in: %v", want, err)
			}
		}
		// With nothing to do, nothing can stall.
		if err := s.check(r, true); err != nil {
			t.Error(err)
		}
	})
}
