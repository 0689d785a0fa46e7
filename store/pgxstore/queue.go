package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlscan"
)

// Queue keeps a statement to travel with COMMIT, or with the handler's next
// statement if one comes before; its error is then that one's, or the
// attempt's. In a transaction that is not the store's it runs at once.
func Queue(ctx context.Context, to pgx.Tx, s yekbar.Statement) error {
	switch t := to.(type) {
	case nil:
		return errors.New("pgxstore: Queue: the transaction is nil")
	case *nested:
		if t.closed {
			return pgx.ErrTxClosed
		}
		return Queue(ctx, t.t, s)
	case *tx:
		return t.enqueue(s)
	default:
		q, err := newQueued(0, s)
		if err != nil {
			return err
		}
		tag, err := to.Exec(ctx, s.SQL, s.Args...)
		if err != nil {
			return err
		}
		return q.checkTag(tag)
	}
}

func (t *tx) enqueue(s yekbar.Statement) error {
	if err := t.take(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	if err := t.allow([]string{s.SQL}); err != nil {
		return err
	}
	q, err := newQueued(len(t.queue), s)
	if err == nil {
		t.queue = append(t.queue, q)
	}
	return err
}

// flush sends the queue.
func (t *tx) flush(ctx context.Context) error {
	if len(t.queue) == 0 {
		return nil
	}
	queue := t.queue
	t.queue = nil
	b := &pgx.Batch{}
	for _, q := range queue {
		q.queue(b)
	}
	br := t.conn.SendBatch(ctx, b)
	var err error
	for _, q := range queue {
		if err = q.read(br); err != nil {
			break
		}
	}
	if closeErr := br.Close(); err == nil {
		err = closeErr
	}
	t.note("queued statements", err)
	if err != nil {
		err = fmt.Errorf("pgxstore: queued statements: %w", err)
		if t.failure == nil {
			// The transaction is alive (an argument could not be encoded, too
			// few rows changed), but what was promised did not happen.
			t.doomed = err
		}
	}
	return err
}

// A queued is a statement in a pipeline whose MinRows is checked by the server
// where that can be had, and by the command tag otherwise.
type queued struct {
	index   int // among those of its message
	s       yekbar.Statement
	sql     string // what is sent
	checked bool   // by the server
}

// minRowsMark is in the value that can't be cast, and so in the error of a
// statement that changed too few rows. (It is quoted there in any language.)
const minRowsMark = "yekbar changed rows: "

func newQueued(index int, s yekbar.Statement) (queued, error) {
	q := queued{index: index, s: s, sql: s.SQL}
	ss := sqlscan.Statements(schema.PostgreSQL, s.SQL)
	if len(ss) != 1 {
		return q, fmt.Errorf("pgxstore: statement %d: its SQL has %d statements, one is needed: %.60q", index, len(ss), s.SQL)
	}
	if s.MinRows <= 0 {
		return q, nil
	}
	st := ss[0]
	switch {
	case len(st.Words) == 0 || st.Unterminated:
		return q, nil
	case st.Words[0] != "INSERT" && st.Words[0] != "UPDATE" && st.Words[0] != "DELETE":
		return q, nil
	}
	returning := ""
	if !st.Returning {
		returning = "\nRETURNING 1"
	}
	// The line ends keep a comment at the end from swallowing what follows.
	q.sql = "WITH yekbar_changed AS (\n" + st.Text + returning +
		"\n) SELECT CASE WHEN count(*) >= " + strconv.Itoa(s.MinRows) + " THEN 1 ELSE ('" + minRowsMark + "' || count(*))::int END FROM yekbar_changed"
	q.checked = true
	return q, nil
}

func (q queued) queue(b *pgx.Batch) { b.Queue(q.sql, q.s.Args...) }

// read takes in the answer to the statement.
func (q queued) read(br pgx.BatchResults) error {
	tag, err := br.Exec()
	if err != nil {
		return q.explain(err)
	}
	return q.checkTag(tag)
}

func (q queued) checkTag(tag pgconn.CommandTag) error {
	if n := tag.RowsAffected(); !q.checked && n < int64(q.s.MinRows) {
		return &yekbar.RowsError{Index: q.index, MinRows: q.s.MinRows, Rows: int(n)}
	}
	return nil
}

// explain makes a *yekbar.RowsError of the error that the server's check
// raised.
func (q queued) explain(err error) error {
	pgErr := (*pgconn.PgError)(nil)
	if !q.checked || !errors.As(err, &pgErr) || pgErr.Code != "22P02" {
		return err
	}
	_, rest, ok := strings.Cut(pgErr.Message, minRowsMark)
	if !ok {
		return err
	}
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(rest)
	}
	rows, convErr := strconv.Atoi(rest[:digits])
	if convErr != nil {
		rows = -1
	}
	return &yekbar.RowsError{Index: q.index, MinRows: q.s.MinRows, Rows: rows}
}
