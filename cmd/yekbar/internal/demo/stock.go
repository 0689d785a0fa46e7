package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"database/sql"

	"github.com/nats-io/nuid"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/orders"
	"github.com/yekbar-go/yekbar/store/schema"
)

const (
	// openingStock is what there is of each article in the beginning, in
	// units.
	openingStock = 1_000_000
	// rowsAtOnce is how many articles one statement changes.
	rowsAtOnce = 200

	stockTries = 5
	stockPause = 200 * time.Millisecond
)

// take takes an order's units out of the stock and notes that in the journal.
// Articles are sorted, so that two orders lock common ones in the same order,
// and many are changed by one statement.
func (t *tables) take(ctx context.Context, tx *sql.Tx, o *orders.Order) error {
	units := o.Units()
	for len(units) > 0 {
		part := units[:min(rowsAtOnce, len(units))]
		units = units[len(part):]
		args := make([]any, 0, 2*len(part))
		for _, u := range part {
			args = append(args, u.SKU, -u.Quantity)
		}
		if _, err := tx.ExecContext(ctx, t.changeSQL(len(part)), args...); err != nil {
			return fmt.Errorf("take order %s out of the stock: %w", o.Invoice, err)
		}
	}
	if _, err := tx.ExecContext(ctx, t.bind("INSERT INTO "+t.table(journalTable)+" (invoice, mark) VALUES (?, ?)"), o.Invoice, nuid.Next()); err != nil {
		return fmt.Errorf("note order %s in the journal: %w", o.Invoice, err)
	}
	return nil
}

// changeSQL adds to the units of n articles. It inserts only where an article
// is not stocked, which the shop sees to before it sells.
func (t *tables) changeSQL(n int) string {
	values := strings.TrimSuffix(strings.Repeat("(?, 0, ?), ", n), ", ")
	if t.dialect == schema.MariaDB {
		return "INSERT INTO " + t.table(inventoryTable) + " (sku, opening, units) VALUES " + values +
			" ON DUPLICATE KEY UPDATE units = units + VALUES(units)"
	}
	return t.bind("INSERT INTO " + t.table(inventoryTable) + " AS stock (sku, opening, units) VALUES " + values +
		" ON CONFLICT (sku) DO UPDATE SET units = stock.units + excluded.units")
}

// isChange recognises the statement that changes the stock.
func isChange(query string) bool { return strings.Contains(query, inventoryTable) }

// stock puts new articles on the shelf. Repeated, it changes nothing.
func (t *tables) stock(ctx context.Context, articles []string) error {
	for len(articles) > 0 {
		part := articles[:min(rowsAtOnce, len(articles))]
		articles = articles[len(part):]
		query := "INSERT INTO " + t.table(inventoryTable) + " (sku, opening, units) VALUES " +
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("(?, %d, %[1]d), ", openingStock), len(part)), ", ")
		if t.dialect == schema.MariaDB {
			query += " ON DUPLICATE KEY UPDATE sku = sku"
		} else {
			query = t.bind(query + " ON CONFLICT (sku) DO NOTHING")
		}
		args := make([]any, len(part))
		for i, sku := range part {
			args[i] = sku
		}
		if err := t.insistently(ctx, query, args); err != nil {
			return t.fail("can't stock articles", err)
		}
	}
	return nil
}

// insistently tries a few times: the workers' transactions may stand in the
// way (SQLITE_BUSY, a deadlock).
func (t *tables) insistently(ctx context.Context, query string, args []any) error {
	for try := 1; ; try++ {
		_, err := t.db.ExecContext(ctx, query, args...)
		if err == nil || try == stockTries || ctx.Err() != nil {
			return err
		}
		if pause(ctx, stockPause) != nil {
			return err
		}
	}
}

// bind numbers the placeholders where the database wants that. No literal of
// the demo's has a question mark.
func (t *tables) bind(query string) string {
	if t.dialect != schema.PostgreSQL {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			fmt.Fprintf(&b, "$%d", n)
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}
