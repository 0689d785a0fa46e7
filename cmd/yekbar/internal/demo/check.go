package demo

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
)

// An article is how many of its units were taken.
type article struct {
	sku   string
	taken int64
}

// found is what the database has in the end.
type found struct {
	articles []article // sorted by the bytes of the sku
	applied  int64     // rows of the journal
	orders   int64     // different invoices in it
	doubled  int64     // invoices with more than one row
	examples []string  // of those
	claims   int64     // claims with the state applied
	dead     int64     // messages set aside
}

// look reads everything.
func (t *tables) look(ctx context.Context) (*found, error) {
	f := &found{}
	if err := t.lookAtStock(ctx, f); err != nil {
		return nil, t.fail("can't read the stock", err)
	}
	journal := t.table(journalTable)
	for _, q := range []struct {
		into  *int64
		query string
		args  []any
	}{
		{&f.applied, "SELECT COUNT(*) FROM " + journal, nil},
		{&f.orders, "SELECT COUNT(DISTINCT invoice) FROM " + journal, nil},
		{&f.doubled, "SELECT COUNT(*) FROM (SELECT invoice FROM " + journal + " GROUP BY invoice HAVING COUNT(*) > 1) AS twice", nil},
		{&f.claims, "SELECT COUNT(*) FROM " + t.table(schema.ProcessedMessages) + " WHERE consumer_name = ? AND state = ?", []any{consumerName, string(yekbar.StateApplied)}},
		{&f.dead, "SELECT COUNT(*) FROM " + t.table(schema.HeldMessages) + " WHERE consumer_name = ? AND state = ?", []any{consumerName, string(yekbar.StateDead)}},
	} {
		if err := t.db.QueryRowContext(ctx, t.bind(q.query), q.args...).Scan(q.into); err != nil {
			return nil, t.fail("can't read the journal", err)
		}
	}
	var err error
	if f.examples, err = t.lookAtDoubled(ctx); err != nil {
		return nil, t.fail("can't read the journal", err)
	}
	return f, nil
}

func (t *tables) lookAtStock(ctx context.Context, f *found) error {
	rows, err := t.db.QueryContext(ctx, "SELECT sku, opening - units FROM "+t.table(inventoryTable))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var a article
		if err := rows.Scan(&a.sku, &a.taken); err != nil {
			return err
		}
		f.articles = append(f.articles, a)
	}
	// Not ORDER BY: what byte order is, is not left to a collation.
	slices.SortFunc(f.articles, func(a, b article) int { return cmp.Compare(a.sku, b.sku) })
	return errors.Join(rows.Err(), rows.Close())
}

func (t *tables) lookAtDoubled(ctx context.Context) ([]string, error) {
	rows, err := t.db.QueryContext(ctx, "SELECT invoice FROM "+t.table(journalTable)+" GROUP BY invoice HAVING COUNT(*) > 1 ORDER BY invoice LIMIT 3")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var invoices []string
	for rows.Next() {
		var i string
		if err := rows.Scan(&i); err != nil {
			return nil, err
		}
		invoices = append(invoices, i)
	}
	return invoices, errors.Join(rows.Err(), rows.Close())
}

func (f *found) units() int64 {
	var n int64
	for _, a := range f.articles {
		n += a.taken
	}
	return n
}

// differing counts the articles whose stock is not what the ledger says.
func (f *found) differing(l *ledger) int {
	n := 0
	seen := 0
	for _, a := range f.articles {
		want, ok := l.units[a.sku]
		if ok {
			seen++
		}
		if !ok || want != a.taken {
			n++
		}
	}
	return n + len(l.units) - seen
}
