package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// orphans are the backends whose COMMIT has an unknown outcome: as long as one
// lives, it may hold the claim. They are ended before the next transaction.
type orphans struct {
	mu   sync.Mutex
	list []orphan
}

// orphan is a backend as it can be found again.
type orphan struct {
	xid  string // PostgreSQL: its transaction
	id   int64  // MariaDB: its CONNECTION_ID(), which a restarted server gives again,
	host string // to another client
}

// maxOrphans is far more than can matter; a backend that was not ended goes
// away by itself when its server notices the lost connection.
const maxOrphans = 64

func (o *orphans) add(t *txn) {
	n := orphan{xid: t.xid, id: t.who.id, host: t.who.host}
	if n.xid == "" && n.id == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) < maxOrphans {
		o.list = append(o.list, n)
	}
}

func (o *orphans) take() []orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

// endOrphans ends them over t's connection, before BEGIN. Rights that are
// missing don't stop the attempt; they are told when a claim then has to wait
// in vain.
func (s *Store) endOrphans(t *txn) {
	list := s.orphans.take()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, 2*time.Second)
	defer cancel()
	for _, o := range list {
		if err := s.endOrphan(private(ctx), t, o); err != nil {
			t.orphan = fmt.Errorf("the backend of an unknown COMMIT could not be ended: %w", err)
		}
	}
}

func (s *Store) endOrphan(ctx context.Context, t *txn, o orphan) error {
	if s.dialect == PostgreSQL {
		_, err := t.conn.ExecContext(ctx, "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"+
			" WHERE backend_xid = '"+o.xid+"'::pg_catalog.xid8::pg_catalog.xid AND pid <> pg_catalog.pg_backend_pid()")
		return err
	}
	var n int
	err := t.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND HOST = ? AND ID <> CONNECTION_ID()", o.id, o.host).Scan(&n)
	if err == nil && n > 0 {
		_, err = t.conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", o.id))
	}
	if number, ok := mysqlNumber(err); ok && number == noSuchThread {
		return nil
	}
	return err
}

// noSuchThread is ER_NO_SUCH_THREAD.
const noSuchThread = 1094
