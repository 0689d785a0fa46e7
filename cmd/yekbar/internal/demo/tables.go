package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/database"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// The demo's tables stand in a schema of their own on PostgreSQL and behind a
// prefix elsewhere, Yekbar's with them.
const (
	schemaName = "yekbar_demo"
	prefix     = "yekbar_demo_"
)

const (
	markerTable    = "marker"    // says that the tables are the demo's, and when it last was alive
	inventoryTable = "inventory" // the stock
	journalTable   = "journal"   // a row each time an order is applied; no key keeps a second one out
	handledTable   = "handled"   // what --naive exists-check looks into
)

// markerText is in the marker's row; only tables beside it are ever dropped.
const markerText = "made by yekbar demo, which drops these tables when it runs again"

const (
	// beat is how often a demo says that it is alive; aliveFor is how long
	// others believe it. In seconds, by the database's clock.
	beat     = 3
	aliveFor = 12

	reachTimeout = 15 * time.Second
)

// tables is the demo's corner of a database.
type tables struct {
	database *database.Database
	dialect  schema.Dialect
	names    schema.Names
	db       *sql.DB
	store    *sqlstore.Store
}

func newTables(d *database.Database, db *sql.DB) *tables {
	return &tables{
		database: d,
		dialect:  schema.Dialect(d.Dialect.String()),
		names:    schema.Names{Schema: schemaName, Prefix: prefix},
		db:       db,
		store:    sqlstore.New(db, d.Dialect, sqlstore.Config{Schema: schemaName, Prefix: prefix}),
	}
}

// table returns a table's qualified and quoted name.
func (t *tables) table(name string) string { return t.names.Table(t.dialect, name) }

// where says what the demo touches.
func (t *tables) where() string {
	if t.dialect == schema.PostgreSQL {
		return "schema " + schemaName
	}
	return "tables " + prefix + "*"
}

// create makes the tables, empty. Those of an earlier demo it drops first;
// any others of these names it leaves alone, and refuses.
func (t *tables) create(ctx context.Context) error {
	reach, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := t.db.PingContext(reach); err != nil {
		if t.dialect == schema.SQLite {
			return t.fail("can't open it; does its folder exist, and is it an SQLite database?", err)
		}
		return t.fail("can't connect; is the server running, and is the URL right?", err)
	}
	if err := t.dropOwn(ctx); err != nil {
		return err
	}
	for _, statement := range t.definitions() {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			return t.fail("can't make "+t.where()+"; the user needs the right to create them", err)
		}
	}
	if err := t.store.Migrate(ctx); err != nil {
		return t.fail("can't make Yekbar's tables", err)
	}
	return nil
}

// fail names the database and leaves its password out.
func (t *tables) fail(what string, err error) error {
	return t.database.Clean(fmt.Errorf("%s: %s: %w", t.database, what, err))
}

// definitions returns the statements that make the demo's own tables, the
// marker first.
func (t *tables) definitions() []string {
	text, name, end := "text", "text", ""
	var first []string
	switch t.dialect {
	case schema.PostgreSQL:
		name = `text COLLATE "C"`
		first = []string{`DO $demo$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '` + schemaName + `') THEN CREATE SCHEMA ` + schemaName + `; END IF;
		END $demo$`}
	case schema.MariaDB:
		// VARBINARY compares byte for byte, as the other two do.
		text, name, end = "VARCHAR(255)", "VARBINARY(255)", " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
	case schema.SQLite:
		end = " STRICT"
	}
	integer := "bigint"
	if t.dialect == schema.SQLite {
		integer = "integer"
	}
	return append(first,
		fmt.Sprintf("CREATE TABLE %s (note %s NOT NULL, alive_at %s NOT NULL)%s", t.table(markerTable), text, integer, end),
		fmt.Sprintf("INSERT INTO %s (note, alive_at) VALUES ('%s', %s)", t.table(markerTable), markerText, t.now()),
		fmt.Sprintf("CREATE TABLE %s (sku %s NOT NULL PRIMARY KEY, opening %s NOT NULL, units %[3]s NOT NULL)%s", t.table(inventoryTable), name, integer, end),
		fmt.Sprintf("CREATE TABLE %s (invoice %s NOT NULL, mark %[2]s NOT NULL, PRIMARY KEY (invoice, mark))%s", t.table(journalTable), name, end),
		fmt.Sprintf("CREATE TABLE %s (invoice %s NOT NULL, mark %[2]s NOT NULL, PRIMARY KEY (invoice, mark))%s", t.table(handledTable), name, end),
	)
}

// now is the database's clock in seconds.
func (t *tables) now() string {
	switch t.dialect {
	case schema.PostgreSQL:
		return "extract(epoch FROM clock_timestamp())::bigint"
	case schema.MariaDB:
		return "UNIX_TIMESTAMP()"
	}
	return "unixepoch()"
}

// existing lists the tables of the demo's schema or prefix.
func (t *tables) existing(ctx context.Context) ([]string, error) {
	query := map[schema.Dialect]string{
		schema.PostgreSQL: "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = '" + schemaName + "'",
		schema.MariaDB:    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
		schema.SQLite:     "SELECT name FROM sqlite_schema WHERE type = 'table'",
	}[t.dialect]
	rows, err := t.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if t.dialect == schema.PostgreSQL || strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, errors.Join(rows.Err(), rows.Close())
}

// dropOwn drops what an earlier demo left, the marker last.
func (t *tables) dropOwn(ctx context.Context) error {
	names, err := t.existing(ctx)
	if err != nil {
		return t.fail("can't list the tables", err)
	}
	if len(names) == 0 {
		return nil
	}
	marked := false
	for _, n := range names {
		marked = marked || n == t.names.Bare(t.dialect, markerTable)
	}
	foreign := fmt.Errorf("%s: %s exists (%s) and was not made by yekbar demo; it is left alone: drop it, or use another database", t.database, t.where(), strings.Join(names, ", "))
	if !marked {
		return foreign
	}
	var note string
	var age int64
	err = t.db.QueryRowContext(ctx, "SELECT note, "+t.now()+" - alive_at FROM "+t.table(markerTable)).Scan(&note, &age)
	if err != nil || note != markerText {
		return foreign
	}
	if age < aliveFor {
		return fmt.Errorf("%s: another yekbar demo uses %s (%d seconds ago it was alive): wait until it has ended, or use another database", t.database, t.where(), age)
	}
	drop := func(table string) error {
		if _, err := t.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+t.table(table)); err != nil {
			return t.fail("can't drop the table of an earlier demo", err)
		}
		return nil
	}
	for _, table := range []string{inventoryTable, journalTable, handledTable} {
		if err := drop(table); err != nil {
			return err
		}
	}
	if err := t.store.MigrateTo(ctx, 0); err != nil {
		return t.fail("can't drop Yekbar's tables of an earlier demo", err)
	}
	return drop(markerTable)
}

// keepAlive says every few seconds that the tables are in use, until ctx ends;
// then that they are not. A failed attempt is made up for by the next: when
// the database stays away, everything else says so.
func (t *tables) keepAlive(ctx context.Context) {
	for pause(ctx, beat*time.Second) == nil {
		_, _ = t.db.ExecContext(ctx, "UPDATE "+t.table(markerTable)+" SET alive_at = "+t.now())
	}
}

// release says that the tables are free.
func (t *tables) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachTimeout)
	defer cancel()
	if _, err := t.db.ExecContext(ctx, "UPDATE "+t.table(markerTable)+" SET alive_at = 0"); err != nil {
		return t.fail("can't mark the tables as free", err)
	}
	return nil
}
