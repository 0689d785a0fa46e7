package integration

import (
	"database/sql"
	"testing"

	"github.com/yekbar-go/yekbar/store/sqlstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

// TestSQLStoreSuite runs storetest on every driver.
func TestSQLStoreSuite(t *testing.T) {
	for _, d := range sqlDrivers {
		t.Run(d.name, func(t *testing.T) { storetest.Run(t, sqlFixture{sqlDriver: d}.suite()) })
	}
}

// TestSQLStoreSuiteIsolation runs it at the levels that are not the default.
func TestSQLStoreSuiteIsolation(t *testing.T) {
	for _, name := range []string{"pgx", "mysql"} {
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			t.Run(name+", "+level.String(), func(t *testing.T) {
				storetest.Run(t, sqlFixture{sqlDriver: driverNamed(t, name), config: sqlstore.Config{Isolation: level}}.suite())
			})
		}
	}
}

// TestSQLStoreSuiteUnguarded runs it over plain *sql.DBs, where PostgreSQL
// keeps the rules by itself.
func TestSQLStoreSuiteUnguarded(t *testing.T) {
	for _, name := range []string{"pgx", "pq"} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, sqlFixture{sqlDriver: driverNamed(t, name), unguarded: true}.suite())
		})
	}
}

// TestSQLStoreSuiteNames runs it with another schema and another prefix.
func TestSQLStoreSuiteNames(t *testing.T) {
	for _, name := range []string{"pgx", "mysql", "modernc"} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, sqlFixture{sqlDriver: driverNamed(t, name), config: sqlstore.Config{Schema: `Odd "schema"`, Prefix: "odd_"}}.suite())
		})
	}
}
