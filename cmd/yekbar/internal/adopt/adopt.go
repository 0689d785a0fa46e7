package adopt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

// maxTries bounds the attempts at one batch.
const maxTries = 5

// A Row is one message that was processed.
type Row struct {
	Source, ID string
	At         time.Time // zero: unknown
}

// Config says how rows become claims.
type Config[Tx any] struct {
	Consumer string
	Batch    int // rows in one transaction
	// Watermark of the consumer: claims from before it would be pruned, and
	// their messages are set aside anyway.
	Watermark time.Time
	// Stamp dates the claims that a transaction made.
	Stamp func(ctx context.Context, tx Tx, consumer string, claims []Dated) error
	// Progress is told after each batch.
	Progress func(Report)
}

// A Dated is a claim and when its message was processed.
type Dated struct {
	MessageID string
	At        time.Time
}

// A Report counts rows.
type Report struct {
	Read    int
	New     int                // claimed now
	Old     int                // claimed before, or twice in the table
	Refused map[string]Refusal // by why
}

// A Refusal counts rows that were not taken.
type Refusal struct {
	Rows  int
	First string // one of them, for people
}

// RefusedRows counts all that were not taken.
func (r Report) RefusedRows() (n int) {
	for _, f := range r.Refused {
		n += f.Rows
	}
	return n
}

func (r *Report) refuse(why, which string) {
	f := r.Refused[why]
	if f.Rows++; f.Rows == 1 {
		f.First = which
	}
	r.Refused[why] = f
}

// Run claims all rows. It may be called again after an error: what was claimed
// before counts as old then.
func Run[Tx any](ctx context.Context, s yekbar.Store[Tx], rows iter.Seq2[Row, error], c Config[Tx]) (Report, error) {
	r := Report{Refused: map[string]Refusal{}}
	batch := make([]Dated, 0, c.Batch)
	flush := func() error {
		if err := claim(ctx, s, batch, c, &r); err != nil {
			return err
		}
		batch = batch[:0]
		if c.Progress != nil {
			c.Progress(r)
		}
		return nil
	}
	for row, err := range rows {
		if err != nil {
			return r, err
		}
		r.Read++
		m := yekbar.Message{Source: row.Source, ID: row.ID}
		id, err := m.Identity()
		var bad *yekbar.IdentityError
		switch {
		case errors.As(err, &bad):
			r.refuse("its ID is no usable one: "+bad.Problem, fmt.Sprintf("source %q, ID %q", row.Source, row.ID))
			continue
		case err != nil:
			return r, err
		case !row.At.IsZero() && row.At.Before(c.Watermark):
			r.refuse("older than the watermark: its claim would be pruned, and its message is set aside anyway", id)
			continue
		}
		if batch = append(batch, Dated{id, row.At}); len(batch) == c.Batch {
			if err := flush(); err != nil {
				return r, err
			}
		}
	}
	return r, flush()
}

// claim claims a batch in one transaction.
func claim[Tx any](ctx context.Context, s yekbar.Store[Tx], batch []Dated, c Config[Tx], r *Report) error {
	slices.SortStableFunc(batch, func(a, b Dated) int { return strings.Compare(a.MessageID, b.MessageID) })
	once := slices.CompactFunc(slices.Clone(batch), func(a, b Dated) bool { return a.MessageID == b.MessageID })
	if len(once) == 0 {
		return nil
	}
	claims := make([]yekbar.Claim, len(once))
	for i, d := range once {
		claims[i] = yekbar.Claim{Consumer: c.Consumer, MessageID: d.MessageID, Wait: 10 * time.Second}
	}
	claimed, err := attempt(ctx, s, claims, func(ctx context.Context, tx Tx, fresh []int) error {
		var dated []Dated
		for _, i := range fresh {
			if !once[i].At.IsZero() {
				dated = append(dated, once[i])
			}
		}
		if len(dated) == 0 || c.Stamp == nil {
			return nil
		}
		return c.Stamp(ctx, tx, c.Consumer, dated)
	})
	if err != nil {
		return err
	}
	r.Old += len(batch) - len(once)
	for i, got := range claimed {
		switch {
		case got.Fresh:
			r.New++
		case got.State == yekbar.StateApplied:
			r.Old++
		default:
			r.refuse(fmt.Sprintf("it is %s here: replay or discard it", got.State), once[i].MessageID)
		}
	}
	return nil
}

// attempt tries again what the database asks to be tried again. After a COMMIT
// without an answer, claims that were made count as old.
func attempt[Tx any](ctx context.Context, s yekbar.Store[Tx], claims []yekbar.Claim, fn func(context.Context, Tx, []int) error) ([]yekbar.Claimed, error) {
	for try := 1; ; try++ {
		claimed, err := s.Attempt(ctx, claims, fn)
		again := errors.Is(err, yekbar.ErrTransient) || errors.Is(err, yekbar.ErrCommitUnknown) || errors.Is(err, yekbar.ErrInFlight) || errors.Is(err, yekbar.ErrUnavailable)
		if !again || try == maxTries || ctx.Err() != nil {
			return claimed, err
		}
		t := time.NewTimer(100 * time.Millisecond << try)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, errors.Join(err, ctx.Err())
		}
	}
}
