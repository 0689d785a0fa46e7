package integration

import (
	"errors"
	"fmt"
	"testing"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// Check finds everything that would make a claim lie.
func TestSQLStoreCheck(t *testing.T) {
	t.Parallel()
	type wrong map[string][]string
	pg := wrong{
		"a trigger that swallows the claim": {
			"CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"CREATE TRIGGER swallow BEFORE INSERT ON yekbar.processed_messages FOR EACH ROW EXECUTE FUNCTION swallow()",
		},
		"a rule": {"CREATE RULE swallow AS ON INSERT TO yekbar.processed_messages DO INSTEAD NOTHING"},
		"a deferrable key": {
			"ALTER TABLE yekbar.processed_messages DROP CONSTRAINT processed_messages_pkey",
			"ALTER TABLE yekbar.processed_messages ADD PRIMARY KEY (consumer_name, message_id) DEFERRABLE",
		},
		"no key":             {"ALTER TABLE yekbar.processed_messages DROP CONSTRAINT processed_messages_pkey"},
		"another unique key": {"CREATE UNIQUE INDEX ON yekbar.processed_messages (fingerprint)"},
		"a length limit":     {"ALTER TABLE yekbar.processed_messages ALTER message_id TYPE varchar(20)"},
		"a collation that merges case": {
			"CREATE COLLATION merges (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
			"ALTER TABLE yekbar.processed_messages ALTER message_id TYPE text COLLATE merges",
		},
		"newer tables":  {"UPDATE yekbar.schema_version SET version = 99, min_compatible = 99"},
		"missing table": {"DROP TABLE yekbar.schema_version"},
	}
	maria := wrong{
		"a trigger":            {"CREATE TRIGGER swallow BEFORE INSERT ON yekbar_processed_messages FOR EACH ROW SET NEW.message_id = 'x'"},
		"an ID that pads":      {"ALTER TABLE yekbar_processed_messages MODIFY message_id VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"},
		"an ID that is cut":    {"ALTER TABLE yekbar_processed_messages MODIFY message_id VARBINARY(20) NOT NULL"},
		"no key":               {"ALTER TABLE yekbar_processed_messages DROP PRIMARY KEY"},
		"another unique key":   {"ALTER TABLE yekbar_processed_messages ADD UNIQUE (fingerprint)"},
		"no transactions":      {"ALTER TABLE yekbar_processed_messages ENGINE=MyISAM"},
		"results of no engine": {"ALTER TABLE yekbar_results ENGINE=MyISAM"},
		"newer tables":         {"UPDATE yekbar_schema_version SET version = 99, min_compatible = 99"},
	}
	lite := wrong{
		"a trigger": {"CREATE TRIGGER swallow BEFORE INSERT ON yekbar_processed_messages BEGIN SELECT RAISE(IGNORE); END"},
		"not strict": {"DROP TABLE yekbar_processed_messages",
			"CREATE TABLE yekbar_processed_messages (consumer_name TEXT NOT NULL, message_id TEXT NOT NULL, state TEXT NOT NULL, fingerprint BLOB, processed_at TEXT, PRIMARY KEY (consumer_name, message_id)) WITHOUT ROWID"},
		"a collation that merges case": {"DROP TABLE yekbar_processed_messages",
			"CREATE TABLE yekbar_processed_messages (consumer_name TEXT NOT NULL, message_id TEXT NOT NULL COLLATE NOCASE, state TEXT NOT NULL, fingerprint BLOB, processed_at TEXT, PRIMARY KEY (consumer_name, message_id)) STRICT, WITHOUT ROWID"},
		"another unique key": {"CREATE UNIQUE INDEX another ON yekbar_processed_messages (fingerprint)"},
		"newer tables":       {"UPDATE yekbar_schema_version SET version = 99, min_compatible = 99"},
	}
	eachDriver(t, func(t *testing.T, d sqlDriver) {
		for name, texts := range map[sqlstore.Dialect]wrong{sqlstore.PostgreSQL: pg, sqlstore.MariaDB: maria, sqlstore.SQLite: lite}[d.dialect] {
			t.Run(name, func(t *testing.T) {
				s, db := d.store(t, sqlstore.Config{})
				if err := s.Check(t.Context()); err != nil {
					t.Fatalf("before: %v", err)
				}
				for _, text := range texts {
					if _, err := db.ExecContext(t.Context(), text); err != nil {
						t.Fatalf("%s: %v", text, err)
					}
				}
				err := s.Check(t.Context())
				if !errors.Is(err, yekbar.ErrSchema) || yekbar.CountsAsAttempt(err) {
					t.Errorf("Check: %v", err)
				}
			})
		}
		t.Run("newer and compatible", func(t *testing.T) {
			s, db := d.store(t, sqlstore.Config{})
			table := schema.Names{}.Table(schema.Dialect(d.dialect.String()), schema.SchemaVersion)
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s SET version = %d", table, schema.Version+1)); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
		})
	})
}

// A search_path that names another schema first changes nothing.
func TestSQLStoreSearchPath(t *testing.T) {
	t.Parallel()
	s := newSQLTest(t, driverNamed(t, "pgx"), sqlFixture{})
	s.outside("CREATE SCHEMA other")
	s.outside("CREATE TABLE other.processed_messages (LIKE yekbar.processed_messages)")
	s.outside("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = other, public', current_database()); END $$")
	s.settle("m-0")
	if !s.settle("m-1") || s.settle("m-1") {
		t.Error("not applied once")
	}
	s.want("m-1", 2, 1)
}
