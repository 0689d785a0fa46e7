package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar/store/pgxstore"
)

// Schema is where the bench keeps its tables; the claims are in a second one,
// of the store's own shape.
const (
	Schema       = "yekbar_bench"
	claimsSchema = "yekbar_bench_claims"
)

// workload is the tables that every style works on.
type workload struct {
	pool *pgxpool.Pool
	rows int
}

func (w *workload) stock() string { return pgx.Identifier{Schema, "stock"}.Sanitize() }
func (w *workload) claims() string {
	return pgx.Identifier{claimsSchema, "processed_messages"}.Sanitize()
}

func (w *workload) create(ctx context.Context) error {
	if err := w.drop(ctx); err != nil {
		return err
	}
	for _, sql := range []string{
		"CREATE SCHEMA " + Schema,
		"CREATE TABLE " + w.stock() + " (id int PRIMARY KEY, units bigint NOT NULL) WITH (fillfactor = 50)",
		fmt.Sprintf("INSERT INTO %s SELECT i, 0 FROM generate_series(1, %d) i", w.stock(), w.rows),
		"CREATE SCHEMA " + claimsSchema,
	} {
		if _, err := w.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("creating the bench's tables: %w", err)
		}
	}
	return pgxstore.New(w.pool, pgxstore.Config{Schema: claimsSchema}).Migrate(ctx)
}

func (w *workload) drop(ctx context.Context) error {
	var errs []error
	for _, schema := range []string{Schema, claimsSchema} {
		if _, err := w.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			errs = append(errs, fmt.Errorf("dropping the bench's schema %s: %w", schema, err))
		}
	}
	return errors.Join(errs...)
}

// reset lets every style begin with the same tables.
func (w *workload) reset(ctx context.Context) error {
	if _, err := w.pool.Exec(ctx, "TRUNCATE "+w.claims()); err != nil {
		return err
	}
	_, err := w.pool.Exec(ctx, "VACUUM "+w.stock())
	return err
}

func (w *workload) server(ctx context.Context) (version string, durable bool, err error) {
	err = w.pool.QueryRow(ctx, `SELECT version(), current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'`).Scan(&version, &durable)
	return version, durable, err
}
