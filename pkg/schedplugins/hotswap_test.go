package schedplugins

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestHotSwapUnderLoad changes the configuration while pods arrive. Configurations of odd generations allow the red nodes, others the blue ones.
// Each pod is bound once, under the configuration that its decision names.
func TestHotSwapUnderLoad(t *testing.T) {
	const swaps, podsEach = 12, 25
	c := newCluster(t)
	color := func(generation int64) string { return []string{"blue", "red"}[generation%2] }
	for i := range 6 {
		c.node(fmt.Sprintf("%s-%d", color(int64(i)), i), "100", func(n *corev1.Node) { n.Labels["color"] = color(int64(i)) })
	}
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	swap := func(generation int64) {
		write(t, file, fmt.Sprintf("%sprofiles:\n- plugins: {multiPoint: {enabled: [{name: CEL/color}]}}\n  pluginConfig: [{name: CEL/color, args: {filter: \"node.labels.color == '%s'\"}}]\n# %d\n",
			header, color(generation), generation))
	}
	swap(1)
	reloads := make(chan error, 1)
	c.start(func(cfg *scheduler.Config) { cfg.ConfigFile, cfg.Reloaded = file, func(err error) { reloads <- err } })
	c.pod("first", "1m")
	c.bound("first") // the scheduler runs, and so it watches the file
	arrived := 0
	arrive := func(until int) {
		for ; arrived < until; arrived++ {
			c.pod(fmt.Sprintf("p-%d", arrived), "1m")
		}
	}
	for g := 2; g <= swaps; g++ {
		arrive((g-2)*podsEach + podsEach/2)
		swap(int64(g))
		arrive((g - 1) * podsEach) // while the file is read
		if err := <-reloads; err != nil {
			t.Fatal(err)
		}
	}
	arrive(swaps * podsEach)
	for i := range swaps * podsEach {
		c.bound(fmt.Sprintf("p-%d", i))
	}
	var list client.List
	c.eventually("all decisions reported", func() bool {
		var err error
		if list, err = c.client.List(context.Background(), client.Target{Resource: minikctl.Decisions, Namespace: "default"}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) >= swaps*podsEach+1
	})
	scheduled, used := map[string]int{}, map[int64]bool{}
	for _, item := range list.Items {
		d := item.(*minikctl.Decision)
		if d.Outcome != "Scheduled" {
			t.Errorf("pod %s: %s: %s", d.Pod, d.Outcome, d.Message)
			continue
		}
		scheduled[d.Pod]++
		used[d.ConfigGeneration] = true
		if want := color(d.ConfigGeneration); d.ConfigGeneration < 1 || d.ConfigGeneration > swaps || d.Node[:len(want)] != want {
			t.Errorf("pod %s is on node %s under the configuration of generation %d, which allows %s", d.Pod, d.Node, d.ConfigGeneration, want)
		}
	}
	for pod, n := range scheduled {
		if n != 1 {
			t.Errorf("pod %s was scheduled %d times", pod, n)
		}
	}
	if len(used) < 2 {
		t.Errorf("pods were scheduled under %d configurations", len(used))
	}
}
