package pgxstore

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows notes how a query ended, and takes turns with the transaction's other
// uses.
type rows struct {
	pgx.Rows
	t    *tx
	what string
}

func (r *rows) Next() bool {
	if r.t.take() != nil {
		return false
	}
	defer r.t.mu.Unlock()
	more := r.Rows.Next()
	if !more {
		r.t.note(r.what, r.Rows.Err())
	}
	return more
}

func (r *rows) Close() {
	if r.t.take() != nil {
		return
	}
	defer r.t.mu.Unlock()
	r.Rows.Close()
	r.t.note(r.what, r.Rows.Err())
}

func (r *rows) Err() error {
	if r.t.done.Load() {
		return errDone()
	}
	return r.Rows.Err()
}

func (r *rows) Scan(dest ...any) error {
	if err := r.t.take(); err != nil {
		return err
	}
	defer r.t.mu.Unlock()
	return r.Rows.Scan(dest...)
}

// A row is the first of some rows.
type row struct{ rows pgx.Rows }

func (r row) Scan(dest ...any) error {
	defer r.rows.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok { // they end with the rows
			return errors.New("pgxstore: cannot scan into *pgtype.DriverBytes from QueryRow")
		}
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// failedRows are those of a query that was not sent.
type failedRows struct{ err error }

func (r failedRows) Close()                                       {}
func (r failedRows) Err() error                                   { return r.err }
func (r failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                            { return r.err }
func (r failedRows) Values() ([]any, error)                       { return nil, r.err }
func (r failedRows) RawValues() [][]byte                          { return nil }
func (r failedRows) Conn() *pgx.Conn                              { return nil }
func (r failedRows) TypeMap() *pgtype.Map                         { return nil }

// batchResults note how a batch's queries ended.
type batchResults struct {
	pgx.BatchResults
	t *tx
}

func (b *batchResults) Exec() (pgconn.CommandTag, error) {
	if err := b.t.take(); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer b.t.mu.Unlock()
	tag, err := b.BatchResults.Exec()
	b.note(err)
	return tag, err
}

func (b *batchResults) Query() (pgx.Rows, error) {
	if err := b.t.take(); err != nil {
		return failedRows{err}, err
	}
	defer b.t.mu.Unlock()
	in, err := b.BatchResults.Query()
	b.note(err)
	return &rows{Rows: in, t: b.t, what: "SendBatch"}, err
}

func (b *batchResults) QueryRow() pgx.Row {
	rs, _ := b.Query()
	return row{rs}
}

// Close also calls the functions given to the batch. They read its results,
// not the transaction's.
func (b *batchResults) Close() error {
	if err := b.t.take(); err != nil {
		return err
	}
	defer b.t.mu.Unlock()
	err := b.BatchResults.Close()
	b.note(err)
	return err
}

// note remembers a failure while the batch is still being read, when the
// server's word on the transaction is not there yet.
func (b *batchResults) note(err error) {
	if err != nil && b.t.failure == nil && b.t.conn.PgConn().IsBusy() {
		b.t.failure = err
		return
	}
	b.t.note("SendBatch", err)
}
