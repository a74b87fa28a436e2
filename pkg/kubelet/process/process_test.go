package process_test

import (
	"context"
	"os"
	"testing"

	_ "github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/kubelet/runtimetest"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

func TestMain(m *testing.M) {
	runtimetest.ServeIfAsked()
	os.Exit(m.Run())
}

// testRange is not the default of any daemon's data folder in a test of ours: hosts of tests run one after the other.
const testRange addr.Range = 253

func TestRuntime(t *testing.T) {
	runtimetest.Run(t, driver)
}

var driver = runtimetest.Driver{
	New: func(t testing.TB, root string) (kubelet.Runtime, func()) {
		h := open(t, root)
		return h.Runtime("node"), func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	},
	Purge: func(t testing.TB, root string) {
		// The test's own context is over by now.
		if err := open(t, root).Purge(context.Background()); err != nil {
			t.Error(err)
		}
	},
}

func open(t testing.TB, root string) *process.Host {
	t.Helper()
	h, err := process.Open(t.Context(), process.Config{Root: root, Range: testRange})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
