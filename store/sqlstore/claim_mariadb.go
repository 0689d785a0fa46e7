package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar"
)

const (
	duplicateKey = 1062 // ER_DUP_ENTRY
	batchTries   = 3
)

// mariaDB inserts, and only the 1062 of that very statement, into a table
// whose one unique key is the primary key, means that a claim is old. Several
// claims are read first, since a 1062 undoes the whole statement: a row that
// is seen is surely old, and of the rest most are surely new.
func (c *claiming) mariaDB(which []int) error {
	for try := 0; len(which) > 1 && try < batchTries; try++ {
		rest, err := c.readMariaDB(which)
		if err != nil {
			return err
		}
		if which = rest; len(which) == 0 {
			return nil
		}
		if err := c.insertMariaDB(which); !isDuplicate(err) {
			return err
		}
	}
	for _, i := range which {
		err := c.insertMariaDB([]int{i})
		if isDuplicate(err) {
			c.claimed[i], err = c.readOneMariaDB(c.claims[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isDuplicate(err error) bool {
	number, ok := mysqlNumber(err)
	return ok && number == duplicateKey
}

// insertMariaDB inserts claims, sorted as they are.
func (c *claiming) insertMariaDB(which []int) error {
	var b strings.Builder
	b.WriteString("INSERT INTO " + c.sql.claims + " (consumer_name, message_id, state, fingerprint) VALUES ")
	for n, i := range which {
		claim := c.claims[i]
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "(%s, %s, '%s', %s)", hexText(claim.Consumer), hexText(claim.MessageID), c.state, hexLiteral(claim.Fingerprint))
	}
	mariadb, err := c.isMariaDB()
	if err != nil {
		return err
	}
	if !mariadb {
		err := c.limited(c.wait, func() error {
			_, err := c.tx.ExecContext(c.ctx, b.String())
			return err
		})
		for _, i := range which {
			c.claimed[i] = yekbar.Claimed{Fresh: err == nil}
		}
		return err
	}
	text := fmt.Sprintf("SET STATEMENT innodb_lock_wait_timeout=%d FOR %s RETURNING consumer_name, message_id, %s",
		wholeSeconds(c.wait), b.String(), MariaDB.micros("processed_at"))
	index := c.index()
	rows, err := c.tx.QueryContext(c.ctx, text)
	return each(rows, err, func(rows *sql.Rows) error {
		var (
			key [2]string
			at  instant
		)
		if err := rows.Scan(&key[0], &key[1], &at); err != nil {
			return err
		}
		c.claimed[index[key]] = yekbar.Claimed{Fresh: true, At: at.Time}
		return nil
	})
}

// readMariaDB reads those of the claims that are old, and returns the rest.
func (c *claiming) readMariaDB(which []int) (rest []int, err error) {
	byConsumer := make(map[string][]string)
	for _, i := range which {
		claim := c.claims[i]
		byConsumer[claim.Consumer] = append(byConsumer[claim.Consumer], hexText(claim.MessageID))
	}
	index, old := c.index(), make(map[int]bool)
	for consumer, ids := range byConsumer {
		rows, err := c.tx.QueryContext(c.ctx, "SELECT p.consumer_name, p.message_id, p.state, p.fingerprint, "+MariaDB.micros("p.processed_at")+", r.result"+
			c.sql.from()+" WHERE p.consumer_name = "+hexText(consumer)+" AND p.message_id IN ("+strings.Join(ids, ", ")+")")
		err = each(rows, err, func(rows *sql.Rows) error {
			var (
				key [2]string
				got yekbar.Claimed
				at  instant
			)
			if err := rows.Scan(&key[0], &key[1], &got.State, &got.Fingerprint, &at, &got.Result); err != nil {
				return err
			}
			got.At = at.Time
			c.claimed[index[key]], old[index[key]] = got, true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, i := range which {
		if !old[i] {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// readOneMariaDB reads a claim that a 1062 has just shown. The locking read
// sees the newest committed row, whatever the transaction's snapshot is.
func (c *claiming) readOneMariaDB(claim yekbar.Claim) (yekbar.Claimed, error) {
	old, err := scanOld(c.tx.QueryRowContext(c.ctx, "SELECT p.state, p.fingerprint, "+MariaDB.micros("p.processed_at")+", r.result"+
		c.sql.from()+" WHERE p.consumer_name = "+hexText(claim.Consumer)+" AND p.message_id = "+hexText(claim.MessageID)+" LOCK IN SHARE MODE"))
	if errors.Is(err, sql.ErrNoRows) {
		err = errGone
	}
	return old, err
}

// isMariaDB tells MariaDB from MySQL, which knows neither SET STATEMENT nor
// RETURNING.
func (c *claiming) isMariaDB() (bool, error) {
	if f := c.flavor.Load(); f != nil {
		return f.mariadb, nil
	}
	var version string
	if err := c.tx.QueryRowContext(c.ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return false, err
	}
	f := flavorOf(version)
	c.flavor.Store(&f)
	return f.mariadb, nil
}

// wholeSeconds is how MariaDB and MySQL measure waiting for a lock.
func wholeSeconds(wait time.Duration) int64 { return int64((wait + time.Second - 1) / time.Second) }
