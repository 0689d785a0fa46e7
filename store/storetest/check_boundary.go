package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/yekbar-go/yekbar"
)

func boundaryChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "raw SQL that ends the transaction is a broken boundary", run: rawEnds[Tx]},
		{name: "raw SQL that perhaps ends it: all or nothing", run: rawMaybe[Tx]},
		{name: "methods that end the transaction are a broken boundary", run: methodEnds[Tx], single: true},
		{name: "an ORM's own savepoints keep working", run: rawSavepoints[Tx]},
	}
}

// endings are statements that end the transaction, in sequence; what comes
// after the first would run outside it, or in another.
func endings(dialect string) [][]string {
	common := [][]string{
		{"COMMIT"}, {"commit"}, {" \n/* c */ COMMIT ;"}, {"-- c\nCOMMIT"}, {"ROLLBACK"}, {"rollback;"},
		{"ROLLBACK", "BEGIN"}, {"COMMIT", "BEGIN"},
	}
	switch dialect {
	case "postgresql":
		return append(common, []string{"END"}, []string{"ABORT"}, []string{"COMMIT WORK"}, []string{"COMMIT AND CHAIN"}, []string{"ROLLBACK AND CHAIN"},
			[]string{"/* /* nested */ */ COMMIT"})
	case "mariadb":
		return append(common, []string{"COMMIT AND CHAIN"}, []string{"ROLLBACK AND CHAIN"}, []string{"COMMIT WORK"}, []string{"BEGIN"}, []string{"START TRANSACTION"},
			[]string{"# c\nCOMMIT"}, []string{"SET autocommit = 1"}, []string{"SET @@session.autocommit=ON"}, []string{"set @x = 1, autocommit=1"},
			[]string{"CREATE TABLE storetest_implicit (n INT)"}, []string{"DROP TABLE IF EXISTS storetest_implicit"},
			[]string{"TRUNCATE TABLE storetest_implicit"}, []string{"ALTER TABLE storetest_implicit ADD COLUMN m INT"},
			[]string{"ANALYZE TABLE storetest_implicit"}, []string{"FLUSH TABLES"}, []string{"LOCK TABLES storetest_implicit WRITE"})
	case "sqlite":
		return append(common, []string{"END"}, []string{"COMMIT TRANSACTION"}, []string{"END TRANSACTION"}, []string{"ROLLBACK TRANSACTION"})
	}
	return common
}

// maybes may be refused, or fail, or be harmless, by database and driver.
func maybes(dialect string) [][]string {
	common := [][]string{{"SELECT 1; COMMIT"}, {"ROLLBACK; BEGIN"}}
	switch dialect {
	case "postgresql":
		return append(common, []string{"BEGIN"}, []string{"START TRANSACTION"}, []string{"PREPARE TRANSACTION 'storetest'"}, []string{"DO $$ BEGIN COMMIT; END $$"},
			[]string{"CREATE TEMPORARY TABLE storetest_temporary (n INT)"})
	case "mariadb":
		return append(common, []string{"CREATE TEMPORARY TABLE storetest_temporary (n INT)"}, []string{"SELECT 'COMMIT'"}, []string{"SELECT 1 /*! ; */"},
			[]string{"/*!50000 COMMIT */"}, []string{"/*M! COMMIT */"}, []string{"PREPARE p FROM 'COMMIT'", "EXECUTE p"}, []string{"EXECUTE IMMEDIATE 'COMMIT'"})
	case "sqlite":
		return append(common, []string{"BEGIN"}, []string{"BEGIN IMMEDIATE"}, []string{"CREATE TABLE storetest_transactional (n INT)"})
	}
	return common
}

func (e *env[Tx]) needSQL() {
	e.Helper()
	if e.Exec == nil || e.fixture.Dialect == "" {
		e.Skip("the fixture has no Exec, or no Dialect")
	}
}

func rawEnds[Tx any](e *env[Tx]) {
	e.needSQL()
	for _, stmts := range endings(e.fixture.Dialect) {
		e.tryEnding(strings.Join(stmts, "; then "), func(ctx context.Context, tx Tx) error { return e.execAll(ctx, tx, stmts) })
	}
}

func methodEnds[Tx any](e *env[Tx]) {
	if len(e.Ends) == 0 {
		e.Skip("the fixture has no Ends")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Ends)) {
		e.tryEnding(name, e.Ends[name])
	}
}

func (e *env[Tx]) execAll(ctx context.Context, tx Tx, stmts []string) error {
	var errs []error
	for _, stmt := range stmts {
		errs = append(errs, e.Exec(ctx, tx, stmt))
	}
	return errors.Join(errs...)
}

// tryEnding breaks the boundary between two changes, and once hides that.
func (e *env[Tx]) tryEnding(what string, end func(context.Context, Tx) error) {
	e.Helper()
	for _, hide := range []bool{true, false} {
		err := e.tryBreaking(what, hide, end)
		if err == nil {
			e.Errorf("%q (hidden: %v): no error", what, hide)
			continue
		}
		// Unguarded, a raw ROLLBACK or a failed statement may be seen as
		// what it is; the whole-or-nothing rule was checked already.
		if !errors.Is(err, yekbar.ErrBoundary) && !e.fixture.Unguarded {
			e.Errorf("%q (hidden: %v): error %q is not ErrBoundary", what, hide, err)
		}
	}
}

