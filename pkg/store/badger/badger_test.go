package badger_test

import (
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
	"github.com/minikctl/minikctl/pkg/store/storetest"
)

func open(t *testing.T, dir string) store.Store {
	t.Helper()
	s, err := badger.Open(badger.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open, storetest.Options{}) }
