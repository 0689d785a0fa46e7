// Package sqlstore keeps claims through database/sql: in PostgreSQL (pgx's
// stdlib, lib/pq), MariaDB and MySQL (go-sql-driver/mysql) and SQLite
// (modernc.org/sqlite, mattn/go-sqlite3). Handlers get a real *sql.Tx:
//
//	db, err := sqlstore.Open("sqlite", "shop.db")
//	…
//	store := sqlstore.New(db, sqlstore.SQLite, sqlstore.Config{})
//	err = store.Migrate(ctx)
//	…
//	consumer, err := yekbar.NewConsumer("inventory", store, takeStock, yekbar.Config{})
//
// Open puts a guard between database/sql and the driver. In a handler's
// transaction, and only there, it refuses what would end the transaction
// (Commit, Rollback, raw COMMIT and the like, and what MariaDB commits
// implicitly), finds out afterwards when a procedure did, and makes every
// database do what PostgreSQL does after a failed statement: nothing more is
// executed until a ROLLBACK TO a savepoint that was set before, and COMMIT is
// refused. GORM, ent, bun, sqlx and sqlc work over it without knowing.
//
// # PostgreSQL
//
// A *sql.DB without a guard is accepted too, for PostgreSQL aborts a
// transaction by itself, and COMMIT is sent with a proof that the transaction
// is still the claim's. With the guard what breaks the boundary is refused
// before it is sent, and a round trip is saved.
//
// A cancelled wait for a synchronous standby makes COMMIT succeed with a
// warning, which database/sql shows to nobody: where acknowledged must mean
// replicated, use the package pgxstore.
//
// # MariaDB and MySQL
//
// MariaDB 10.6 or newer, or MySQL 8.0 or newer, is needed. Claim.Wait is in
// whole seconds there, rounded up, and 0 is allowed on MariaDB only. The
// transaction's isolation is set only when the connection's own, as it was when
// the store first saw it, is another.
//
// # SQLite
//
// The store begins with BEGIN IMMEDIATE, whatever the DSN says, one
// transaction at a time in this process, and sets journal_mode=WAL and
// synchronous=FULL on each connection it uses. A handler must not wait for
// another transaction of the store's.
package sqlstore
