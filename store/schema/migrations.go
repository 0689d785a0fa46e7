package schema

import (
	"embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/yekbar-go/yekbar"
)

// Version is the schema version of this release.
const Version = 1

// bodyQuote quotes the bodies of DO blocks in the migrations.
const bodyQuote = "$yekbar$"

//go:embed migrations
var files embed.FS

// SQL returns the statements that lead from one version to another, up or
// down; version 0 is no tables at all. They belong into one transaction where
// the database has transactional DDL (PostgreSQL, SQLite).
func SQL(d Dialect, n Names, from, to int) (string, error) {
	ss, err := Statements(d, n, from, to)
	if err != nil || len(ss) == 0 {
		return "", err
	}
	return strings.Join(ss, ";\n\n") + ";\n", nil
}

// Statements is SQL, one statement an item and without semicolons, for drivers
// that take one at a time.
func Statements(d Dialect, n Names, from, to int) ([]string, error) {
	if err := n.Validate(d); err != nil {
		return nil, err
	}
	for _, v := range []int{from, to} {
		if v < 0 || v > Version {
			return nil, fmt.Errorf("yekbar: schema version %d is unknown: this release knows 0 (no tables) to %d", v, Version)
		}
	}
	var ss []string
	for v := from; v < to; v++ {
		step, err := step(d, n, v+1, "up")
		if err != nil {
			return nil, err
		}
		ss = append(ss, step...)
	}
	for v := from; v > to; v-- {
		step, err := step(d, n, v, "down")
		if err != nil {
			return nil, err
		}
		ss = append(ss, step...)
	}
	return ss, nil
}

// step returns the statements of one file. In the files a statement ends with
// a semicolon and an empty line.
func step(d Dialect, n Names, version int, direction string) ([]string, error) {
	name := fmt.Sprintf("migrations/%s/%04d_%s.sql", d, version, direction)
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("yekbar: schema: %w", err)
	}
	t, err := template.New(name).Funcs(template.FuncMap{
		"table":         func(table string) string { return n.Table(d, table) },
		"bare":          func(table string) string { return Quote(d, n.Bare(d, table)) },
		"schema":        func() string { return Quote(d, n.schema()) },
		"schemaLiteral": func() string { return literal(n.schema()) },
	}).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("yekbar: schema: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return nil, fmt.Errorf("yekbar: schema: %w", err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), ";\n"), ";\n\n"), nil
}

// CheckVersion says whether this release can use tables of version have, whose
// schema_version row says minCompatible. Have is 0 where there are no tables.
// The error wraps yekbar.ErrSchema.
func CheckVersion(have, minCompatible int) error { return checkVersion(Version, have, minCompatible) }

func checkVersion(want, have, minCompatible int) error {
	switch {
	case have == 0:
		return fmt.Errorf("%w: there are none: run yekbar migrate, or call Migrate", yekbar.ErrSchema)
	case have < want:
		return fmt.Errorf("%w: they are at version %d, this release needs %d: run yekbar migrate, or call Migrate", yekbar.ErrSchema, have, want)
	case minCompatible > want:
		return fmt.Errorf("%w: they are at version %d, which releases of version %d and newer can use, and this one is of version %d: upgrade it", yekbar.ErrSchema, have, minCompatible, want)
	}
	return nil
}
