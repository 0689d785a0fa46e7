// Package database opens the databases that the program's --database names.
package database
