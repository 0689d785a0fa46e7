package servers

import (
	"fmt"
	"os"
)

// Kind is a sort of server.
type Kind string

// The servers that this package can start.
const (
	KindPostgreSQL Kind = "PostgreSQL"
	KindMariaDB    Kind = "MariaDB"
	KindPgBouncer  Kind = "PgBouncer"
	KindNATS       Kind = "NATS"
)

// Kinds lists them, each after those that it needs.
func Kinds() []Kind { return []Kind{KindPostgreSQL, KindMariaDB, KindPgBouncer, KindNATS} }

// Variable is the environment variable that names a running server of the kind.
func (k Kind) Variable() string {
	switch k {
	case KindPostgreSQL:
		return "YEKBAR_TEST_POSTGRES"
	case KindMariaDB:
		return "YEKBAR_TEST_MARIADB"
	case KindPgBouncer:
		return "YEKBAR_TEST_PGBOUNCER"
	case KindNATS:
		return "YEKBAR_TEST_NATS"
	}
	panic("servers: unknown kind " + string(k))
}

// example is a URL that the kind's variable could hold.
func (k Kind) example() string {
	switch k {
	case KindPostgreSQL:
		return "postgres://user:password@127.0.0.1:5432/postgres?sslmode=disable"
	case KindMariaDB:
		return "mysql://user:password@127.0.0.1:3306/"
	case KindPgBouncer:
		return "postgres://user:password@127.0.0.1:6432/postgres?sslmode=disable"
	case KindNATS:
		return "nats://127.0.0.1:4222"
	}
	panic("servers: unknown kind " + string(k))
}

// RequireVariable turns a missing server from a skipped test into a failed one.
const RequireVariable = "YEKBAR_REQUIRE_SERVICES"

// Required tells whether a missing server is a failure.
func Required() bool {
	v := os.Getenv(RequireVariable)
	return v != "" && v != "0"
}

// MissingError says that a server isn't installed here, and how to get it.
type MissingError struct {
	Kind Kind
	// What was looked for and where.
	What string
	// Package is what Debian and Ubuntu call it; empty for none.
	Package string
}

func (e *MissingError) Error() string {
	install := ""
	if e.Package != "" {
		install = fmt.Sprintf("install it (Debian, Ubuntu: apt-get install %s), or ", e.Package)
	}
	return fmt.Sprintf("%s is missing: %s; %sset %s to a running one (%s)",
		e.Kind, e.What, install, e.Kind.Variable(), e.Kind.example())
}

// Installed returns a *MissingError when a server of the kind can't be started
// here.
func Installed(kind Kind) error {
	var err error
	switch kind {
	case KindPostgreSQL:
		_, err = findPostgreSQL()
	case KindMariaDB:
		_, err = findMariaDB()
	case KindPgBouncer:
		_, err = findPgBouncer()
	case KindNATS:
		_, err = findGo()
	}
	return err
}
