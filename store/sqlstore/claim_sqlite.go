package sqlstore

import (
	"database/sql"
	"errors"

	"github.com/yekbar-go/yekbar"
)

// sqlite claims under BEGIN IMMEDIATE: nobody else writes meanwhile.
func (c *claiming) sqlite(which []int) error {
	for _, i := range which {
		claim := c.claims[i]
		var at instant
		err := c.tx.QueryRowContext(c.ctx, c.sql.take, claim.Consumer, claim.MessageID, string(c.state), bytesOrNull(claim.Fingerprint)).Scan(&at)
		switch {
		case err == nil:
			c.claimed[i] = yekbar.Claimed{Fresh: true, At: at.Time}
		case errors.Is(err, sql.ErrNoRows):
			c.claimed[i], err = c.mustLookup(claim)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
