// Package storetest is the suite that every yekbar.Store passes, Yekbar's own
// and those written elsewhere. It needs a [Fixture]: how to make a fresh store,
// and a few business operations in its transactions.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Fixture[*sql.Tx]{New: newInstance, Dialect: "sqlite"})
//	}
//
// A store that speaks SQL leaves the business operations to [SQL], and gives
// the names of its tables and four functions: execute in a transaction, execute
// outside, read a number, begin. Tables that are not those of the package
// schema need an Instance.Later of their own.
//
// The suite tests exactly what Features declares. What is not declared must be
// absent (no interface, or ErrUnsupported), and is otherwise skipped with a
// line that says so. Each check has an instance of its own and they run in
// parallel. Only stores that declare LockWait get two transactions open at
// once; a store with one writer, or a pool of one connection, passes.
//
// What no suite can see from inside one process (a connection cut at COMMIT, a
// killed server, the database's write-ahead log) is for the store's own tests.
package storetest
