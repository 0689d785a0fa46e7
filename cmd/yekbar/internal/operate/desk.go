package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

// scanLimit bounds how many held messages are looked through to tell about
// one of them.
const scanLimit = 5000

// A Desk does what is asked for and prints it.
type Desk struct {
	// Store has the optional interfaces; see yekbar.Find.
	Store any
	// Out gets what was asked for, Notes what else is worth knowing.
	Out, Notes io.Writer
	// JSON prints one object, on one line, in place of text.
	JSON bool
	// Now is the database's clock.
	Now func(context.Context) (time.Time, error)
	// Flags lead to the same tables again, in commands that are printed.
	Flags string
}

// A NotFoundError reports a consumer, message or claim that is not there.
// Nothing was done.
type NotFoundError struct{ Text string }

func (e *NotFoundError) Error() string { return e.Text }

func notFound(format string, args ...any) error {
	return &NotFoundError{fmt.Sprintf(format, args...)}
}

// A PartError reports that a part was done, and a part was not.
type PartError struct{ Text string }

func (e *PartError) Error() string { return e.Text }

// A UsageError reports what can't be meant. Nothing was done.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// Record writes to the audit log what the store itself doesn't do.
func (d *Desk) Record(ctx context.Context, e yekbar.AuditEntry) error {
	s, err := find[yekbar.OperatorStore](d, "it has no audit log")
	if err != nil {
		return err
	}
	return s.Record(ctx, e)
}

func find[T any](d *Desk, what string) (T, error) {
	t, ok := yekbar.Find[T](d.Store)
	if !ok {
		return t, fmt.Errorf("%w: %s", yekbar.ErrUnsupported, what)
	}
	return t, nil
}

func (d *Desk) operator() (yekbar.OperatorStore, error) {
	return find[yekbar.OperatorStore](d, "it can't be operated")
}

// Known returns how a consumer stands, or a *NotFoundError that says which one may be meant.
func (d *Desk) Known(ctx context.Context, consumer string) (yekbar.ConsumerStatus, error) {
	s, err := d.operator()
	if err != nil {
		return yekbar.ConsumerStatus{}, err
	}
	all, err := s.Consumers(ctx)
	if err != nil {
		return yekbar.ConsumerStatus{}, err
	}
	names := make([]string, len(all))
	for i, c := range all {
		if c.Name == consumer {
			return c, nil
		}
		names[i] = c.Name
	}
	if len(names) == 0 {
		return yekbar.ConsumerStatus{}, notFound("no consumer %q: there is none yet (a worker registers its consumer when it starts); are --database, --schema and --prefix right?", consumer)
	}
	if near := nearest(consumer, names); near != "" {
		return yekbar.ConsumerStatus{}, notFound("no consumer %q; did you mean %q?", consumer, near)
	}
	more := ""
	if len(names) > 5 {
		names, more = names[:5], ", …; see yekbar status"
	}
	return yekbar.ConsumerStatus{}, notFound("no consumer %q; there are: %s%s", consumer, quoted(names), more)
}

// nearest returns the name that is most like the given one, or "" when none
// is.
func nearest(name string, names []string) string {
	best, least := "", 1+max(2, len(name)/3)
	for _, n := range names {
		distance := editDistance(strings.ToLower(name), strings.ToLower(n))
		if distance >= least && (strings.HasPrefix(n, name) || strings.HasPrefix(name, n)) {
			distance = least - 1
		}
		if distance < least {
			best, least = n, distance
		}
	}
	return best
}

// editDistance is Levenshtein's, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// print writes one object as JSON.
func (d *Desk) print(v any) error { return WriteJSON(d.Out, v) }

// say writes text, a line or more.
func (d *Desk) say(format string, args ...any) error {
	_, err := fmt.Fprintf(d.Out, format+"\n", args...)
	return err
}

// warn writes a line to whom the output proper may not be meant.
func (d *Desk) warn(format string, args ...any) error {
	_, err := fmt.Fprintf(d.Notes, "warning: "+format+"\n", args...)
	return err
}

// command is one to type, with the flags that lead here again.
func (d *Desk) command(words ...string) string {
	parts := []string{"yekbar"}
	for _, w := range words {
		parts = append(parts, ShellQuote(w))
	}
	return strings.Join(parts, " ") + d.Flags
}

// a changed is what JSON says of something that was done.
type changed struct {
	Action    string   `json:"action"`
	Consumer  string   `json:"consumer"`
	MessageID string   `json:"message_id,omitempty"`
	By        string   `json:"by"`
	Reason    string   `json:"reason"`
	Warnings  []string `json:"warnings,omitempty"`
}

// done prints what was done, with warnings.
func (d *Desk) done(c changed, by yekbar.Actor, format string, args ...any) error {
	c.By, c.Reason = by.Name, by.Reason
	if d.JSON {
		return d.print(c)
	}
	var errs []error
	for _, w := range c.Warnings {
		errs = append(errs, d.warn("%s", w))
	}
	return errors.Join(append(errs, d.say(format, args...))...)
}

// sortedKeys returns a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
