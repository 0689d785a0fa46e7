package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/yekbar-go/yekbar"
)

// writer lets one of the store's transactions at a time write to a SQLite
// file: SQLite has one writer, and connections that queue for it by polling
// starve each other.
type writer struct{ turn chan struct{} }

func newWriter() *writer { return &writer{make(chan struct{}, 1)} }

// enter waits as long as ctx lets it. It is called before a connection is
// taken from the pool.
func (w *writer) enter(ctx context.Context) (leave func(), err error) {
	select {
	case w.turn <- struct{}{}:
		return func() { <-w.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("sqlstore: %w: other transactions of this process had the database until the end of the context: %w", yekbar.ErrUnavailable, ctx.Err())
	}
}

// setSQLite sets what drivers disagree about. WAL, which is kept in the file,
// lets readers read while a transaction is open; with less than
// synchronous=FULL a power cut can lose what was acknowledged.
// https://sqlite.org/pragma.html
func (s *session) setSQLite(ctx context.Context, c *conn, wait time.Duration) error {
	row, err := c.row(ctx, "PRAGMA busy_timeout")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(text(row[0]), &s.busyTimeout); err != nil {
		return fmt.Errorf("PRAGMA busy_timeout is %q: %w", text(row[0]), err)
	}
	err = c.impatient(ctx, wait, func() (err error) {
		row, err = c.row(ctx, "PRAGMA journal_mode = WAL")
		return err
	})
	if err != nil {
		return err
	}
	if text(row[0]) != "wal" {
		return fmt.Errorf("%w: journal_mode is %q and can't be made WAL: use a file, on a local disk", yekbar.ErrEnvironment, text(row[0]))
	}
	if row, err = c.row(ctx, "PRAGMA synchronous"); err != nil {
		return err
	}
	if level := text(row[0]); level != "2" && level != "3" { // FULL, EXTRA
		return c.exec(ctx, "PRAGMA synchronous = FULL")
	}
	return nil
}

// beginSQLite takes the write lock at once: a transaction that reads first and
// then wants to write fails when another wrote meanwhile.
func (c *conn) beginSQLite(ctx context.Context, wait time.Duration) error {
	return c.impatient(ctx, wait, func() error { return c.exec(ctx, "BEGIN IMMEDIATE") })
}

// impatient polls for a lock itself, because SQLite's own waiting knows no
// context, and puts the connection's busy_timeout back.
func (c *conn) impatient(ctx context.Context, wait time.Duration, try func() error) error {
	if err := c.exec(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	if err := pollBusy(ctx, wait, try); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		return errors.Join(err, c.exec(ctx, c.session.patient()))
	}
	return c.exec(ctx, c.session.patient())
}

func (s *session) patient() string { return fmt.Sprintf("PRAGMA busy_timeout = %d", s.busyTimeout) }

// pollBusy repeats try while another process or connection has the lock.
func pollBusy(ctx context.Context, wait time.Duration, try func() error) error {
	end := time.Now().Add(wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := try()
		if code, ok := sqliteCode(err); !ok || code&0xff != 5 || !time.Now().Before(end) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
