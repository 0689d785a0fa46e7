package storetest

import (
	"errors"

	"github.com/yekbar-go/yekbar"
)

func statementChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "statements: applied once, a repeat leaves no trace", run: statementsOnce[Tx], single: true},
		{name: "statements: a batch, new and old", run: statementsBatch[Tx]},
		{name: "statements: what fails leaves nothing", run: statementsFail[Tx], single: true},
		{name: "statements: two at once", run: statementsAtOnce[Tx]},
		{name: "without Features.Statements there is no StatementStore", run: statementsUndeclared[Tx]},
	}
}

func (e *env[Tx]) statements() yekbar.StatementStore {
	e.Helper()
	e.need(e.features.Statements, "Statements")
	s, ok := yekbar.Find[yekbar.StatementStore](e.Store)
	if !ok {
		e.Fatal("the store declares Features.Statements and is no StatementStore")
	}
	if e.Instance.Statements == nil {
		e.Fatal("storetest: Instance.Statements is required with Features.Statements")
	}
	return s
}

func (e *env[Tx]) send(s yekbar.StatementStore, cs []yekbar.Claim, ss ...[]yekbar.Statement) ([]yekbar.Claimed, error) {
	return retry(e.ctx, func() ([]yekbar.Claimed, error) { return s.AttemptStatements(e.ctx, cs, ss) })
}

func atLeast(rows int, s yekbar.Statement) yekbar.Statement {
	s.MinRows = rows
	return s
}

func statementsUndeclared[Tx any](e *env[Tx]) {
	if e.features.Statements {
		e.Skip("the store declares Features.Statements")
	}
	if s, ok := yekbar.Find[yekbar.StatementStore](e.Store); ok {
		_, err := s.AttemptStatements(e.ctx, claimsOf("m-1"), [][]yekbar.Statement{nil})
		e.wantError(err, yekbar.ErrUnsupported)
	}
	e.wantClaims(0)
}

func statementsOnce[Tx any](e *env[Tx]) {
	s, texts := e.statements(), e.Instance.Statements
	for _, fresh := range []bool{true, false, false} {
		got, err := e.send(s, claimsOf("m-1"), []yekbar.Statement{texts.Add("n", 2), atLeast(1, texts.Update("n", 3)), texts.Update("nobody", 1)})
		if err != nil || len(got) != 1 || got[0].Fresh != fresh {
			e.Fatalf("%+v, %v; want fresh: %v", got, err, fresh)
		}
		if !fresh && (got[0].State != yekbar.StateApplied || string(got[0].Fingerprint) != string(fingerprintOf("m-1")) || got[0].At.IsZero()) {
			e.Errorf("a repeat: %+v, want what was stored", got[0])
		}
		e.wantClaims(1)
		e.wantCounter("n", 5)
	}
	// A repeat's statements are not executed, or leave no trace: also when
	// they would fail by now.
	if got, err := e.send(s, claimsOf("m-2"), []yekbar.Statement{texts.Insert("made")}); err != nil || !got[0].Fresh {
		e.Fatalf("a statement that inserts: %+v, %v", got, err)
	}
	if got, err := e.send(s, claimsOf("m-2"), []yekbar.Statement{texts.Insert("made")}); err != nil || got[0].Fresh {
		e.Errorf("a repeat of a statement that inserts: %+v, %v; want a repeat", got, err)
	}
	if got, err := e.send(s, claimsOf("m-2"), []yekbar.Statement{atLeast(1, texts.Update("nobody", 1))}); err != nil || got[0].Fresh {
		e.Errorf("a repeat whose statement would change too few rows: %+v, %v; want a repeat", got, err)
	}
	if got, err := e.send(s, claimsOf("m-3"), nil); err != nil || !got[0].Fresh {
		e.Errorf("no statements: %+v, %v; want a fresh claim", got, err)
	}
	if e.apply("m-1", e.adds("n")) || e.apply("m-3", e.adds("n")) {
		e.Error("what statements had applied was applied again by a function")
	}
	e.apply("m-4", e.adds("n"))
	if got, err := e.send(s, claimsOf("m-4"), []yekbar.Statement{texts.Add("n", 1)}); err != nil || got[0].Fresh {
		e.Errorf("what a function had applied: %+v, %v; want a repeat", got, err)
	}
	e.wantClaims(4)
	e.wantCounter("n", 6)
}

