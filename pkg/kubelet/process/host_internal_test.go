package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// TestStopAllOfEndingSupervisor: a supervisor that ends because it has nothing to do may not take a request that it has accepted.
func TestStopAllOfEndingSupervisor(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	h := &Host{root: t.TempDir(), clock: clock.Real(), cancel: func() {}, ended: ended}
	if err := os.MkdirAll(h.path(filepath.Dir(wire.SocketFile)), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := wire.Listen(h.path(wire.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := l.Accept(); err == nil {
			conn.Close()
		}
		l.Close()
		os.Remove(h.path(wire.SocketFile))
	}()
	if err := h.StopAll(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// TestPodsCost: a list of the pods decodes nothing, and copies no containers of other nodes: kubelets list after each change of a container.
func TestPodsCost(t *testing.T) {
	const containers = 200
	h := &Host{pods: map[types.UID]*pod{}, status: map[string]*wire.Status{}, metas: map[string]containerMeta{}, synced: true, syncChanged: make(chan struct{})}
	for i := range containers {
		uid := types.UID(fmt.Sprint("pod-", i))
		h.pods[uid] = &pod{PodSpec: kubelet.PodSpec{UID: uid}, Node: []string{"a", "b"}[i%2]}
		meta, err := json.Marshal(containerMeta{Name: "c", Attempt: i, Image: kubelet.Image{Name: "nginx"}})
		if err != nil {
			t.Fatal(err)
		}
		h.observe(&wire.Status{Spec: &wire.Spec{ID: fmt.Sprint("container-", i), Pod: string(uid), Meta: meta}, Revision: 1})
	}
	a := &Runtime{host: h, node: "a"}
	pods, err := a.Pods(t.Context())
	if err != nil || len(pods) != containers/2 || len(pods[0].Containers) != 1 || pods[0].Containers[0].Image.Name != "nginx" {
		t.Fatalf("got %v, %v", pods, err)
	}
	allocs := testing.AllocsPerRun(10, func() {
		if _, err := a.Pods(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if most := float64(3 * containers / 2); allocs > most {
		t.Errorf("%.0f allocations, want at most %.0f", allocs, most)
	}
}

// A restart helps only pods that lack a filter because of their age.
func TestOlderPods(t *testing.T) {
	h := &Host{status: map[string]*wire.Status{
		"a": {Spec: &wire.Spec{Pod: "old"}, Running: true}, "b": {Spec: &wire.Spec{Pod: "old"}, Running: true},
		"c": {Spec: &wire.Spec{Pod: "new"}, Running: true, AllDatagrams: true}, "d": {Spec: &wire.Spec{Pod: "ended"}},
	}}
	h.status["e"] = &wire.Status{Spec: &wire.Spec{Pod: "other"}, Running: true}
	if got := h.OlderPods(); !slices.Equal(slices.Sorted(slices.Values(got)), []types.UID{"old", "other"}) {
		t.Errorf("older pods %v", got)
	}
	h.refused = "no filters"
	if got := h.OlderPods(); len(got) != 0 {
		t.Errorf("older pods %v on a machine without filters", got)
	}
}
