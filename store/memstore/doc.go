// Package memstore is the reference store: every rule of yekbar.Store in
// memory, in as little code as shows them. Nothing is durable. It is for tests
// and for reading.
//
//	store := memstore.New()
//	consumer, err := yekbar.NewConsumer("inventory", store, func(ctx context.Context, tx *memstore.Tx, m *yekbar.Message) error {
//		return tx.Put("last", m.Payload)
//	}, yekbar.Config{})
//
// Transactions buffer their writes and see their own. At COMMIT, a transaction
// that has read what another changed since fails with ErrTransient, as a
// database does at SERIALIZABLE; nothing but a claim is ever waited for. What is
// due, leased or kept goes by a clock that Later moves.
package memstore
