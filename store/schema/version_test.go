package schema

import (
	"errors"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar"
)

// A release that needs version 2 meets tables of version 1.
func TestOlderTablesNeedMigration(t *testing.T) {
	err := checkVersion(2, 1, 1)
	if !errors.Is(err, yekbar.ErrSchema) || !strings.Contains(err.Error(), "run yekbar migrate") {
		t.Error(err)
	}
}
