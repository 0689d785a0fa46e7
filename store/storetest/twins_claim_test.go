package storetest_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/yekbar-go/yekbar"
)

var claimTwins = []twin{
	{"stores no claim", []string{"a new message is applied and a repeat is not", "many copies at once, each message has one effect"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			got := duplicates(cs)
			for i := range got {
				got[i] = yekbar.Claimed{Fresh: true}
			}
			return got, r.apart(ctx, cs, fn)
		})},
	{"calls the function for repeats", []string{"a new message is applied and a repeat is not"},
		attempts(func(r *right, ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
			got, err := r.Attempt(ctx, cs, fn)
			if err == nil && !got[0].Fresh {
				err = r.apart(ctx, cs, fn)
			}
			return got, err
		})},
	{"says no time", []string{"a new message is applied and a repeat is not", "Bind over a transaction of the user's"},
		func(r *right, _ *instance) yekbar.Store[tx] { return timeless{r} }},
	{"says the client's time", []string{"a new message is applied and a repeat is not"},
		answers(func(_ yekbar.Claim, c *yekbar.Claimed) { c.At = time.Now() })},
	{"says no state", []string{"a new message is applied and a repeat is not", "two at once, the first commits"},
		answers(func(_ yekbar.Claim, c *yekbar.Claimed) { c.State = "" })},
	{"answers with the fingerprint it was given", []string{"a repeat writes nothing"},
		answers(func(given yekbar.Claim, c *yekbar.Claimed) { c.Fingerprint = given.Fingerprint })},
	{"calls another payload new", []string{"a repeat writes nothing"},
		claims(func(c *yekbar.Claim) { c.MessageID += string(c.Fingerprint) })},
	{"truncates IDs", []string{"IDs are compared byte for byte"}, ids(func(id string) string { return id[:min(len(id), 255)] })},
	{"folds the case of IDs", []string{"IDs are compared byte for byte"}, ids(strings.ToLower)},
	{"trims IDs", []string{"IDs are compared byte for byte"}, ids(func(id string) string { return strings.TrimRight(id, " ") })},
	{"composes accents in IDs", []string{"IDs are compared byte for byte"}, ids(func(id string) string { return strings.ReplaceAll(id, "e\u0301", "\u00e9") })},
	{"takes numeric IDs for numbers", []string{"IDs are compared byte for byte"}, ids(func(id string) string {
		if id == "1e3" {
			return "1000"
		}
		return id
	})},
	{"knows no consumers", []string{"consumers have claims of their own"}, claims(func(c *yekbar.Claim) { c.Consumer = "" })},
	{"glues consumer and ID together", []string{"consumers have claims of their own"}, claims(func(c *yekbar.Claim) {
		c.Consumer, c.MessageID = "", c.Consumer+" "+c.MessageID
	})},
	{"trims fingerprints", []string{"fingerprints come back as they were"}, answers(func(_ yekbar.Claim, c *yekbar.Claimed) {
		c.Fingerprint = []byte(strings.TrimRight(string(c.Fingerprint), "\x00 "))
	})},
	{"keeps results as text", []string{"results come back as they were"}, answers(func(_ yekbar.Claim, c *yekbar.Claimed) {
		c.Result = []byte(strings.ToValidUTF8(string(c.Result), "?"))
	})},
	{"keeps results by ID alone, at once", []string{"results come back as they were"},
		func(r *right, _ *instance) yekbar.Store[tx] { return &loudResults{right: r} }},
}

// timeless answers without At, in sessions too.
type timeless struct{ *right }

func (s timeless) Attempt(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
	got, err := s.right.Attempt(ctx, cs, fn)
	for i := range got {
		got[i].At = time.Time{}
	}
	return got, err
}

func (s timeless) Bind(t tx) (yekbar.Session, error) {
	in, err := s.right.Bind(t)
	return timelessSession{in}, err
}

type timelessSession struct{ yekbar.Session }

func (s timelessSession) Claim(ctx context.Context, c yekbar.Claim) (yekbar.Claimed, error) {
	got, err := s.Session.Claim(ctx, c)
	got.At = time.Time{}
	return got, err
}

// loudResults stores results outside the transaction.
type loudResults struct {
	*right
	results sync.Map
}

func (s *loudResults) Attempt(ctx context.Context, cs []yekbar.Claim, fn body) ([]yekbar.Claimed, error) {
	got, err := s.right.Attempt(ctx, cs, fn)
	for i := range got {
		if v, ok := s.results.Load(cs[i].MessageID); ok && !got[i].Fresh {
			got[i].Result = v.([]byte)
		}
	}
	return got, err
}

func (s *loudResults) Bind(t tx) (yekbar.Session, error) {
	in, err := s.right.Bind(t)
	return loudSession{in, s}, err
}

type loudSession struct {
	yekbar.Session
	s *loudResults
}

func (l loudSession) SetResult(_ context.Context, c yekbar.Claim, result []byte) error {
	l.s.results.Store(c.MessageID, result)
	return nil
}
