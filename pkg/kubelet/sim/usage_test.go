package sim_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
)

// TestUsage: a container reports what the current annotations of its pod say, and nothing without them or after its end.
func TestUsage(t *testing.T) {
	rt := sim.New(clock.Real())
	if err := start(t, rt, "p", nil); err != nil {
		t.Fatal(err)
	}
	use := func(annotations map[string]string) string {
		all := pods(t, rt)
		all[0].Annotations = annotations
		used, err := rt.(kubelet.Meter).Usage(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		u, ok := used[all[0].Containers[0].ID]
		if !ok {
			return "nothing"
		}
		return fmt.Sprint(u.Resources.Cpu(), " ", u.Resources.Memory(), " ", u.Window)
	}
	for _, c := range []struct {
		annotations map[string]string
		want        string
	}{
		{nil, "nothing"},
		{map[string]string{sim.UsageCPU: "100m", sim.UsageMemory: "20Mi"}, "100m 20Mi 15s"},
		{map[string]string{sim.UsageCPU: "100m", sim.UsageCPU + ".main": "250m"}, "250m 0 15s"},
		{map[string]string{sim.UsageCPU + ".other": "250m"}, "nothing"},
		{map[string]string{sim.UsageCPU: "much", sim.UsageMemory: "-1"}, "nothing"},
	} {
		if got := use(c.annotations); got != c.want {
			t.Errorf("%v: got %s, want %s", c.annotations, got, c.want)
		}
	}
	if err := rt.Stop(t.Context(), pods(t, rt)[0].Containers[0].ID, 0); err != nil {
		t.Fatal(err)
	}
	if got := use(map[string]string{sim.UsageCPU: "100m"}); got != "nothing" {
		t.Errorf("after its end: %s", got)
	}
}

// TestLoad: the running containers of a controller's pods share a load, on whichever node they are.
func TestLoad(t *testing.T) {
	cluster := sim.NewCluster(clock.Real(), nil)
	rt := cluster.Runtime("a")
	run := func(rt kubelet.Runtime, uid types.UID) {
		spec := kubelet.PodSpec{UID: uid, Name: string(uid), OwnerKind: "ReplicaSet", OwnerUID: "o", Annotations: map[string]string{sim.LoadCPU: "900m", sim.UsageMemory: "1Mi"}}
		if _, err := rt.StartPod(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Start(t.Context(), uid, kubelet.ContainerSpec{Name: "main"}); err != nil {
			t.Fatal(err)
		}
	}
	share := func() string {
		all := pods(t, rt)
		used, err := rt.(kubelet.Meter).Usage(t.Context(), all[:1])
		if err != nil {
			t.Fatal(err)
		}
		u := used[all[0].Containers[0].ID].Resources
		return fmt.Sprint(u.Cpu(), " ", u.Memory())
	}
	run(rt, "1")
	if got := share(); got != "900m 1Mi" {
		t.Errorf("alone: got %s", got)
	}
	run(rt, "2")
	other := cluster.Runtime("b")
	run(other, "3")
	if got := share(); got != "300m 1Mi" {
		t.Errorf("of three: got %s", got)
	}
	if err := other.StopPod(t.Context(), "3"); err != nil {
		t.Fatal(err)
	}
	if got := share(); got != "450m 1Mi" {
		t.Errorf("of two: got %s", got)
	}
}
