package clustertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// TestComponentsDespiteCorruptObjects starts a cluster whose store has a value of most kinds that cannot be decoded. Controllers,
// scheduler and kubelet work on the other objects.
func TestComponentsDespiteCorruptObjects(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.minikctl("up", "-d")
	h.minikctl("down")
	h.damage("core/pods/default/bad", "core/configmaps/default/bad", "core/secrets/default/bad", "core/services/default/bad",
		"core/serviceaccounts/default/bad", "core/nodes/bad", "core/namespaces/bad", "core/events/default/bad", "apps/replicasets/default/bad",
		"apps/deployments/default/bad", "discovery.k8s.io/endpointslices/default/bad", "rbac.authorization.k8s.io/clusterroles/bad",
		"coordination.k8s.io/leases/kube-node-lease/bad", "apiextensions.k8s.io/customresourcedefinitions/bad.example.com")
	h.minikctl("up", "-d")
	h.minikctl("create", "deployment", "web", "--image=minikctl.dev/pause")
	h.minikctl("rollout", "status", "deployment/web", "--timeout=2m")
	h.minikctl("delete", "deployment", "web", "--cascade=foreground", "--timeout=2m")
	if got := h.minikctl("status"); !strings.Contains(got, "running, corrupt objects") || !strings.Contains(got, "configmaps default/bad: ") ||
		!strings.Contains(got, "a user who may create pods has the rights of an administrator") {
		t.Errorf("status: got %s", got)
	}
	h.minikctl("delete", "--raw", "/api/v1/nodes/bad?ignoreStoreReadErrorWithClusterBreakingPotential=true")
	if got := h.minikctl("get", "corruptobjects.minikctl.dev"); strings.Contains(got, "core:nodes:bad") || !strings.Contains(got, "core:pods:default:bad") {
		t.Errorf("after the deletion of a node: got %s", got)
	}
}

// damage stores values that cannot be decoded. The daemon must not run.
func (h *home) damage(paths ...string) {
	h.t.Helper()
	s, err := badger.Open(badger.Config{Dir: h.paths().Store})
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			h.t.Error(err)
		}
	}()
	for _, path := range paths {
		if _, err := s.Write(h.t.Context(), store.Op{Key: "o/" + path, Value: []byte("k8s\x00\xff\xff")}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestStatusOfReadOnlyStore removes the directory of a running daemon's database: status says that the store takes no writes, and why.
func TestStatusOfReadOnlyStore(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.minikctl("up", "-d", "--nodes", "0")
	if got := h.minikctl("status"); strings.Contains(got, "unhealthy") {
		t.Errorf("status: got %s", got)
	}
	if err := os.RemoveAll(filepath.Join(h.paths().Store, "badger")); err != nil {
		t.Fatal(err)
	}
	got := ""
	within(time.Minute, func() bool {
		got = h.minikctl("status")
		return strings.Contains(got, "unhealthy")
	})
	if !strings.Contains(got, "running, etcd-0 unhealthy") || !strings.Contains(got, "etcd-0: store is read-only: the directory of the database was removed") ||
		strings.Contains(got, "deprecated") {
		t.Errorf("status: got %s", got)
	}
}
