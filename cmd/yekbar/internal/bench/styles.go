package bench

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// A style is a way to process messages, with clients connections of its own.
type style func(ctx context.Context, w *workload, clients int) (process, func() error, error)

var styles = map[string]style{
	"no claim":     noClaim,
	"hand-written": handWritten,
	"ordinary":     ordinary,
	"queued":       queued,
	"single":       single,
	"duplicates":   duplicates,
	"database/sql": databaseSQL,
}

// Styles lists the styles there are.
func Styles() []string { return slices.Sorted(maps.Keys(styles)) }

func (w *workload) connect(ctx context.Context, clients int) (*pgxpool.Pool, error) {
	c := w.pool.Config()
	c.MaxConns, c.MinConns = int32(clients), int32(clients)
	return pgxpool.NewWithConfig(ctx, c)
}

func closing(pool *pgxpool.Pool) func() error {
	return func() error {
		pool.Close()
		return nil
	}
}

func (w *workload) take() string {
	return "UPDATE " + w.stock() + " SET units = units - 1 WHERE id = $1::text::int"
}

// noClaim is the business transaction alone, as one would write it with pgx.
func noClaim(ctx context.Context, w *workload, clients int) (process, func() error, error) {
	pool, err := w.connect(ctx, clients)
	if err != nil {
		return nil, nil, err
	}
	take := w.take()
	return func(ctx context.Context, m *yekbar.Message) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, take, string(m.Payload))
			return err
		})
	}, closing(pool), nil
}

// handWritten is what a careful engineer writes in an afternoon: four round
// trips.
func handWritten(ctx context.Context, w *workload, clients int) (process, func() error, error) {
	pool, err := w.connect(ctx, clients)
	if err != nil {
		return nil, nil, err
	}
	take := w.take()
	claim := "INSERT INTO " + w.claims() + " (consumer_name, message_id, state, fingerprint) VALUES ('bench', $1, 'applied', $2) ON CONFLICT DO NOTHING"
	return func(ctx context.Context, m *yekbar.Message) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, claim, m.ID, m.Fingerprint())
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
			_, err = tx.Exec(ctx, take, string(m.Payload))
			return err
		})
	}, closing(pool), nil
}

// consumer makes the process of a consumer over the store.
func (w *workload) consumer(ctx context.Context, clients int, over func(*pgxstore.Store) (*yekbar.Consumer[pgx.Tx], error)) (process, func() error, error) {
	pool, err := w.connect(ctx, clients)
	if err != nil {
		return nil, nil, err
	}
	c, err := over(pgxstore.New(pool, pgxstore.Config{Schema: claimsSchema}))
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return func(ctx context.Context, m *yekbar.Message) error {
		_, err := c.Process(ctx, m)
		return err
	}, closing(pool), nil
}

// ordinary is a handler that executes one statement.
func ordinary(ctx context.Context, w *workload, clients int) (process, func() error, error) {
	take := w.take()
	return w.consumer(ctx, clients, func(s *pgxstore.Store) (*yekbar.Consumer[pgx.Tx], error) {
		return yekbar.NewConsumer("bench", s, func(ctx context.Context, tx pgx.Tx, m *yekbar.Message) error {
			_, err := tx.Exec(ctx, take, string(m.Payload))
			return err
		}, yekbar.Config{})
	})
}

// queued is a handler whose statement travels with COMMIT.
func queued(ctx context.Context, w *workload, clients int) (process, func() error, error) {
	take := w.take()
	return w.consumer(ctx, clients, func(s *pgxstore.Store) (*yekbar.Consumer[pgx.Tx], error) {
		return yekbar.NewConsumer("bench", s, func(ctx context.Context, tx pgx.Tx, m *yekbar.Message) error {
			return pgxstore.Queue(ctx, tx, yekbar.Statement{SQL: take, Args: []any{string(m.Payload)}})
		}, yekbar.Config{})
	})
}

// single is a StatementHandler: claim, change and COMMIT in one round trip.
func single(ctx context.Context, w *workload, clients int) (process, func() error, error) {
	take := w.take()
	return w.consumer(ctx, clients, func(s *pgxstore.Store) (*yekbar.Consumer[pgx.Tx], error) {
		return yekbar.NewStatementConsumer("bench", s, func(_ context.Context, m *yekbar.Message) ([]yekbar.Statement, error) {
			return []yekbar.Statement{{SQL: take, Args: []any{string(m.Payload)}}}, nil
		}, yekbar.Config{})
	})
}

// duplicates processes the same thousand messages over and over.
func duplicates(ctx context.Context, w *workload, clients int) (process, func() error, error) {
	take := w.take()
	process, closeStyle, err := w.consumer(ctx, clients, func(s *pgxstore.Store) (*yekbar.Consumer[pgx.Tx], error) {
		return yekbar.NewConsumer("bench", s, func(ctx context.Context, tx pgx.Tx, m *yekbar.Message) error {
			_, err := tx.Exec(ctx, take, string(m.Payload))
			return err
		}, yekbar.Config{})
	})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, m *yekbar.Message) error {
		m.ID = m.OrderingKey[:min(3, len(m.OrderingKey))]
		m.Payload = []byte(m.ID)
		return process(ctx, m)
	}, closeStyle, nil
}

// databaseSQL is ordinary, with database/sql over pgx.
func databaseSQL(_ context.Context, w *workload, clients int) (process, func() error, error) {
	db := sql.OpenDB(sqlstore.Guard(stdlib.GetConnector(*w.pool.Config().ConnConfig)))
	db.SetMaxOpenConns(clients)
	db.SetMaxIdleConns(clients)
	take := w.take()
	c, err := yekbar.NewConsumer("bench", sqlstore.New(db, sqlstore.PostgreSQL, sqlstore.Config{Schema: claimsSchema}),
		func(ctx context.Context, tx *sql.Tx, m *yekbar.Message) error {
			_, err := tx.ExecContext(ctx, take, string(m.Payload))
			return err
		}, yekbar.Config{})
	return func(ctx context.Context, m *yekbar.Message) error {
		_, err := c.Process(ctx, m)
		return err
	}, db.Close, err
}
