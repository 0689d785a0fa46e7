// Package orders has the demo's orders: what one looks like, reading them from
// NDJSON, and making them up from a seed.
package orders
