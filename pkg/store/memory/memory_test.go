package memory_test

import (
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
	"github.com/minikctl/minikctl/pkg/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T, string) store.Store { return memory.New() }, storetest.Options{Volatile: true})
}
