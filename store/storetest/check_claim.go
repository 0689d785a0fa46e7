package storetest

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

func claimChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "a new message is applied and a repeat is not", run: freshAndOld[Tx], single: true},
		{name: "a repeat writes nothing", run: repeatWritesNothing[Tx]},
		{name: "IDs are compared byte for byte", run: identities[Tx]},
		{name: "consumers have claims of their own", run: consumers[Tx]},
		{name: "fingerprints come back as they were", run: fingerprints[Tx]},
		{name: "results come back as they were", run: results[Tx]},
	}
}

func freshAndOld[Tx any](e *env[Tx]) {
	before := time.Now()
	first, err := e.settle(claimsOf("m-1"), e.adds("n"))
	if err != nil {
		e.Fatalf("first delivery: %v", err)
	}
	if len(first) != 1 || !first[0].Fresh {
		e.Fatalf("first delivery: %+v, want one fresh claim", first)
	}
	var at time.Time
	for range 3 {
		again, err := e.settle(claimsOf("m-1"), func(context.Context, Tx, []int) error {
			e.Error("the function was called for a repeat")
			return nil
		})
		if err != nil {
			e.Fatalf("repeat: %v", err)
		}
		if len(again) != 1 || again[0].Fresh {
			e.Fatalf("repeat: %+v, want one claim that is not fresh", again)
		}
		c := again[0]
		if c.State != yekbar.StateApplied {
			e.Errorf("repeat: state %q, want %q", c.State, yekbar.StateApplied)
		}
		if !bytes.Equal(c.Fingerprint, fingerprintOf("m-1")) {
			e.Errorf("repeat: fingerprint %x, want %x", c.Fingerprint, fingerprintOf("m-1"))
		}
		if len(c.Result) != 0 {
			e.Errorf("repeat: result %q, and none was set", c.Result)
		}
		// The database's clock may be another machine's: an hour is for
		// mistakes of a time zone or a unit, not for drift.
		if d := c.At.Sub(before).Abs(); d > time.Hour {
			e.Errorf("repeat: claimed at %v, which is %v from now", c.At, d)
		}
		if !at.IsZero() && !c.At.Equal(at) {
			e.Errorf("repeat: claimed at %v, and at %v a repeat earlier", c.At, at)
		}
		at = c.At
	}
	if f := first[0].At; !f.IsZero() && !f.Equal(at) {
		e.Errorf("the first delivery said it was claimed at %v, repeats say %v", f, at)
	}
	e.wantClaims(1)
	e.wantCounter("n", 1)
}

func repeatWritesNothing[Tx any](e *env[Tx]) {
	e.apply("m-1", e.adds("n"))
	other := claim("m-1")
	other.Fingerprint = fingerprintOf("another payload")
	for range 2 {
		got, err := e.settle([]yekbar.Claim{other}, e.adds("n"))
		if err != nil {
			e.Fatalf("a repeat with another fingerprint: %v (to compare fingerprints is the consumer's part)", err)
		}
		if got[0].Fresh || !bytes.Equal(got[0].Fingerprint, fingerprintOf("m-1")) {
			e.Errorf("a repeat with another fingerprint: %+v, want the stored fingerprint %x", got[0], fingerprintOf("m-1"))
		}
	}
	e.wantClaims(1)
	e.wantCounter("n", 1)
}

func identities[Tx any](e *env[Tx]) {
	long := strings.Repeat("x", 511)
	ids := []string{
		"Order-A1", "order-a1", "ORDER-A1", "order-a1 ", " order-a1", "order-a1  ", "order-a1\t", "order-a1\n",
		"\u00e9", "e\u0301", "e", "E", "\u00c9", "\u00df", "ss", "\u00e6", "ae", "i", "\u0131", "I", "\u0130",
		"\uff21", "A", "a", "\u200b", "a\u200b", "\ufeffa", "\u202ea", "\U0001f600", "\U0001f601", "\ufffd",
		"1", "01", "1.0", "1e0", "0x1", "1e3", "1000", "+1", "'", "''", "\"", "\\", "\\\\", "%", "_", "$1", "?", ":a", "--", "/*", "NULL", "null", "true",
		long + "a", long + "b", long + "A", long, strings.Repeat("\u00e9", 256),
		"https://shop.example/orders 17", "sha256:" + strings.Repeat("0", 64),
		"\x01", "\x7f", "a\x01", "a\r\n", "a;b", "a,b", "{a,b}", "a|b",
	}
	for i, id := range ids {
		if !e.apply(id, e.adds("n")) {
			e.Errorf("ID %q (%d bytes) was taken for one of the %d before it", id, len(id), i)
		}
	}
	for _, id := range ids {
		if e.apply(id, e.adds("n")) {
			e.Errorf("ID %q (%d bytes) was not found again", id, len(id))
		}
	}
	e.wantClaims(len(ids))
	e.wantCounter("n", len(ids))
}

