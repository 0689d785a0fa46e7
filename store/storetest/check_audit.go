package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/yekbar-go/yekbar"
)

func auditChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "the audit log is listed newest first, in pages", run: auditPages[Tx], single: true},
		{name: "what failed is not in the audit log", run: auditFailed[Tx]},
		{name: "the audit log takes what others did", run: auditRecorded[Tx]},
	}
}

// audit is OperatorStore.Audit.
func (e *env[Tx]) audit(f yekbar.AuditFilter) []*yekbar.AuditEntry {
	e.Helper()
	s := e.operator()
	return get(e, "Audit", func() (all []*yekbar.AuditEntry, _ error) {
		for a, err := range s.Audit(e.ctx, f) {
			if err != nil {
				return nil, err
			}
			all = append(all, a)
		}
		return all, nil
	})
}

// wantActions asserts what was done to the suite's consumer, in order.
func (e *env[Tx]) wantActions(want ...string) {
	e.Helper()
	got := []string{}
	for _, a := range slices.Backward(e.audit(yekbar.AuditFilter{Consumer: suite})) {
		got = append(got, a.Action+" "+a.MessageID)
		if a.ID <= 0 || a.At.IsZero() || a.By.Validate() != nil || a.Consumer != suite {
			e.Errorf("an entry of the audit log: %+v", a)
		}
	}
	if !slices.Equal(got, want) {
		e.Errorf("the audit log has %q, want %q", got, want)
	}
}

func auditPages[Tx any](e *env[Tx]) {
	s := e.operator()
	odd := yekbar.Actor{Name: "\u00e9 \x00", Reason: "bytes \xff\xfe, base64:AAE="}
	var want []string
	for i := range 7 {
		e.done("SetPaused", func() error {
			by := odd
			by.Name += fmt.Sprint(i)
			return s.SetPaused(e.ctx, suite, i%2 == 0, by)
		})
		want = append(want, odd.Name+fmt.Sprint(i))
		if i == 3 {
			e.done("SetPaused", func() error { return s.SetPaused(e.ctx, "other", true, someone) })
		}
	}
	slices.Reverse(want)
	for _, limit := range []int{0, 1, 3, 100} {
		f := yekbar.AuditFilter{Consumer: suite, Limit: limit}
		got := []string{}
		for range len(want) + 1 {
			page := e.audit(f)
			if limit > 0 && len(page) > limit {
				e.Errorf("a page of %d entries, want at most %d", len(page), limit)
			}
			for _, a := range page {
				f.After = a.ID
				got = append(got, a.By.Name)
				if a.By.Reason != odd.Reason || a.MessageID != "" || a.Detail != nil {
					e.Errorf("an entry of the audit log: %+v", a)
				}
			}
			if len(page) == 0 || limit == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			e.Errorf("the audit log in pages of %d: by %q, want %q", limit, got, want)
		}
	}
	if n := len(e.audit(yekbar.AuditFilter{})); n != len(want)+1 {
		e.Errorf("the audit log of all consumers has %d entries, want %d", n, len(want)+1)
	}
	for a, err := range s.Audit(e.ctx, yekbar.AuditFilter{}) { // and one may stop
		if err != nil || a.By.Name != want[0] {
			e.Errorf("the newest entry: %+v, %v", a, err)
		}
		break
	}
}

func auditRecorded[Tx any](e *env[Tx]) {
	s := e.operator()
	want := yekbar.AuditEntry{By: someone, Action: "rewind", Consumer: suite, MessageID: "m-1", Detail: []byte("to \x00\xff")}
	e.done("Record", func() error { return s.Record(e.ctx, want) })
	if err := s.Record(e.ctx, yekbar.AuditEntry{Action: "rewind", Consumer: suite}); err == nil {
		e.Errorf("an entry by nobody was recorded")
	}
	e.wantActions("rewind m-1")
	for _, got := range e.audit(yekbar.AuditFilter{Consumer: suite}) {
		if got.By != want.By || !bytes.Equal(got.Detail, want.Detail) {
			e.Errorf("recorded %+v, listed %+v", want, got)
		}
	}
}

func auditFailed[Tx any](e *env[Tx]) {
	s := e.operator()
	e.bury("dead")
	e.park("parked", time.Hour)
	for range 2 {
		e.refused("MakeDue", yekbar.ErrNotHeld, func() error { return s.MakeDue(e.ctx, suite, "dead", someone) })
		e.refused("Replay", yekbar.ErrNotHeld, func() error { return s.Replay(e.ctx, suite, "parked", []byte("new"), someone) })
		e.refused("Discard", yekbar.ErrNotHeld, func() error { return s.Discard(e.ctx, suite, "nobody", someone) })
		e.refused("Forget", yekbar.ErrNoClaim, func() error { return s.Forget(e.ctx, suite, "nobody", someone) })
	}
	e.wantActions()
	if got := e.one("parked"); !bytes.Equal(got.Message.Payload, []byte("payload of parked")) {
		e.Errorf("a replay that was refused changed the payload to %q", got.Message.Payload)
	}
}
