// Package proxy stands between a client and a real server and breaks the
// connection where a test says so: before a COMMIT arrives, after it was done
// but before the reply, with a reset or in silence.
//
//	p := proxy.Start(t, servers.PostgreSQL(t))
//	fault := p.Arm(proxy.Fault{On: proxy.Commit, Do: proxy.CutAfterReply})
//	... run the code under test against p.URL() ...
//	if err := fault.Wait(ctx); err != nil { // the fault happened
//		t.Fatal(err)
//	}
//
// It reads the wire protocol (PostgreSQL 3, MySQL, NATS) in both directions,
// so a match does not depend on how the bytes were cut into packets, and it
// knows when a reply is complete. Encrypted or compressed connections can't be
// read; they end with an error that Close returns.
package proxy
