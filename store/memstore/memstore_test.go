package memstore_test

import (
	"testing"

	"github.com/yekbar-go/yekbar/store/internal/memfixture"
	"github.com/yekbar-go/yekbar/store/memstore"
	"github.com/yekbar-go/yekbar/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Fixture[*memstore.Tx]{New: memfixture.New, NewSingle: memfixture.New, Dialect: "memory"})
}
