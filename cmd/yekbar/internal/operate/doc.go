// Package operate is what people do with claims, held messages and consumers
// by hand: it looks, changes and prints, over the optional interfaces of a
// store.
//
// What it prints of messages can do a terminal no harm: control characters
// and those that turn the writing around are escaped.
package operate
