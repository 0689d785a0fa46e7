// Package membroker is a broker in memory, for tests: leases, redelivery,
// attempt counts, and faults on demand.
//
//	b := membroker.New(membroker.Config{Capabilities: membroker.Typical()})
//	err := b.Publisher().Publish(ctx, []*yekbar.Message{{ID: "m-1", Topic: "orders", Payload: order}})
//	…
//	w, err := worker.New(b.Source("orders"), consumer, worker.Config{})
//
// It honours what Config.Capabilities declares, and does no more: a broker
// without NackDelay gives back at once, one without ConfirmsAck loses
// acknowledgements silently in an outage, one with AckInOrder delivers again
// what was acknowledged behind a held delivery when its source closes.
//
// Time comes from the package time, so that testing/synctest can run it.
//
// It keeps every message that was ever published, so its memory grows with the
// test and ends with it.
package membroker
