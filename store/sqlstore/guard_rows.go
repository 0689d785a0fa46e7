package sqlstore

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// rows are those of a query in a store's transaction: an error that comes while
// a handler reads them is a failed statement too. Outside of the store's transactions rows are the
// driver's own.
//
// Of the optional interfaces, those that the driver lacks answer what
// database/sql takes in their absence.
type rows struct {
	driver.Rows
	guard  *guarded // nil: the store's own query
	query  string
	closed []func() // called once, after Close
}

var (
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
)

func (r *rows) Next(dest []driver.Value) error { return r.seen(r.Rows.Next(dest)) }

func (r *rows) Close() error {
	err := r.seen(r.Rows.Close())
	for _, f := range r.closed {
		f()
	}
	r.closed = nil
	return err
}

func (r *rows) seen(err error) error {
	if err != nil && err != io.EOF && r.guard != nil { //nolint:errorlint // database/sql compares it by identity, too
		r.guard.failed(r.query, err)
	}
	return err
}

func (r *rows) HasNextResultSet() bool {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if n, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return r.seen(n.NextResultSet())
	}
	return io.EOF
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
