package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
)

func TestClassify(t *testing.T) {
	pg := func(code, severity, routine string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Severity: severity, Routine: routine})
	}
	for name, c := range map[string]struct {
		err, want error
	}{
		"deadlock":                       {pg("40P01", "ERROR", ""), yekbar.ErrTransient},
		"no table":                       {pg("42P01", "ERROR", ""), yekbar.ErrEnvironment},
		"terminated":                     {pg("57P01", "FATAL", ""), yekbar.ErrUnavailable},
		"PgBouncer's outage":             {pg("08P01", "FATAL", ""), yekbar.ErrUnavailable},
		"wrong number of arguments":      {pg("08P01", "ERROR", ""), nil},
		"crash":                          {pg("XX000", "PANIC", ""), yekbar.ErrUnavailable},
		"idle too long in a transaction": {pg("25P03", "FATAL", ""), nil},
		"unique violation":               {pg("23505", "ERROR", ""), nil},
		"severity in German":             {&pgconn.PgError{Code: "XX000", Severity: "PANIK", SeverityUnlocalized: "PANIC"}, yekbar.ErrUnavailable},
		"plan older than its table":      {pg("0A000", "ERROR", "RevalidateCachedQuery"), yekbar.ErrTransient},
		"not supported":                  {pg("0A000", "ERROR", "transformOnConflictClause"), nil},
		"connection lost":                {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), yekbar.ErrUnavailable},
		"a context's end":                {fmt.Errorf("timeout: %w", context.DeadlineExceeded), nil},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOwnKey(t *testing.T) {
	s := New(nil, Config{})
	own := pgconn.PgError{Code: "23505", SchemaName: "yekbar", TableName: "processed_messages", ConstraintName: "processed_messages_pkey"}
	if !s.isOwnKey(&own) {
		t.Error("our own key is not seen")
	}
	for name, change := range map[string]func(*pgconn.PgError){
		"another code":       func(e *pgconn.PgError) { e.Code = "23503" },
		"another schema":     func(e *pgconn.PgError) { e.SchemaName = "public" },
		"another table":      func(e *pgconn.PgError) { e.TableName = "results" },
		"another constraint": func(e *pgconn.PgError) { e.ConstraintName = "users_email_key" },
		"no names":           func(e *pgconn.PgError) { e.SchemaName, e.TableName, e.ConstraintName = "", "", "" },
	} {
		other := own
		change(&other)
		if s.isOwnKey(&other) {
			t.Errorf("%s is taken for our own key", name)
		}
	}
}

func TestMarkOnce(t *testing.T) {
	err := mark(yekbar.ErrTransient, mark(yekbar.ErrTransient, io.EOF))
	if strings.Count(err.Error(), yekbar.ErrTransient.Error()) != 1 || !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestPoolerMendIsNamed(t *testing.T) {
	err := statementError(t.Context(), "claim", &pgconn.PgError{Code: "26000", Severity: "ERROR", Message: "no such statement"})
	if !errors.Is(err, yekbar.ErrEnvironment) || !strings.Contains(err.Error(), "default_query_exec_mode") {
		t.Error(err)
	}
}
