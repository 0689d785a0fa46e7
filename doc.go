// Package yekbar makes a message that is delivered more than once take effect
// once.
//
// A broker that delivers at least once will deliver twice. A Consumer writes
// the message's identity into a table under a unique key (the claim) and makes
// the change, both in one database transaction, and only after COMMIT may the
// message be acknowledged:
//
//	consumer, err := yekbar.NewConsumer("inventory", store, takeStock, yekbar.Config{})
//	…
//	result, err := consumer.Process(ctx, m) // nil error: Applied or Duplicate
//
// A crash before COMMIT leaves nothing, and the next delivery does the work. A
// crash after COMMIT and before the acknowledgement leaves the claim, and the
// next delivery finds it and does nothing.
//
// What a transaction does not cover (a call over HTTP, an e-mail, another
// database) is not made once by this.
//
// The Store is the database: store/pgxstore, store/sqlstore, and for tests
// store/memstore. The package worker runs a consumer over a broker's source.
package yekbar
