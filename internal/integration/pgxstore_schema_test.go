package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/schema"
)

func TestPgxStoreCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const processed = "yekbar.processed_messages"
	for _, c := range []struct {
		name, sql string
		is        error
		mend      string
	}{
		{"nothing", "SELECT 1", nil, ""},
		{"newer, compatible", "UPDATE yekbar.schema_version SET version = 7", nil, ""},
		{"newer", "UPDATE yekbar.schema_version SET version = 7, min_compatible = 6", yekbar.ErrSchema, "upgrade"},
		{"older", "UPDATE yekbar.schema_version SET version = 0", yekbar.ErrSchema, "run yekbar migrate"},
		{"missing", "DROP TABLE yekbar.schema_version", yekbar.ErrSchema, "run yekbar migrate"},
		{"version unknown", "DELETE FROM yekbar.schema_version", yekbar.ErrSchema, "put back its row"},
		{"citext", "CREATE EXTENSION citext; ALTER TABLE " + processed + " ALTER message_id TYPE citext", yekbar.ErrSchema, `TYPE text COLLATE "C"`},
		{"char(n)", "ALTER TABLE " + processed + " ALTER message_id TYPE char(200)", yekbar.ErrSchema, `TYPE text COLLATE "C"`},
		{"collation that is not deterministic", `CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
			ALTER TABLE ` + processed + ` ALTER message_id TYPE text COLLATE loose`, yekbar.ErrSchema, `TYPE text COLLATE "C"`},
		{"column missing", "ALTER TABLE yekbar.held_messages DROP raw", yekbar.ErrSchema, "no column raw"},
		{"key deferrable", "ALTER TABLE " + processed + " DROP CONSTRAINT processed_messages_pkey; ALTER TABLE " + processed +
			" ADD PRIMARY KEY (consumer_name, message_id) DEFERRABLE", yekbar.ErrSchema, "deferrable"},
		{"unlogged", "ALTER TABLE " + processed + " SET UNLOGGED", yekbar.ErrSchema, "SET LOGGED"},
		{"table missing", "DROP TABLE yekbar.results", yekbar.ErrSchema, "has no column result"},
		{"key of one column", "ALTER TABLE " + processed + " DROP CONSTRAINT processed_messages_pkey; ALTER TABLE " + processed +
			" ADD PRIMARY KEY (message_id)", yekbar.ErrSchema, "PRIMARY KEY (consumer_name, message_id)"},
		{"no key", "ALTER TABLE " + processed + " DROP CONSTRAINT processed_messages_pkey", yekbar.ErrSchema, "no primary key"},
		{"key with another name", "ALTER TABLE " + processed + " RENAME CONSTRAINT processed_messages_pkey TO mine", yekbar.ErrSchema, "RENAME CONSTRAINT"},
		{"trigger", `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER gulp BEFORE INSERT ON ` + processed + ` FOR EACH ROW EXECUTE FUNCTION swallow()`, yekbar.ErrSchema, `DROP TRIGGER "gulp"`},
		{"trigger that does no harm", `CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER look AFTER INSERT ON ` + processed + ` FOR EACH ROW EXECUTE FUNCTION look()`, nil, ""},
		{"rule", "CREATE RULE gulp AS ON INSERT TO " + processed + " DO INSTEAD NOTHING", yekbar.ErrSchema, `DROP RULE "gulp"`},
		{"read-only", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$", yekbar.ErrEnvironment, "default_transaction_read_only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.exec(c.sql)
			s.pool.Reset()
			err := s.store.Check(t.Context())
			if c.is == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.mend) {
				t.Errorf("error %v; want %v with %q", err, c.is, c.mend)
			}
			if yekbar.CountsAsAttempt(err) {
				t.Error("it counts as an attempt")
			}
		})
	}
}

