package schedplugins

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// "make soak" has 100 changes while 10,000 pods arrive.
var (
	hotSwaps   = flag.Int("hotswap.swaps", 12, "changes of the configuration")
	hotPodsFor = flag.Int("hotswap.pods", 25, "pods that arrive between two changes")
)

// TestHotSwapUnderLoad changes the configuration while pods arrive. Configurations of odd generations allow the red nodes, others the blue ones.
// Each pod is bound once, under the configuration that its decision names.
func TestHotSwapUnderLoad(t *testing.T) {
	swaps, podsEach := *hotSwaps, *hotPodsFor
	all := swaps * podsEach
	c := newCluster(t)
	color := func(generation int64) string { return []string{"blue", "red"}[generation%2] }
	for i := range 6 {
		c.node(fmt.Sprintf("%s-%d", color(int64(i)), i), "100", func(n *corev1.Node) {
			n.Labels["color"] = color(int64(i))
			room := resource.NewQuantity(int64(all)+1, resource.DecimalSI)
			n.Status.Allocatable[corev1.ResourcePods], n.Status.Allocatable[corev1.ResourceMemory] = *room, resource.MustParse("64Ti")
		})
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
	decisions := map[string]*minikctl.Decision{}
	collect := func() { // before later ones take their place in memory
		list, err := c.client.List(context.Background(), client.Target{Resource: minikctl.Decisions, Namespace: "default"}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			d := item.(*minikctl.Decision)
			decisions[d.Name] = d
		}
	}
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
		if g%5 == 0 {
			collect()
		}
	}
	arrive(all)
	for i := range all {
		c.bound(fmt.Sprintf("p-%d", i))
	}
	c.eventually("all decisions reported", func() bool {
		collect()
		return len(decisions) >= all+1
	})
	scheduled, used := map[string]int{}, map[int64]bool{}
	for _, d := range decisions {
		if d.Outcome != "Scheduled" {
			t.Errorf("pod %s: %s: %s", d.Pod, d.Outcome, d.Message)
			continue
		}
		scheduled[d.Pod]++
		used[d.ConfigGeneration] = true
		if want := color(d.ConfigGeneration); d.ConfigGeneration < 1 || d.ConfigGeneration > int64(swaps) || d.Node[:len(want)] != want {
			t.Errorf("pod %s is on node %s under the configuration of generation %d, which allows %s", d.Pod, d.Node, d.ConfigGeneration, want)
		}
		if p, ok := c.pods.Get(keyOf(d.Pod)); !ok || p.Spec.NodeName != d.Node {
			t.Errorf("pod %s is bound to %v, and its decision has node %s", d.Pod, p, d.Node)
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
	t.Logf("%d pods, %d changes: the pods were scheduled under %d configurations", len(scheduled), swaps, len(used))
}
