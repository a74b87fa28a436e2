package sim_test

import (
	"fmt"
	"testing"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
)

// TestUsage: a container reports what the current annotations of its pod say, and nothing without them or after its end.
func TestUsage(t *testing.T) {
	rt := sim.New(clock.Real(), clock.NewSource(1))
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
