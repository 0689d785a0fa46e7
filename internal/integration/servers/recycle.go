package servers

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
)

// A database is one that was made for a test.
type database struct {
	url  string
	drop func(context.Context) error
}

// idle are databases of PostgreSQL that are empty again. Making and dropping
// one for each test took most of the tests' time, in the kernel.
var idle struct {
	sync.Mutex
	all []database
}

// recycled lends databases of PostgreSQL that are emptied and lent again.
func recycled(ctx context.Context, admin string) (string, func(context.Context) error, error) {
	idle.Lock()
	if n := len(idle.all); n > 0 {
		d := idle.all[n-1]
		idle.all = idle.all[:n-1]
		idle.Unlock()
		return d.url, d.recycle, nil
	}
	idle.Unlock()
	url, drop, err := fresh(createPostgreSQL)(ctx, admin)
	return url, database{url, drop}.recycle, err
}

// recycle empties a database for another test, or drops it where something
// could be left.
func (d database) recycle(ctx context.Context) error {
	clean, err := d.empty(ctx)
	if err != nil || !clean {
		return errors.Join(err, d.drop(ctx))
	}
	idle.Lock()
	defer idle.Unlock()
	idle.all = append(idle.all, d)
	return nil
}

// empty ends all sessions, drops all schemas, and reports whether that is all
// that a test could have left.
func (d database) empty(ctx context.Context) (clean bool, err error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT
  NOT EXISTS (SELECT FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND NOT EXISTS (SELECT FROM pg_extension WHERE extname <> 'plpgsql')
  AND NOT EXISTS (SELECT FROM pg_largeobject_metadata)
  AND NOT EXISTS (SELECT FROM pg_event_trigger)
  AND NOT EXISTS (SELECT FROM pg_publication)
  AND NOT EXISTS (SELECT FROM pg_default_acl)
  AND NOT EXISTS (SELECT FROM pg_collation WHERE oid >= 16384 AND collnamespace = 'pg_catalog'::regnamespace)
  AND (SELECT datacl IS NULL FROM pg_database WHERE datname = current_database())`).Scan(&clean)
	if err != nil || !clean {
		return false, err
	}
	_, err = conn.Exec(ctx, `DO $$
DECLARE s text;
BEGIN
  PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
  FOR s IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
    EXECUTE format('DROP SCHEMA %I CASCADE', s);
  END LOOP;
  CREATE SCHEMA public;
END $$`)
	return err == nil, err
}

// dropIdle drops what a server that is not ours would keep.
func dropIdle(ctx context.Context) error {
	idle.Lock()
	defer idle.Unlock()
	var errs []error
	for _, d := range idle.all {
		errs = append(errs, d.drop(ctx))
	}
	idle.all = nil
	return errors.Join(errs...)
}