func statementsBatch[Tx any](e *env[Tx]) {
	s, texts := e.statements(), e.Instance.Statements
	e.need(e.features.Batch, "Batch")
	ids := []string{"a", "b", "c", "d"}
	e.apply("b", e.adds("n"))
	e.apply("d", e.adds("n"))
	for _, again := range []bool{false, true} {
		var ss [][]yekbar.Statement
		for i, id := range ids {
			ss = append(ss, []yekbar.Statement{texts.Add("of-"+id, 1), texts.Add("n", 10*(i+1))})
		}
		got, err := e.send(s, claimsOf(ids...), ss...)
		if err != nil {
			e.Fatalf("a batch of statements: %v", err)
		}
		for i, c := range got {
			if want := !again && i%2 == 0; c.Fresh != want {
				e.Errorf("%q: fresh is %v, want %v", ids[i], c.Fresh, want)
			}
		}
	}
	e.wantClaims(4)
	e.wantCounter("n", 2+10+30)
	for i, id := range ids {
		e.wantCounter("of-"+id, 1-i%2)
	}
	_, err := e.send(s, claimsOf("e", "f"), []yekbar.Statement{texts.Add("of-e", 1)}, []yekbar.Statement{atLeast(1, texts.Update("nobody", 1))})
	var rows *yekbar.RowsError
	if !errors.As(err, &rows) {
		e.Errorf("a batch with too few rows: error %v, want a *RowsError", err)
	}
	e.wantClaims(4)
	e.wantCounter("of-e", 0)
}

func statementsFail[Tx any](e *env[Tx]) {
	s, texts := e.statements(), e.Instance.Statements
	e.apply("m-0", e.adds("n"))
	_, err := e.send(s, claimsOf("m-1"), []yekbar.Statement{texts.Add("n", 1), atLeast(1, texts.Update("nobody", 1)), texts.Add("n", 1)})
	var rows *yekbar.RowsError
	if !errors.As(err, &rows) {
		e.Errorf("too few rows: error %v, want a *RowsError", err)
	} else if rows.Index != 1 || rows.MinRows != 1 || rows.Rows > 0 {
		e.Errorf("too few rows: %+v, want index 1, at least 1 row, 0 or -1 found", rows)
	}
	e.wantNot(err, notTheMessages...)
	e.wantClaims(1)
	e.wantCounter("n", 1)

	got, err := e.send(s, claimsOf("m-1"), []yekbar.Statement{texts.Add("n", 1), texts.Insert("n")})
	if err == nil {
		e.Errorf("a unique violation of a statement was answered with %+v", got)
	}
	e.wantNot(err, notTheMessages...)
	e.wantClaims(1)
	e.wantCounter("n", 1)

	if got, err = e.send(s, claimsOf("m-1"), []yekbar.Statement{{SQL: "storetest: no statement"}}); err == nil {
		e.Errorf("a statement that is none was answered with %+v", got)
	}
	e.wantClaims(1)
	if got, err = e.send(s, claimsOf("m-1"), []yekbar.Statement{texts.Add("n", 1)}); err != nil || !got[0].Fresh {
		e.Errorf("after failures: %+v, %v; want a fresh claim", got, err)
	}
	e.wantCounter("n", 2)
}

func statementsAtOnce[Tx any](e *env[Tx]) {
	s, texts := e.statements(), e.Instance.Statements
	for _, commit := range []bool{true, false} {
		id := map[bool]string{true: "m-1", false: "m-2"}[commit]
		first := e.hold(id, "first-"+id)
		second := e.start(func() ([]yekbar.Claimed, error) {
			return e.send(s, claimsOf(id), []yekbar.Statement{texts.Add("second-"+id, 1)})
		})
		e.blocked(second)
		want := 1
		if commit {
			first.release <- nil
			want = 0
		} else {
			first.release <- errBusiness
		}
		e.await(first.running, "the first") // its counter tells
		e.await(second, "the second")
		if second.err != nil || second.fresh() == commit {
			e.Errorf("statements behind an attempt (that commits: %v): %+v, %v", commit, second.claimed, second.err)
		}
		e.wantCounter("first-"+id, 1-want)
		e.wantCounter("second-"+id, want)
	}
	e.wantClaims(2)
}
