package storetest

import (
	"errors"
	"sync"

	"github.com/yekbar-go/yekbar"
)

func schemaChecks[Tx any]() []check[Tx] {
	return []check[Tx]{
		{name: "migrations: down, up, again, at once", run: migrations[Tx]},
		{name: "missing tables are the schema's fault", run: missingTables[Tx]},
	}
}

func (e *env[Tx]) migrator() yekbar.Migrator {
	e.Helper()
	m, ok := yekbar.Find[yekbar.Migrator](e.Store)
	if !ok {
		e.Skip("the store is no Migrator")
	}
	return m
}

func (e *env[Tx]) wantVersion(m yekbar.Migrator, current bool) (want int) {
	e.Helper()
	have, want, err := m.SchemaVersion(e.ctx)
	if err != nil {
		e.Fatalf("SchemaVersion: %v", err)
	}
	if current && have != want || !current && have != 0 || want < 1 {
		e.Errorf("SchemaVersion: have %d, want %d; tables there: %v", have, want, current)
	}
	return want
}

func migrations[Tx any](e *env[Tx]) {
	m := e.migrator()
	version := e.wantVersion(m, true)
	e.apply("m-1", e.adds("n"))
	if err := m.Migrate(e.ctx); err != nil {
		e.Fatalf("Migrate, again: %v", err)
	}
	e.wantClaims(1) // and kept what was there
	for _, way := range []struct{ from, to int }{{0, version}, {version, 0}} {
		if sql, err := m.MigrationSQL(way.from, way.to); err != nil || sql == "" {
			e.Errorf("MigrationSQL(%d, %d): %q, %v; want statements", way.from, way.to, sql, err)
		}
	}
	for _, to := range []int{-1, version + 1} {
		if err := m.MigrateTo(e.ctx, to); err == nil {
			e.Errorf("MigrateTo(%d), a version that is none, did not fail", to)
		}
	}
	for range 2 {
		if err := m.MigrateTo(e.ctx, 0); err != nil {
			e.Fatalf("MigrateTo(0): %v", err)
		}
		e.wantVersion(m, false)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := m.Migrate(e.ctx); err != nil {
				e.Errorf("Migrate, eight at once: %v", err)
			}
		})
	}
	all.Wait()
	e.wantVersion(m, true)
	e.wantClaims(0)
	if !e.apply("m-1", e.adds("n")) {
		e.Error("a claim outlived its table")
	}
	if err := m.MigrateTo(e.ctx, version); err != nil {
		e.Errorf("MigrateTo(%d), where the tables are: %v", version, err)
	}
	e.wantClaims(1)
}

func missingTables[Tx any](e *env[Tx]) {
	m := e.migrator()
	checker, checks := yekbar.Find[yekbar.Checker](e.Store)
	if checks {
		if err := checker.Check(e.ctx); err != nil {
			e.Errorf("Check of a fresh store: %v", err)
		}
	}
	if err := m.MigrateTo(e.ctx, 0); err != nil {
		e.Fatalf("MigrateTo(0): %v", err)
	}
	if checks {
		e.wantError(checker.Check(e.ctx), yekbar.ErrSchema)
	}
	_, err := e.Store.Attempt(e.ctx, claimsOf("m-1"), e.adds("n"))
	if !errors.Is(err, yekbar.ErrSchema) && !errors.Is(err, yekbar.ErrEnvironment) {
		e.Errorf("an attempt without tables: error %v, want ErrSchema or ErrEnvironment", err)
	}
	if yekbar.CountsAsAttempt(err) {
		e.Error("missing tables count as an attempt of the message's")
	}
	e.wantCounter("n", 0)
	if err := m.Migrate(e.ctx); err != nil {
		e.Fatalf("Migrate: %v", err)
	}
	e.wantNothing("m-1", "n")
}
