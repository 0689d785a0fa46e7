// Package pgxstore keeps claims in PostgreSQL (13 or newer) through pgx.
//
//	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
//	…
//	store := pgxstore.New(pool, pgxstore.Config{})
//	err = store.Migrate(ctx)
//	…
//	consumer, err := yekbar.NewConsumer("inventory", store, takeStock, yekbar.Config{})
//
// An attempt takes two round trips and the handler's own: BEGIN and the claim
// travel together, and so do the statements given to [Queue], a guard and
// COMMIT. With statements instead of a handler it is one.
//
// # The handler's transaction
//
// Handlers get a pgx.Tx of the store's own. All of pgx's methods work, Begin
// makes a savepoint, and SAVEPOINT, ROLLBACK TO and RELEASE do what they do.
// Commit, Rollback, and every statement that begins or ends a transaction are
// refused with a *yekbar.BoundaryError before they are sent, and the attempt
// then fails even if the handler ignores that. What goes round this through
// Conn is noticed before COMMIT by the transaction's id. A statement that
// failed and was not rolled back to a savepoint fails the attempt. After the
// handler has returned, every use is yekbar.ErrTxDone.
//
// # The connection string
//
// All query modes of pgx work (default_query_exec_mode). Behind PgBouncer with
// transaction pooling use cache_describe, exec or simple_protocol, or set
// PgBouncer's max_prepared_statements (1.21 and newer); Check says so where it
// can see it.
//
// When a network falls silent, the server holds the claims of the lost
// connection until it notices. Set tcp_keepalives_idle, tcp_keepalives_interval
// and tcp_user_timeout on the server (or in the connection string's options
// parameter) to notice within seconds, not hours. Where a context has a
// deadline and the session no idle_in_transaction_session_timeout of its own,
// the store sets one for the attempt that ends a little after the deadline.
//
// # COMMIT
//
// COMMIT runs for up to 15 seconds on a context that the caller's cancellation
// does not reach. When its outcome isn't known the error is
// yekbar.ErrCommitUnknown and the connection is closed. The next attempt on
// this store first ends the backends of connections that were lost, as far as
// the server still has them: each attempt takes an advisory lock of a random
// key, by which it is found (pg_locks, pg_terminate_backend). A notice that arrives with COMMIT
// counts as unknown, too: that is how PostgreSQL says that a wait for
// synchronous replication was cancelled ("Planning for High Availability" in
// its manual). It must not be hidden by a client_min_messages above warning.
// While COMMIT is under way the store sets pgproto3's Frontend.Trace, so a
// trace of your own ends there.
package pgxstore
