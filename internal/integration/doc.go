// Package integration proves the stores, the brokers and the program against
// real servers: every store, every broker, real processes that are killed. It
// has tests only; the packages below it start servers, put faults on the wire,
// and run commands beside servers.
package integration
