package sqlstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// minPacket holds a batch of claims with the longest identities, in hex.
const minPacket = 1 << 20

func strictMode(mode string) bool {
	return strings.Contains(mode, "STRICT_TRANS_TABLES") || strings.Contains(mode, "STRICT_ALL_TABLES")
}

// tablesPostgreSQL verifies that IDs are compared byte for byte, that the one
// unique key is the claims' and not deferrable, and that nothing swallows or
// hides a row.
func (c *checking) tablesPostgreSQL() error {
	at := " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
	this := " WHERE n.nspname = $1 AND c.relname = $2"
	args := []any{c.names.SchemaName(), schema.ProcessedMessages}
	return firstError(
		func() error {
			return c.equal("key columns (name, type, length limit, byte-exact)", []string{"consumer_name text -1 true", "message_id text -1 true"},
				"SELECT pg_catalog.concat_ws(' ', a.attname, t.typname, a.atttypmod, CASE WHEN l.collisdeterministic THEN 'true' ELSE 'false' END)"+at+
					" JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid JOIN pg_catalog.pg_type t ON t.oid = a.atttypid LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation"+
					this+" AND a.attname IN ('consumer_name', 'message_id') ORDER BY a.attname", args...)
		},
		func() error {
			return c.equal("unique keys (columns, immediate, valid)", []string{"consumer_name,message_id t t"},
				"SELECT pg_catalog.concat_ws(' ', (SELECT pg_catalog.string_agg(a.attname, ',' ORDER BY k.n) FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY k(attnum, n) JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum),"+
					" i.indimmediate, i.indisvalid)"+at+" JOIN pg_catalog.pg_index i ON i.indrelid = c.oid"+this+" AND i.indisunique ORDER BY 1", args...)
		},
		func() error {
			return c.equal("triggers and rules, which can swallow a claim", nil,
				"SELECT t.tgname"+at+" JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid"+this+" AND NOT t.tgisinternal AND t.tgenabled <> 'D'"+
					" UNION ALL SELECT r.rulename"+at+" JOIN pg_catalog.pg_rewrite r ON r.ev_class = c.oid"+this+" ORDER BY 1", args...)
		},
		func() error {
			return c.equal("row level security, which can hide a claim", []string{"false"},
				"SELECT pg_catalog.row_security_active(c.oid)::pg_catalog.text"+at+this, args...)
		},
		func() error {
			missing, err := c.list("SELECT pg_catalog.format('%s on %I.%I', p.p, n.nspname, c.relname)"+at+", pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p(p)"+
				" WHERE n.nspname = $1 AND c.relname IN ('"+strings.Join(writtenTables(), "', '")+"') AND NOT pg_catalog.has_table_privilege(c.oid, p.p) ORDER BY 1",
				c.names.SchemaName())
			if err != nil {
				return c.failed("rights", err)
			}
			c.demand(len(missing) == 0, yekbar.ErrEnvironment, "rights are missing: GRANT %s", strings.Join(missing, ", "))
			return nil
		},
	)
}

// tablesMariaDB does the same, and demands an engine with transactions.
func (c *checking) tablesMariaDB() error {
	claims := c.names.Bare(schema.MariaDB, schema.ProcessedMessages)
	return firstError(
		func() error {
			return c.equal("key columns (name, type)", []string{"consumer_name varbinary(255)", "message_id varbinary(512)"},
				"SELECT CONCAT(COLUMN_NAME, ' ', COLUMN_TYPE) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND COLUMN_NAME IN ('consumer_name', 'message_id') ORDER BY COLUMN_NAME", claims)
		},
		func() error {
			return c.equal("unique keys", []string{"PRIMARY consumer_name,message_id"},
				"SELECT CONCAT(INDEX_NAME, ' ', GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX)) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND NON_UNIQUE = 0 GROUP BY INDEX_NAME ORDER BY 1", claims)
		},
		func() error {
			return c.equal("triggers, which can change a claim", nil,
				"SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ?", claims)
		},
		func() error {
			for _, table := range writtenTables() {
				engines, err := c.list("SELECT COALESCE(ENGINE, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", c.names.Bare(schema.MariaDB, table))
				if err != nil {
					return c.failed("engines", err)
				}
				c.demand(len(engines) == 1 && engines[0] == "InnoDB", yekbar.ErrSchema, "table %s has engine %q: InnoDB is needed (ALTER TABLE … ENGINE=InnoDB)", c.names.Table(schema.MariaDB, table), engines)
			}
			return nil
		},
	)
}

// tablesSQLite does the same; STRICT keeps one ID from being two rows, as text
// and as bytes.
func (c *checking) tablesSQLite() error {
	claims := c.names.Bare(schema.SQLite, schema.ProcessedMessages)
	return firstError(
		func() error {
			return c.equal("kind (WITHOUT ROWID, STRICT)", []string{"1 1"},
				"SELECT wr || ' ' || strict FROM pragma_table_list WHERE schema = 'main' AND name = ?", claims)
		},
		func() error {
			return c.equal("key columns (name, type, NOT NULL, place in the key)", []string{"consumer_name TEXT 1 1", "message_id TEXT 1 2"},
				"SELECT name || ' ' || type || ' ' || \"notnull\" || ' ' || pk FROM pragma_table_info(?, 'main') WHERE pk > 0 ORDER BY pk", claims)
		},
		func() error {
			return c.equal("unique keys (origin, columns and collations)", []string{"pk consumer_name BINARY,message_id BINARY"},
				"SELECT l.origin || ' ' || (SELECT group_concat(x.name || ' ' || x.coll) FROM (SELECT * FROM pragma_index_xinfo(l.name, 'main') WHERE key = 1 ORDER BY seqno) x)"+
					" FROM pragma_index_list(?, 'main') l WHERE l.\"unique\" = 1 ORDER BY 1", claims)
		},
		func() error {
			return c.equal("triggers, which can swallow a claim", nil,
				"SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", claims)
		},
	)
}

// writtenTables are those that a store writes after migrating.
func writtenTables() []string {
	return slices.DeleteFunc(schema.Tables(), func(table string) bool { return table == schema.SchemaVersion })
}

// firstError runs checks until one can't be made.
func firstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return fmt.Errorf("sqlstore: %w", err)
		}
	}
	return nil
}