// What Check finds would lose messages: the trigger's claim vanishes, and the
// attempt must not be applied without it.
func TestPgxStoreSwallowedClaimIsNotApplied(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER gulp BEFORE INSERT ON yekbar.processed_messages FOR EACH ROW EXECUTE FUNCTION swallow()`)
	_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), takeOne)
	wantIs(t, err, yekbar.ErrTransient)
	_, err = s.store.AttemptStatements(t.Context(), shopClaim("m-1"), [][]yekbar.Statement{{{SQL: "UPDATE stock SET units = units - 1"}}})
	wantIs(t, err, yekbar.ErrSchema)
	s.wantStored(0)
}

func TestPgxStoreRights(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgreSQL(t, servers.Options{})
	s := openShop(t, server.NewDatabase(t), "", nil)
	s.exec("CREATE ROLE clerk LOGIN PASSWORD 'clerk'; GRANT USAGE ON SCHEMA yekbar TO clerk; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA yekbar TO clerk; CREATE SCHEMA theirs AUTHORIZATION clerk")
	pool := s.as("clerk")
	err := pgxstore.New(pool, pgxstore.Config{}).Check(t.Context())
	if !errors.Is(err, yekbar.ErrEnvironment) || !strings.Contains(err.Error(), "UPDATE, DELETE") {
		t.Errorf("without UPDATE and DELETE: %v", err)
	}
	s.exec("GRANT UPDATE, DELETE ON ALL TABLES IN SCHEMA yekbar TO clerk; GRANT SELECT, UPDATE ON stock TO clerk")
	if err := pgxstore.New(pool, pgxstore.Config{}).Check(t.Context()); err != nil {
		t.Errorf("with DML rights: %v", err)
	}
	if got, err := pgxstore.New(pool, pgxstore.Config{}).Attempt(t.Context(), shopClaim("m-1"), takeOne); err != nil || !got[0].Fresh {
		t.Errorf("with DML rights: %+v, %v", got, err)
	}
	// A schema that is there is used without the right to create one.
	theirs := pgxstore.New(pool, pgxstore.Config{Schema: "theirs"})
	if err := errors.Join(theirs.Migrate(t.Context()), theirs.Check(t.Context()), theirs.MigrateTo(t.Context(), 0)); err != nil {
		t.Errorf("in a schema of the role's own: %v", err)
	}
	if s.number("SELECT count(*) FROM pg_namespace WHERE nspname = 'theirs'") != 1 {
		t.Error("a schema that Yekbar had not created is gone")
	}
	err = pgxstore.New(pool, pgxstore.Config{Schema: "nowhere"}).Migrate(t.Context())
	wantIs(t, err, yekbar.ErrEnvironment)
}

// as opens a pool as another role.
func (s *shop) as(role string) *pgxpool.Pool {
	s.Helper()
	c, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		s.Fatal(err)
	}
	c.ConnConfig.User, c.ConnConfig.Password = role, role
	return openPool(s, c)
}

func TestPgxStoreMigrate(t *testing.T) {
	t.Parallel()
	for _, database := range []func(testing.TB) string{servers.PostgreSQL, servers.PgBouncer} {
		pool := pgxFixture{mode: pgx.QueryExecModeExec}.pool(t, database(t), 10)
		store := pgxstore.New(pool, pgxstore.Config{Schema: "Msg-1"})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := store.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if have, want, err := store.SchemaVersion(t.Context()); have != schema.Version || want != schema.Version || err != nil {
			t.Errorf("version %d of %d, %v", have, want, err)
		}
		if err := store.Check(t.Context()); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := store.MigrateTo(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
		if have, _, err := store.SchemaVersion(t.Context()); have != 0 || err != nil {
			t.Errorf("version %d, %v after going down", have, err)
		}
		var left int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname = 'Msg-1'`).Scan(&left); err != nil || left != 0 {
			t.Errorf("down leaves the schema: %d, %v", left, err)
		}
		wantIs(t, store.Check(t.Context()), yekbar.ErrSchema)
	}
}

func TestPgxStoreMigrateNeverGoesBack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("UPDATE yekbar.schema_version SET version = 7")
	if err := s.store.Migrate(t.Context()); err != nil {
		t.Errorf("newer and compatible: %v", err)
	}
	s.exec("UPDATE yekbar.schema_version SET min_compatible = 7")
	wantIs(t, s.store.Migrate(t.Context()), yekbar.ErrSchema)
	wantIs(t, s.store.MigrateTo(t.Context(), 1), yekbar.ErrSchema)
	if s.number("SELECT version FROM yekbar.schema_version") != 7 {
		t.Error("the version went back")
	}
}

