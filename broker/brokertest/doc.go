// Package brokertest is the suite that every broker adapter runs, in this
// repository or elsewhere. It tests what package broker promises, and of what
// is optional exactly what Capabilities declares.
//
//	func TestSource(t *testing.T) {
//		brokertest.Run(t, func(t *testing.T) *brokertest.Fixture {
//			return &brokertest.Fixture{ … } // a fresh, empty subscription
//		})
//	}
//
// Give the subscription a short lease (one or two seconds): the suite waits for
// leases to end. What a fixture can't do is skipped, and the skip says why.
package brokertest
