package pgxstore_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
	"github.com/yekbar-go/yekbar/store/pgxstore"
	"github.com/yekbar-go/yekbar/worker"
)

// The first consumer, as the README has it: takeStock is all that is one's own.
func Example() {
	_ = run // needs a database and a broker: see the tests in internal/integration
}

func takeStock(ctx context.Context, tx pgx.Tx, m *yekbar.Message) error {
	_, err := tx.Exec(ctx, `UPDATE stock SET units = units - 1 WHERE sku = $1`, string(m.Payload))
	return err
}

func run(ctx context.Context, pool *pgxpool.Pool, source broker.Source) error {
	store := pgxstore.New(pool, pgxstore.Config{})
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	consumer, err := yekbar.NewConsumer("inventory", store, takeStock, yekbar.Config{})
	if err != nil {
		return err
	}
	w, err := worker.New(source, consumer, worker.Config{})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