// Tables and constraints of our names, elsewhere in the search path, are not
// ours.
func TestPgxStoreSearchPath(t *testing.T) {
	t.Parallel()
	url := servers.PostgreSQL(t)
	s := openShop(t, url, "", func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "decoy, public" })
	s.exec(`CREATE SCHEMA decoy; CREATE TABLE decoy.processed_messages (consumer_name text, message_id text, PRIMARY KEY (consumer_name, message_id));
		INSERT INTO decoy.processed_messages VALUES ('shop', 'm-1')`)
	collide := "INSERT INTO processed_messages VALUES ('shop', 'm-1')" // 23505 on decoy's processed_messages_pkey
	_, err := s.store.Attempt(t.Context(), shopClaim("m-1"), func(ctx context.Context, tx pgx.Tx, _ []int) error {
		_, err := tx.Exec(ctx, collide)
		return err
	})
	if err == nil || !yekbar.CountsAsAttempt(err) {
		t.Errorf("a collision in another schema: %v", err)
	}
	got, err := s.store.AttemptStatements(t.Context(), shopClaim("m-1"), [][]yekbar.Statement{{{SQL: collide}}})
	if err == nil {
		t.Errorf("a collision in another schema was answered with %+v", got)
	}
	s.wantStored(0)
	if got, err := s.store.Attempt(t.Context(), shopClaim("m-1"), takeOne); err != nil || !got[0].Fresh {
		t.Errorf("%+v, %v", got, err)
	}
	s.wantStored(1)
}

// A claim whose own trigger collides elsewhere is no duplicate.
func TestPgxStoreTriggersCollisionIsNoDuplicate(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`CREATE SCHEMA decoy; CREATE TABLE decoy.processed_messages (consumer_name text, message_id text, PRIMARY KEY (consumer_name, message_id));
		INSERT INTO decoy.processed_messages VALUES ('shop', 'm-1');
		CREATE FUNCTION copy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO decoy.processed_messages VALUES (NEW.consumer_name, NEW.message_id); RETURN NULL; END';
		CREATE TRIGGER copy AFTER INSERT ON yekbar.processed_messages FOR EACH ROW EXECUTE FUNCTION copy()`)
	if got, err := s.store.Attempt(t.Context(), shopClaim("m-1"), takeOne); err == nil {
		t.Errorf("answered with %+v", got)
	}
	if got, err := s.store.AttemptStatements(t.Context(), shopClaim("m-1"), [][]yekbar.Statement{{}}); err == nil {
		t.Errorf("statements: answered with %+v", got)
	}
	s.wantStored(0)
}

func TestPgxStorePoolerWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgreSQL(t, servers.Options{})
	bouncer := servers.StartPgBouncer(t, servers.Options{Upstream: server.URL()})
	url := bouncer.NewDatabase(t)
	open := func(mode pgx.QueryExecMode) *pgxstore.Store {
		return pgxstore.New(pgxFixture{mode: mode}.pool(t, url, 4), pgxstore.Config{})
	}
	if err := open(pgx.QueryExecModeExec).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := open(pgx.QueryExecModeCacheStatement).Check(t.Context())
	if !errors.Is(err, yekbar.ErrEnvironment) || !strings.Contains(err.Error(), "default_query_exec_mode") {
		t.Errorf("error %v; want ErrEnvironment with the mend", err)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		if err := open(mode).Check(t.Context()); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

func TestPgxStoreUnreachable(t *testing.T) {
	t.Parallel()
	c, err := pgxpool.ParseConfig("postgres://clerk:s3cret@127.0.0.1:1/shop?connect_timeout=2")
	if err != nil {
		t.Fatal(err)
	}
	store := pgxstore.New(openPool(t, c), pgxstore.Config{})
	for name, run := range map[string]func() error{
		"Attempt": func() error { _, err := store.Attempt(t.Context(), shopClaim("m-1"), takeOne); return err },
		"Check":   func() error { return store.Check(t.Context()) },
		"Migrate": func() error { return store.Migrate(t.Context()) },
		"Hold":    func() error { _, err := store.Hold(t.Context(), heldTea()); return err },
	} {
		err := run()
		wantIs(t, err, yekbar.ErrUnavailable)
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s shows the password: %v", name, err)
		}
	}
	if err := pgxstore.New(nil, pgxstore.Config{Schema: strings.Repeat("x", 64), Isolation: "chaos"}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "pool") || !strings.Contains(err.Error(), "Schema") || !strings.Contains(err.Error(), "Isolation") {
		t.Errorf("Validate: %v", err)
	}
}