func consumers[Tx any](e *env[Tx]) {
	names := []string{"inventory", "Inventory", "inventory ", "billing", "b", "b m"}
	for _, fresh := range []bool{true, false} {
		for _, name := range names {
			for _, id := range []string{"m-1", "m m-1"} {
				c := claim(id)
				c.Consumer = name
				got, err := e.settle([]yekbar.Claim{c}, e.adds("n"))
				if err != nil {
					e.Fatalf("consumer %q: %v", name, err)
				}
				if got[0].Fresh != fresh {
					e.Errorf("consumer %q, message %q: fresh is %v, want %v", name, id, got[0].Fresh, fresh)
				}
			}
		}
	}
	e.wantClaims(2 * len(names))
	e.wantCounter("n", 2*len(names))
}

func fingerprints[Tx any](e *env[Tx]) {
	all := make([]byte, 64)
	for i := range all {
		all[i] = byte(i * 37)
	}
	for name, f := range map[string][]byte{
		"usual": fingerprintOf("m"), "none": nil, "zeros": make([]byte, 17), "ones": bytes.Repeat([]byte{0xff}, 17),
		"trailing-zero": append(bytes.Repeat([]byte{'a'}, 16), 0), "trailing-space": append(bytes.Repeat([]byte{'a'}, 16), ' '), "long": all,
	} {
		c := claim(name)
		c.Fingerprint = f
		for _, fresh := range []bool{true, false} {
			got, err := e.settle([]yekbar.Claim{c}, e.adds("n"))
			if err != nil {
				e.Fatalf("fingerprint %s: %v", name, err)
			}
			if got[0].Fresh != fresh {
				e.Errorf("fingerprint %s: fresh is %v, want %v", name, got[0].Fresh, fresh)
			}
			if !fresh && !bytes.Equal(got[0].Fingerprint, f) {
				e.Errorf("fingerprint %s came back as %x, stored was %x", name, got[0].Fingerprint, f)
			}
		}
	}
}

func results[Tx any](e *env[Tx]) {
	all := make([]byte, 70_000)
	for i := range all {
		all[i] = byte(i)
	}
	for name, want := range map[string][]byte{
		"text": []byte(`{"ok":true}`), "bytes": all, "empty": {}, "zero": {0}, "not-utf8": {0xff, 0xfe}, "space": []byte("a "),
	} {
		c := claim(name)
		got, err := e.settle([]yekbar.Claim{c}, func(ctx context.Context, tx Tx, _ []int) error {
			s, err := e.Store.Bind(tx)
			if err != nil {
				return err
			}
			return s.SetResult(ctx, c, want)
		})
		if err != nil || !got[0].Fresh {
			e.Fatalf("result %s: %+v, %v", name, got, err)
		}
		other := c
		other.Consumer = "other"
		for _, c := range []yekbar.Claim{c, other} {
			for range 2 {
				if got, err = e.settle([]yekbar.Claim{c}, e.adds("n")); err != nil {
					e.Fatalf("result %s: repeat: %v", name, err)
				}
			}
			if c.Consumer == "other" {
				want = nil
			}
			if !bytes.Equal(got[0].Result, want) {
				e.Errorf("result %s of consumer %q came back as %d bytes %.40x, want %d bytes %.40x", name, c.Consumer, len(got[0].Result), got[0].Result, len(want), want)
			}
		}
	}

	failed := claim("failed")
	_, err := e.settle([]yekbar.Claim{failed}, func(ctx context.Context, tx Tx, _ []int) error {
		s, err := e.Store.Bind(tx)
		if err != nil {
			return err
		}
		if err := s.SetResult(ctx, failed, []byte("of a failed attempt")); err != nil {
			return err
		}
		return errBusiness
	})
	e.wantError(err, errBusiness)
	for _, fresh := range []bool{true, false} {
		got, err := e.settle([]yekbar.Claim{failed}, e.adds("n"))
		if err != nil || got[0].Fresh != fresh || len(got[0].Result) != 0 {
			e.Errorf("after a failed attempt with a result: %+v, %v; want fresh %v and no result", got, err, fresh)
		}
	}
}
