package sqlstore

import (
	"context"
	"encoding/hex"
	"strings"
)

// beginMariaDB begins with the isolation wanted. MariaDB takes both statements
// in one round trip, as a compound statement.
func (c *conn) beginMariaDB(ctx context.Context, isolation string) error {
	if c.session.isolation == isolation {
		return c.exec(ctx, "START TRANSACTION")
	}
	set := "SET TRANSACTION ISOLATION LEVEL " + isolation
	if c.session.flavor.mariadb {
		return c.exec(ctx, "BEGIN NOT ATOMIC "+set+"; START TRANSACTION; END")
	}
	if err := c.exec(ctx, set); err != nil {
		return err
	}
	return c.exec(ctx, "START TRANSACTION")
}

// hexLiteral is b as a binary string, which no character set and no SQL mode
// changes, and which needs no prepared statement: a round trip less.
func hexLiteral(b []byte) string {
	if b == nil {
		return "NULL"
	}
	return "X'" + hex.EncodeToString(b) + "'"
}

// hexText is hexLiteral of a string.
func hexText(s string) string { return hexLiteral([]byte(s)) }

// flavor is which of the two it is.
type flavor struct{ mariadb bool }

func flavorOf(version string) flavor {
	return flavor{strings.Contains(strings.ToLower(version), "mariadb")}
}
