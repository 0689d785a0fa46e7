package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/store/schema"
	"github.com/yekbar-go/yekbar/store/sqlstore"
)

// record writes to the audit log what this program does, and not the store.
func record(store *sqlstore.Store, d schema.Dialect, names schema.Names) func(context.Context, yekbar.AuditEntry) error {
	values := "?, ?, ?, ?, ?, ?"
	if d == schema.PostgreSQL {
		values = "$1, $2, $3, $4, $5, $6"
	}
	columns := []string{"actor", "reason", "action", "consumer_name", "message_id", "detail"}
	for i, c := range columns {
		columns[i] = schema.Quote(d, c)
	}
	text := "INSERT INTO " + names.Table(d, schema.AuditLog) + " (" + strings.Join(columns, ", ") + ") VALUES (" + values + ")"
	return func(ctx context.Context, e yekbar.AuditEntry) error {
		err := store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, text, schema.EncodeText(e.By.Name), schema.EncodeText(e.By.Reason), e.Action, e.Consumer, e.MessageID, e.Detail)
			return err
		})
		if err != nil {
			return fmt.Errorf("write to the audit log: %w", err)
		}
		return nil
	}
}
