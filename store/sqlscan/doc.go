// Package sqlscan finds the statements in a text of SQL and says which of them
// begin or end a transaction. Stores use it to refuse a handler's COMMIT
// before it is sent.
//
// It reads no grammar, only what decides where a statement begins: comments,
// quotes and semicolons, as the manuals of PostgreSQL (section 4.1, "Lexical
// Structure"), MariaDB ("Comment Syntax", "String Literals") and SQLite
// ("SQL Comment Syntax", "Complete") have them. Where a setting of the session
// changes the reading (standard_conforming_strings, NO_BACKSLASH_ESCAPES,
// ANSI_QUOTES, the version in an executable comment), all readings count, so
// that nothing hides in a doubt. In a body of PostgreSQL's
// CREATE FUNCTION … BEGIN ATOMIC, END looks like a statement.
//
// It can't see what a procedure does: stores detect that afterwards.
package sqlscan