// tryBreaking checks that all or nothing was stored, unless the error says
// that a part may be.
func (e *env[Tx]) tryBreaking(what string, hide bool, end func(context.Context, Tx) error) error {
	e.Helper()
	claims, err := e.Claims(e.ctx)
	if err != nil {
		e.Fatalf("Claims: %v", err)
	}
	id := fmt.Sprintf("%s, hidden: %v", what, hide)
	sum := sha256.Sum256([]byte(id))
	key := "n-" + hex.EncodeToString(sum[:]) // what escaped before may have left other counters
	_, err = e.settle(claimsOf(id), func(ctx context.Context, tx Tx, _ []int) error {
		if err := e.Add(ctx, tx, key, 1); err != nil {
			return err
		}
		if err := end(ctx, tx); err != nil && !hide {
			return err
		}
		if err := e.Add(ctx, tx, key, 1); err != nil && !hide {
			return err
		}
		return nil
	})
	var b *yekbar.BoundaryError
	if errors.As(err, &b) && b.Escaped {
		return err // by its word not whole; the claim decides nothing
	}
	want := 0
	if err == nil {
		want = 1
	}
	e.wantClaims(claims + want)
	e.wantCounter(key, 2*want)
	if e.Failed() {
		e.Fatalf("that was %q (hidden: %v), with error %v", what, hide, err)
	}
	if fresh := e.apply(id, e.adds(key)); fresh == (err == nil) {
		e.Errorf("%q (hidden: %v), with error %v: the next delivery is fresh: %v", what, hide, err, fresh)
	}
	return err
}

func rawMaybe[Tx any](e *env[Tx]) {
	e.needSQL()
	for _, stmts := range maybes(e.fixture.Dialect) {
		for _, hide := range []bool{true, false} {
			_ = e.tryBreaking(strings.Join(stmts, "; then "), hide, func(ctx context.Context, tx Tx) error { return e.execAll(ctx, tx, stmts) })
		}
	}
}

func rawSavepoints[Tx any](e *env[Tx]) {
	e.needSQL()
	e.need(e.features.Savepoints, "Savepoints")
	e.apply("m-0", func(ctx context.Context, tx Tx, _ []int) error { return e.Insert(ctx, tx, "taken") })
	const fail = "(a statement that fails)"
	for i, c := range []struct {
		stmts   []string
		forgave bool
	}{
		{[]string{"SAVEPOINT sp1", fail, "ROLLBACK TO SAVEPOINT sp1"}, true},
		{[]string{"SAVEPOINT sp1", fail, "ROLLBACK TO SAVEPOINT sp1", "RELEASE SAVEPOINT sp1"}, true},
		{[]string{"savepoint sp1;", fail, "rollback to sp1;"}, true},
		{[]string{"SAVEPOINT sp1", "RELEASE SAVEPOINT sp1"}, true},
		{[]string{"SAVEPOINT sp1", "SAVEPOINT sp2", fail, "ROLLBACK TO SAVEPOINT sp1"}, true},
		{[]string{"SAVEPOINT sp1", "SAVEPOINT sp2", fail, "ROLLBACK TO SAVEPOINT sp2", "RELEASE SAVEPOINT sp1"}, true},
		{[]string{"SAVEPOINT sp1", fail, "ROLLBACK TO SAVEPOINT sp1", fail, "ROLLBACK TO SAVEPOINT sp1"}, true},
		{[]string{"SAVEPOINT sp1", fail, "ROLLBACK TO SAVEPOINT sp1", fail}, false},
		{[]string{"SAVEPOINT sp1", fail, "RELEASE SAVEPOINT sp1"}, false},
		{[]string{fail, "SAVEPOINT sp1", "ROLLBACK TO SAVEPOINT sp1"}, false},
		{[]string{"SAVEPOINT sp1", "RELEASE SAVEPOINT sp1", fail, "ROLLBACK TO SAVEPOINT sp1"}, false},
	} {
		id, key := fmt.Sprintf("m-%d", i+1), fmt.Sprintf("n-%d", i+1)
		fn := func(ctx context.Context, tx Tx, _ []int) error {
			if err := e.Add(ctx, tx, key, 1); err != nil {
				return err
			}
			for _, stmt := range c.stmts {
				if stmt == fail {
					_ = e.Insert(ctx, tx, "taken")
					continue
				}
				if err := e.Exec(ctx, tx, stmt); err != nil && c.forgave {
					return fmt.Errorf("%s: %w", stmt, err)
				}
			}
			if err := e.Add(ctx, tx, key, 1); err != nil && c.forgave {
				return err
			}
			return nil
		}
		_, err := e.settle(claimsOf(id), fn)
		switch {
		case c.forgave && err != nil:
			e.Errorf("%q: %v", c.stmts, err)
			continue
		case !c.forgave && !errors.Is(err, yekbar.ErrRolledBack):
			e.Errorf("%q: error %v, want ErrRolledBack: nothing forgave the failed statement", c.stmts, err)
		}
		if c.forgave {
			e.wantCounter(key, 2)
		} else {
			e.wantCounter(key, 0)
		}
		if fresh := e.apply(id, e.adds(key)); fresh == c.forgave {
			e.Errorf("%q: the next delivery is fresh: %v", c.stmts, fresh)
		}
	}
}
