// Package schema holds what Yekbar's SQL stores share: the tables and their
// migrations per dialect, how names are quoted, what a table's version means
// to a release, how odd strings and headers are kept in text columns, and what
// a database's error codes mean.
//
// It sends nothing to any database.
package schema
