// Package failpoint stops at two exact places in a transaction's life: right
// before the driver's COMMIT, and right after it was confirmed. It sits between
// database/sql and a driver, below everything that a program does.
package failpoint
