package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"syscall"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// sqlState is the server's code in err, of any driver whose errors have a
// method SQLState, as those of pgx and lib/pq.
func sqlState(err error) (string, bool) {
	var s interface {
		error
		SQLState() string
	}
	if errors.As(err, &s) {
		return s.SQLState(), true
	}
	return "", false
}

// mysqlNumber is the server's number in err, of go-sql-driver/mysql.
func mysqlNumber(err error) (uint16, bool) {
	v, ok := findType(err, "github.com/go-sql-driver/mysql", "MySQLError")
	if !ok {
		return 0, false
	}
	if f := v.FieldByName("Number"); f.IsValid() && f.CanUint() {
		return uint16(f.Uint()), true
	}
	return 0, false
}

// sqliteCode is SQLite's extended result code in err, of modernc.org/sqlite or
// mattn/go-sqlite3.
func sqliteCode(err error) (int, bool) {
	if v, ok := findType(err, "github.com/mattn/go-sqlite3", "Error"); ok {
		for _, name := range []string{"ExtendedCode", "Code"} {
			if f := v.FieldByName(name); f.IsValid() && f.CanInt() && f.Int() != 0 {
				return int(f.Int()), true
			}
		}
	}
	var c interface {
		error
		Code() int
	}
	if errors.As(err, &c) && typeIs(reflect.TypeOf(c), "modernc.org/sqlite", "Error") {
		return c.Code(), true
	}
	return 0, false
}

// isSQLiteError reports whether err has SQLite's code SQLITE_ERROR.
func isSQLiteError(err error) bool {
	code, ok := sqliteCode(err)
	return ok && code == 1
}

// findType looks in err's tree for an error whose concrete type is that of a
// driver this module must not import.
func findType(err error, path, name string) (reflect.Value, bool) {
	if err == nil {
		return reflect.Value{}, false
	}
	if typeIs(reflect.TypeOf(err), path, name) {
		v := reflect.Indirect(reflect.ValueOf(err))
		return v, v.IsValid() && v.Kind() == reflect.Struct
	}
	switch u := err.(type) { //nolint:errorlint // this walks the tree itself
	case interface{ Unwrap() error }:
		return findType(u.Unwrap(), path, name)
	case interface{ Unwrap() []error }:
		for _, e := range u.Unwrap() {
			if v, ok := findType(e, path, name); ok {
				return v, true
			}
		}
	}
	return reflect.Value{}, false
}

// typeIs compares a type, or what it points to; the path may have a major
// version behind it.
func typeIs(t reflect.Type, path, name string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name() == name && (t.PkgPath() == path || strings.HasPrefix(t.PkgPath(), path+"/v"))
}

// fromServer reports whether the database itself sent err, and its class: one
// of yekbar.ErrTransient, ErrUnavailable, ErrEnvironment, or nil when it is the
// message's own.
func fromServer(err error) (class error, ok bool) { //nolint:revive // class is the answer, not a failure
	if state, ok := sqlState(err); ok {
		return schema.ClassifySQLState(state), true
	}
	if number, ok := mysqlNumber(err); ok {
		return schema.ClassifyMySQL(number), true
	}
	if code, ok := sqliteCode(err); ok {
		return schema.ClassifySQLite(code), true
	}
	return nil, false
}

// classify says what err means, by type and code, never by its text. raw is
// the driver's connection, or nil; a connection that is gone is an outage,
// unless a context ended it.
func classify(custom func(error) error, raw any, err error) error {
	if err == nil {
		return nil
	}
	if custom != nil {
		if class := custom(err); class != nil {
			return class
		}
	}
	if class, ok := fromServer(err); ok {
		return class
	}
	var n net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.As(err, &n):
		return yekbar.ErrUnavailable
	case raw != nil && !alive(raw):
		return yekbar.ErrUnavailable
	}
	return nil
}

// with wraps target into err, unless it is there already.
func with(target, err error) error {
	switch {
	case target == nil || errors.Is(err, target):
		return err
	case err == nil:
		return target
	}
	return fmt.Errorf("%w: %w", target, err)
}

// ownTable is with for an error of the store's own statement: what would be
// the message's own in a handler's is a table that isn't what it should be.
func ownTable(class, err error) error {
	missing := false
	if state, ok := sqlState(err); ok {
		switch state {
		case "42P01", "3F000", "42703", "42P10", "42804":
			missing = true
		}
	}
	if number, ok := mysqlNumber(err); ok {
		switch number {
		case 1054, 1146, 1932:
			missing = true
		}
	}
	if code, ok := sqliteCode(err); ok {
		missing = code&0xff == 1 // SQLITE_ERROR: of a fixed text, it is the table
	}
	if missing {
		return fmt.Errorf("%w: run yekbar migrate, or call Migrate: %w", yekbar.ErrSchema, err)
	}
	return with(class, err)
}
