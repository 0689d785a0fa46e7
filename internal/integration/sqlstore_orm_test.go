package integration

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/yekbar-go/yekbar"
)

type gormRow struct {
	Name string `gorm:"primaryKey"`
	N    int
}

func (gormRow) TableName() string { return "storetest_counters" }

// GORM over the handler's transaction: its nested transactions are savepoints,
// which forgive what failed in them, and nothing else does.
func TestSQLStoreGORM(t *testing.T) {
	t.Parallel()
	s := newSQLTest(t, driverNamed(t, "mysql"), sqlFixture{})
	over := func(ctx context.Context, tx *sql.Tx) (*gorm.DB, error) {
		db, err := gorm.Open(mysql.New(mysql.Config{Conn: tx, SkipInitializeWithVersion: true}),
			&gorm.Config{Logger: logger.Discard, DisableAutomaticPing: true})
		if err != nil {
			return nil, err
		}
		return db.WithContext(ctx), nil
	}
	_, err := s.attempt(s.ctx, "m-1", func(ctx context.Context, tx *sql.Tx) error {
		db, err := over(ctx, tx)
		if err != nil {
			return err
		}
		nested := db.Transaction(func(db *gorm.DB) error {
			if err := db.Create(&gormRow{"inner", 1}).Error; err != nil {
				return err
			}
			return db.Create(&gormRow{"m-1", 1}).Error // a duplicate
		})
		wantNumber(t, nested, 1062)
		return db.Transaction(func(db *gorm.DB) error { return db.Create(&gormRow{"kept", 7}).Error })
	})
	if err != nil {
		t.Error(err)
	}
	s.want("inner", 1, 0)
	s.want("kept", 1, 7)

	_, err = s.attempt(s.ctx, "m-2", func(ctx context.Context, tx *sql.Tx) error {
		db, err := over(ctx, tx)
		if err != nil {
			return err
		}
		_ = db.Create(&gormRow{"m-2", 1}).Error // swallowed
		if err := db.Create(&gormRow{"more", 1}).Error; err == nil {
			t.Error("a statement after the failure was executed")
		}
		return nil
	})
	s.wantError(err, yekbar.ErrRolledBack)
	_, err = s.attempt(s.ctx, "m-3", func(ctx context.Context, tx *sql.Tx) error {
		db, err := over(ctx, tx)
		if err != nil {
			return err
		}
		return db.Commit().Error
	})
	if !errors.Is(err, yekbar.ErrBoundary) {
		t.Errorf("gorm's Commit: %v", err)
	}
	s.want("more", 1, 0)
}
