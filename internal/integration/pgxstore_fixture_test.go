package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/internal/integration/servers"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

// pgxModes are all query modes of pgx.
var pgxModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// pgxFixture is storetest's over pgxstore.
type pgxFixture struct {
	// database makes a fresh database; nil: a PostgreSQL of its own.
	database func(testing.TB) string
	mode     pgx.QueryExecMode
	config   pgxstore.Config
}

func (f pgxFixture) suite() storetest.Fixture[pgx.Tx] {
	open := func(conns int32) func(testing.TB) *storetest.Instance[pgx.Tx] {
		return func(t testing.TB) *storetest.Instance[pgx.Tx] { return f.instance(t, conns) }
	}
	return storetest.Fixture[pgx.Tx]{New: open(8), NewSingle: open(1), Dialect: "postgresql"}
}

// pool opens a pool in the fixture's mode.
func (f pgxFixture) pool(t testing.TB, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.MaxConns = conns
	c.ConnConfig.DefaultQueryExecMode = f.mode
	return openPool(t, c)
}

func openPool(t testing.TB, c *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (f pgxFixture) instance(t testing.TB, conns int32) *storetest.Instance[pgx.Tx] {
	t.Helper()
	database := f.database
	if database == nil {
		database = servers.PostgreSQL
	}
	url := database(t)
	pool := f.pool(t, url, conns)
	store := pgxstore.New(pool, f.config)
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	beside := pgxFixture{mode: pgx.QueryExecModeExec}.pool(t, url, 3)
	names := schema.Names{Schema: f.config.Schema}
	db := stdlib.OpenDBFromPool(beside)
	t.Cleanup(func() { _ = db.Close() }) // the pool is closed on its own
	i := &storetest.Instance[pgx.Tx]{
		Store: store,
		Begin: func(ctx context.Context) (pgx.Tx, func(context.Context, bool) error, error) {
			tx, err := pool.Begin(ctx)
			return tx, func(ctx context.Context, commit bool) error {
				if commit {
					return tx.Commit(ctx)
				}
				return tx.Rollback(ctx)
			}, err
		},
		Savepoint: func(ctx context.Context, tx pgx.Tx, fn func(context.Context, pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return fn(ctx, tx) })
		},
		Ends: map[string]func(context.Context, pgx.Tx) error{
			"Commit":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
			"Rollback": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
			"raw COMMIT through Conn": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Conn().Exec(ctx, "COMMIT")
				return err
			},
			"ROLLBACK and BEGIN through Conn": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Conn().Exec(ctx, "ROLLBACK; BEGIN")
				return err
			},
			"COMMIT AND CHAIN through Conn": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Conn().Exec(ctx, "COMMIT AND CHAIN")
				return err
			},
			"COMMIT in a batch": func(ctx context.Context, tx pgx.Tx) error {
				b := &pgx.Batch{}
				b.Queue("SELECT 1")
				b.Queue("COMMIT")
				return tx.SendBatch(ctx, b).Close()
			},
			"COMMIT prepared": func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Prepare(ctx, "ends", "COMMIT"); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "ends")
				return err
			},
			"COMMIT made by a rewriter": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT 1", rewriteTo("COMMIT"))
				return err
			},
		},
		Blocked: blockedIn(sqlstore.PostgreSQL, db),
	}
	storetest.SQL[pgx.Tx]{
		Dialect: "postgresql",
		Table:   func(table string) string { return names.Table(schema.PostgreSQL, table) },
		Exec: func(ctx context.Context, tx pgx.Tx, text string) error {
			_, err := tx.Exec(ctx, text)
			return err
		},
		Outside: func(ctx context.Context, text string) error {
			_, err := beside.Exec(ctx, text)
			return err
		},
		Number: func(ctx context.Context, text string) (n int, err error) {
			err = beside.QueryRow(ctx, text).Scan(&n)
			return n, err
		},
	}.Fill(t, i)
	return i
}

// rewriteTo is a query rewriter that makes another statement.
type rewriteTo string

func (r rewriteTo) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

// A shop is a migrated store over a database with a stock table.
type shop struct {
	testing.TB
	url    string
	pool   *pgxpool.Pool
	beside *pgxpool.Pool // sees what was committed, whatever happens to pool
	store  *pgxstore.Store
}

// openShop opens a shop over the database at url; through is where the store's
// own pool connects, url itself when empty.
func openShop(t testing.TB, url, through string, change func(*pgxpool.Config)) *shop {
	t.Helper()
	if through == "" {
		through = url
	}
	c, err := pgxpool.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	c.MaxConns = 8
	if change != nil {
		change(c)
	}
	s := &shop{TB: t, url: url, pool: openPool(t, c), beside: pgxFixture{mode: pgx.QueryExecModeExec}.pool(t, url, 4)}
	s.store = pgxstore.New(s.pool, pgxstore.Config{})
	if err := pgxstore.New(s.beside, pgxstore.Config{}).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.exec("CREATE TABLE public.stock (sku text PRIMARY KEY, units integer NOT NULL); INSERT INTO stock VALUES ('tea', 100)")
	return s
}

func newShop(t testing.TB) *shop {
	t.Helper()
	return openShop(t, servers.PostgreSQL(t), "", nil)
}

// exec executes statements beside the store.
func (s *shop) exec(sql string) {
	s.Helper()
	if _, err := s.beside.Exec(context.WithoutCancel(s.Context()), sql); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

func (s *shop) number(sql string, args ...any) (n int) {
	s.Helper()
	if err := s.beside.QueryRow(context.WithoutCancel(s.Context()), sql, args...).Scan(&n); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return n
}

// takeOne is a handler: one unit less.
func takeOne(ctx context.Context, tx pgx.Tx, _ []int) error {
	_, err := tx.Exec(ctx, "UPDATE stock SET units = units - 1 WHERE sku = 'tea'")
	return err
}

func shopClaim(id string) []yekbar.Claim {
	return []yekbar.Claim{{Consumer: "shop", MessageID: id, Fingerprint: []byte{1, 2, 3}, Wait: longWait}}
}

// wantStored compares claims and stock: n messages took effect.
func (s *shop) wantStored(n int) {
	s.Helper()
	claims, taken := s.number("SELECT count(*) FROM yekbar.processed_messages"), s.number("SELECT 100 - units FROM stock WHERE sku = 'tea'")
	if claims != n || taken != n {
		s.Errorf("%d claims and %d units taken, want %d of each", claims, taken, n)
	}
}

// wantIs compares an error with a sentinel.
func wantIs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// longWait is a Claim.Wait that only a stuck test reaches.
const longWait = 10 * time.Second
