package adopt

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/memstore"
)

func list(rows ...Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestRowsBecomeClaims(t *testing.T) {
	s := memstore.New()
	ctx := t.Context()
	if _, err := s.Hold(ctx, &yekbar.HeldMessage{Consumer: "c", MessageID: "dead", State: yekbar.StateDead, Reason: yekbar.ReasonPermanent}); err != nil {
		t.Fatal(err)
	}
	mark := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := []Row{
		{ID: "a", At: mark.Add(time.Hour)}, {ID: "b"}, {ID: "a"}, {Source: "/shop", ID: "a"},
		{ID: ""}, {ID: "x\x00"}, {ID: "\xff"}, {ID: "old", At: mark.Add(-time.Second)}, {ID: "dead"}, {ID: "c d"},
	}
	var dated []Dated
	c := Config[*memstore.Tx]{Consumer: "c", Batch: 3, Watermark: mark, Stamp: func(_ context.Context, _ *memstore.Tx, consumer string, ds []Dated) error {
		dated = append(dated, ds...)
		return nil
	}}
	r, err := Run(ctx, s, list(rows...), c)
	if err != nil || r.Read != 10 || r.New != 4 || r.Old != 1 || r.RefusedRows() != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(dated) != 1 || dated[0].MessageID != "a" || !dated[0].At.Equal(mark.Add(time.Hour)) {
		t.Errorf("dated %v", dated)
	}
	for _, id := range []string{"a", "b", "/shop a", " c d"} {
		if got, err := s.Claim(ctx, "c", id); err != nil || got.State != yekbar.StateApplied {
			t.Errorf("claim %q: %+v, %v", id, got, err)
		}
	}
	again, err := Run(ctx, s, list(rows...), c)
	if err != nil || again.New != 0 || again.Old != 5 || again.RefusedRows() != 5 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// An import that breaks off goes on at the next call.
func TestImportIsRestartable(t *testing.T) {
	s := memstore.New()
	broken := errors.New("broken")
	rows := func(yield func(Row, error) bool) {
		for _, id := range []string{"1", "2", "3"} {
			if !yield(Row{ID: id}, nil) {
				return
			}
		}
		yield(Row{}, broken)
	}
	c := Config[*memstore.Tx]{Consumer: "c", Batch: 2}
	r, err := Run(t.Context(), s, rows, c)
	if !errors.Is(err, broken) || r.New != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = Run(t.Context(), s, list(Row{ID: "1"}, Row{ID: "2"}, Row{ID: "3"}), c)
	if err != nil || r.New != 1 || r.Old != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// strict holds Attempt's caller to what it promises.
type strict struct {
	*memstore.Store
	t *testing.T
}

func (s *strict) Attempt(ctx context.Context, cs []yekbar.Claim, fn func(context.Context, *memstore.Tx, []int) error) ([]yekbar.Claimed, error) {
	for i := 1; i < len(cs); i++ {
		if cs[i-1].MessageID >= cs[i].MessageID {
			s.t.Errorf("claims %q and %q: not sorted, or one twice", cs[i-1].MessageID, cs[i].MessageID)
		}
	}
	return s.Store.Attempt(ctx, cs, fn)
}

func TestClaimsAreSortedAndEachOnce(t *testing.T) {
	s := &strict{memstore.New(), t}
	rows := list(Row{ID: "b"}, Row{ID: "a"}, Row{ID: "b"}, Row{ID: "c"}, Row{ID: "a"})
	r, err := Run(t.Context(), s, rows, Config[*memstore.Tx]{Consumer: "c", Batch: 10})
	if err != nil || r.New != 3 || r.Old != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// flaky fails each attempt once, after it took effect or before.
type flaky struct {
	*memstore.Store
	calls int
}

func (f *flaky) Attempt(ctx context.Context, cs []yekbar.Claim, fn func(context.Context, *memstore.Tx, []int) error) ([]yekbar.Claimed, error) {
	f.calls++
	switch f.calls {
	case 1:
		return nil, yekbar.ErrTransient
	case 2:
		_, err := f.Store.Attempt(ctx, cs, fn)
		return nil, errors.Join(err, yekbar.ErrCommitUnknown)
	}
	return f.Store.Attempt(ctx, cs, fn)
}

func TestImportTriesAgain(t *testing.T) {
	s := &flaky{Store: memstore.New()}
	r, err := Run(t.Context(), s, list(Row{ID: "1"}), Config[*memstore.Tx]{Consumer: "c", Batch: 2})
	if err != nil || s.calls != 3 || r.New+r.Old != 1 || s.Claims() != 1 {
		t.Errorf("%d calls, %+v, %v", s.calls, r, err)
	}
}

func TestTimesAreNotGuessed(t *testing.T) {
	want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, v := range []any{want, "2026-03-01T12:00:00Z", "2026-03-01 12:00:00", []byte("2026-03-01 12:00:00.000000"), "2026-03-01 15:30:00+03:30"} {
		if got, err := instant(v); err != nil || !got.Equal(want) {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	for _, v := range []any{int64(1772366400), 1.5, "1772366400", "yesterday"} {
		if got, err := instant(v); err == nil || !strings.Contains(err.Error(), "view") {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
}

func TestNamesAreQuoted(t *testing.T) {
	table := Table{Name: `old."in box`, ID: `i"d`, Source: "src", Time: "at", Consumer: "who", Named: "c"}
	text, args := table.Query("postgresql")
	want := `SELECT CAST("i""d" AS text), CAST("src" AS text), "at" FROM "old"."""in box" WHERE CAST("who" AS text) = $1`
	if text != want || !slices.Equal(args, []any{"c"}) {
		t.Errorf("%s %v", text, args)
	}
}
