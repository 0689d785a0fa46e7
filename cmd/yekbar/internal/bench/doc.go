// Package bench measures what a claim costs on a user's own PostgreSQL, beside
// pgbench running the same statements in the same run: the two take turns,
// round by round, so that whatever else the machine does happens to both.
package bench
