// Package demo runs a shop whose workers are killed again and again, and counts
// whether its stock is right in the end.
//
// Orders are published to NATS JetStream, some of them twice. Worker processes
// take them out of a table of stock. They are killed with SIGKILL: at any
// moment, right before the driver's COMMIT, and right after it, when nobody has
// acknowledged yet. Some acknowledgements are lost on purpose. [Run] is the
// parent: broker, shop, killer and judge. [Work] is one worker process.
//
// The judge trusts nothing that a worker says: what was published is in the
// parent's ledger, and what was done in the database, where each change of the
// stock also left a row in a journal that would take a second one.
package demo
