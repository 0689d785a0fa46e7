package integration

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

// TestPgxStoreSuite runs storetest in every query mode.
func TestPgxStoreSuite(t *testing.T) {
	for _, mode := range pgxModes {
		t.Run(mode.String(), func(t *testing.T) { storetest.Run(t, pgxFixture{mode: mode}.suite()) })
	}
}

// TestPgxStoreSuiteIsolation runs it at the levels that are not the default.
func TestPgxStoreSuiteIsolation(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			storetest.Run(t, pgxFixture{mode: pgx.QueryExecModeCacheStatement, config: pgxstore.Config{Isolation: level}}.suite())
		})
	}
}

// TestPgxStoreSuiteNames runs it in a schema that needs quotes.
func TestPgxStoreSuiteNames(t *testing.T) {
	storetest.Run(t, pgxFixture{mode: pgx.QueryExecModeSimpleProtocol, config: pgxstore.Config{Schema: `Msg-1 "it's"`}}.suite())
}

// TestPgxStoreSuitePgBouncer runs it through PgBouncer with transaction
// pooling, in the modes that need no prepared statements.
func TestPgxStoreSuitePgBouncer(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			storetest.Run(t, pgxFixture{database: servers.PgBouncer, mode: mode}.suite())
		})
	}
}
