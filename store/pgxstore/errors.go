package pgxstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// classify says what an error of a statement means: ErrTransient,
// ErrUnavailable, ErrEnvironment, or nil when it is the message's own. An
// error that the server did not send is an outage, unless a context brought it
// about; it is asked only for errors that ended the transaction or the
// connection.
func classify(err error) error {
	pgErr := (*pgconn.PgError)(nil)
	if !errors.As(err, &pgErr) {
		if isContext(err) || errors.Is(err, yekbar.ErrTxDone) || errors.Is(err, yekbar.ErrBoundary) {
			return nil
		}
		return yekbar.ErrUnavailable
	}
	class := schema.ClassifySQLState(pgErr.Code)
	switch {
	case class != nil:
		return class
	case pgErr.Code == "0A000" && pgErr.Routine == "RevalidateCachedQuery":
		return yekbar.ErrTransient // a prepared statement is older than its table; pgx forgets it now
	case isFatal(pgErr) && pgErr.Code[:2] != "25":
		return yekbar.ErrUnavailable // it took the connection with it
	}
	return nil
}

// isFatal reports whether the error ended the connection. (25P03 and 25P04,
// the timeouts of a transaction, are fatal too, but a dawdling handler's own.)
func isFatal(err *pgconn.PgError) bool {
	severity := err.SeverityUnlocalized
	if severity == "" {
		severity = err.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// mark wraps err in its class, once.
func mark(class, err error) error {
	if err == nil || class == nil || errors.Is(err, class) {
		return err
	}
	return fmt.Errorf("%w: %w", class, err)
}

// ended adds why ctx ended, when it did.
func ended(ctx context.Context, err error) error {
	cause := ctx.Err()
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// statementError maps the error of a statement of the store's own.
func statementError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("pgxstore: %s: %w", what, err)
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	if mend := poolerMend(err); mend != "" {
		err = fmt.Errorf("%w: %s", err, mend)
	}
	return mark(classify(err), err)
}

// connectError maps the error of getting a connection. pgx keeps passwords out
// of it.
func connectError(ctx context.Context, err error) error {
	err = fmt.Errorf("pgxstore: no connection: %w", err)
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	pgErr := (*pgconn.PgError)(nil)
	if errors.As(err, &pgErr) {
		if class := classify(err); class != nil {
			return mark(class, err)
		}
	}
	return mark(yekbar.ErrUnavailable, err)
}

const poolerAdvice = `set default_query_exec_mode=cache_describe (or exec) in the connection string, or max_prepared_statements in PgBouncer 1.21 or newer`

// poolerMend says what to do when a pooler without prepared statements stands
// between us and the server, if that is what err shows.
func poolerMend(err error) string {
	pgErr := (*pgconn.PgError)(nil)
	if errors.As(err, &pgErr) && (pgErr.Code == "26000" || pgErr.Code == "42P05") {
		return "a pooler does not keep prepared statements: " + poolerAdvice
	}
	return ""
}
