package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// Config configures a Store; the zero value is ready for use.
type Config struct {
	Schema    string         // of Yekbar's tables; default "yekbar"
	Isolation pgx.TxIsoLevel // of attempts; default the server's
}

// Bounds of what runs when the caller's context may have ended.
const (
	commitTimeout   = 15 * time.Second
	rollbackTimeout = 5 * time.Second
)

// A Store is a yekbar.Store over a pool, which stays the caller's to close. It
// is safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	config Config
	names  schema.Names
	sql    statements
	owner  string // of leases

	mu  sync.Mutex
	old []int64 // tokens of lost transactions
}

var (
	_ yekbar.Store[pgx.Tx]  = (*Store)(nil)
	_ yekbar.StatementStore = (*Store)(nil)
	_ yekbar.HoldingStore   = (*Store)(nil)
	_ yekbar.AttemptStore   = (*Store)(nil)
	_ yekbar.OperatorStore  = (*Store)(nil)
	_ yekbar.HeldCounter    = (*Store)(nil)
	_ yekbar.RetentionStore = (*Store)(nil)
	_ yekbar.RegistryStore  = (*Store)(nil)
	_ yekbar.PositionStore  = (*Store)(nil)
	_ yekbar.Migrator       = (*Store)(nil)
	_ yekbar.Checker        = (*Store)(nil)
	_ yekbar.Validator      = (*Store)(nil)
)

// New returns a store; it connects to nothing. NewConsumer reports what is
// wrong with c.
func New(pool *pgxpool.Pool, c Config) *Store {
	names := schema.Names{Schema: c.Schema}
	return &Store{pool: pool, config: c, names: names, sql: newStatements(names), owner: processName()}
}

// Validate implements yekbar.Validator.
func (s *Store) Validate() error {
	var errs []error
	if s.pool == nil {
		errs = append(errs, errors.New("pgxstore: the pool is nil"))
	}
	if err := s.names.Validate(schema.PostgreSQL); err != nil {
		errs = append(errs, fmt.Errorf("pgxstore: Config.Schema: %w", err))
	}
	levels := []pgx.TxIsoLevel{"", pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	if !slices.Contains(levels, s.config.Isolation) {
		errs = append(errs, fmt.Errorf("pgxstore: Config.Isolation is %q: use one of pgx's constants, or nothing for the server's default", s.config.Isolation))
	}
	return errors.Join(errs...)
}

// Features implements yekbar.Store.
func (s *Store) Features() yekbar.Features {
	return yekbar.Features{
		Batch: true, Savepoints: true, Statements: true, LockWait: true, Durable: true,
		Attempts: true, Holding: true, Operator: true, Retention: true, Registry: true, Positions: true,
	}
}

// Attempt implements yekbar.Store.
func (s *Store) Attempt(ctx context.Context, claims []yekbar.Claim, fn func(ctx context.Context, tx pgx.Tx, fresh []int) error) ([]yekbar.Claimed, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	a, err := s.begin(ctx, s.config.Isolation, claims)
	if err != nil {
		return nil, err
	}
	defer a.release()
	if len(a.fresh) == 0 {
		return a.claimed, a.rollback(ctx)
	}
	if err := a.run(ctx, func() error { return fn(ctx, a.tx, a.fresh) }); err != nil {
		return nil, err
	}
	return a.claimed, nil
}

// InTx runs fn in a transaction of the store's, with a handler's guards and no
// claim. On an error nothing is stored, or the error is
// yekbar.ErrCommitUnknown or a *yekbar.BoundaryError that says Escaped.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.inTx(ctx, s.config.Isolation, fn)
}

func (s *Store) inTx(ctx context.Context, level pgx.TxIsoLevel, fn func(ctx context.Context, tx pgx.Tx) error) error {
	a, err := s.begin(ctx, level, nil)
	if err != nil {
		return err
	}
	defer a.release()
	return a.run(ctx, func() error { return fn(ctx, a.tx) })
}
