package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// rackNode returns a node of a rack; "" is none.
func rackNode(name, rack, cpu string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}}}
	if rack != "" {
		n.Labels["rack"] = rack
	}
	return n
}

// rackGroup returns a PodGroup whose pods have to be in one rack.
func rackGroup(name string) *schedulingv1alpha2.PodGroup {
	return &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: schedulingv1alpha2.PodGroupSpec{
		SchedulingPolicy:      schedulingv1alpha2.PodGroupSchedulingPolicy{Basic: &schedulingv1alpha2.BasicSchedulingPolicy{}},
		SchedulingConstraints: &schedulingv1alpha2.PodGroupSchedulingConstraints{Topology: []schedulingv1alpha2.TopologyConstraint{{Key: "rack"}}}}}
}

// groupPods returns n pods of a group.
func groupPods(group string, n int, cpu string) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		p := sandboxPod(fmt.Sprintf("%s-%d", group, i), 0, cpu)
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		out = append(out, p)
	}
	return out
}

func newRacks(t testing.TB, q scheduler.Simulation, groups ...string) *scheduler.Sandbox {
	t.Helper()
	q.Features = feature.All
	q.Objects = map[framework.EventResource][]objects.Object{}
	for _, g := range groups {
		q.Objects[framework.PodGroup] = append(q.Objects[framework.PodGroup], rackGroup(g))
	}
	if q.Registry == nil {
		q.Registry = schedplugins.Registry
	}
	box, err := scheduler.NewSandbox(t.Context(), q, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(context.Background()) })
	return box
}

// TestSandboxPlacements schedules groups in the fullest rack that has room for them.
func TestSandboxPlacements(t *testing.T) {
	nodes := []*corev1.Node{rackNode("a1", "a", "8"), rackNode("b1", "b", "2"), rackNode("b2", "b", "2"), rackNode("c1", "c", "1"), rackNode("outside", "", "64")}
	box := newRacks(t, scheduler.Simulation{Nodes: nodes}, "first", "second", "third")
	schedule := func(group string, n, need int) []scheduler.ScheduleResult {
		t.Helper()
		out, err := box.ScheduleGroup(t.Context(), groupPods(group, n, "1"), need)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, p := range schedule("first", 3, 3) { // 3 of the 4 CPUs of rack b are more than 3 of the 8 of rack a
		if !strings.HasPrefix(p.Node, "b") {
			t.Errorf("first: got %+v, want a node of rack b", p)
		}
	}
	for _, p := range schedule("second", 8, 8) {
		if p.Node != "a1" {
			t.Errorf("second: got %+v, want a1", p)
		}
	}
	third := schedule("third", 2, 2)
	const first = "0/3 placements are available, first placement status: pod group is unschedulable: 0 of its 2 pods find a node, and 2 have to; pod default/third-0 finds no node: "
	if p := third[0]; p.Node != "" || !strings.HasPrefix(p.Message, "0/1 nodes are available: 1 Insufficient cpu.") {
		t.Errorf("third: got %+v", p)
	}
	out, err := box.ScheduleGroup(t.Context(), append(groupPods("third", 1, "0"), groupPods("third", 2, "9")[1]), 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.NewReplacer("0 of its", "1 of its", "third-0 finds", "third-1 finds").Replace(first); out[0].Node != "" || !strings.HasPrefix(out[0].Message, want) {
		t.Errorf("a pod that finds a node: got %+v, want the message %s…", out[0], want)
	}
	if again := schedule("third", 1, 1)[0]; !strings.HasPrefix(again.Node, "b") && !strings.HasPrefix(again.Node, "c") {
		t.Errorf("the group that found no room has taken some: %+v", again)
	}
}

// TestSandboxPlacementAlone schedules the pods of a group that is no gang one by one: all go to the rack of the first one.
func TestSandboxPlacementAlone(t *testing.T) {
	nodes := []*corev1.Node{rackNode("a1", "a", "8"), rackNode("b1", "b", "2"), rackNode("outside", "", "64")}
	for _, first := range []string{"", "a1"} { // a rack that is drawn by its score, and that of a pod that has a node
		box := newRacks(t, scheduler.Simulation{Nodes: nodes}, "g")
		pods := groupPods("g", 3, "1")
		pods[0].Spec.NodeName = first
		want := map[string][]string{"": {"b1", "b1", ""}, "a1": {"a1", "a1", "a1"}}[first]
		for i, pod := range pods {
			got, err := box.Schedule(t.Context(), pod)
			if err != nil {
				t.Fatal(err)
			}
			if got.Node != want[i] || got.Node == "" && !strings.HasPrefix(got.Message, "0/1 nodes are available: 1 Insufficient cpu.") {
				t.Errorf("first on %q: %s: got %+v, want %q", first, pod.Name, got, want[i])
			}
		}
	}
}

// opaque is a Filter plugin that passes every node and signs no pod, so that no results are kept.
type opaque struct{}

func (opaque) Name() string { return "Opaque" }
func (opaque) Filter(context.Context, framework.CycleState, *corev1.Pod, framework.NodeInfo) *framework.Status {
	return nil
}

// forgetful returns the registry and the configuration of a scheduler that keeps no results.
func forgetful() (scheduler.Registry, *configv1.KubeSchedulerConfiguration) {
	registry := maps.Clone(schedplugins.Registry)
	registry["Opaque"] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
		return opaque{}, nil
	}
	plugins := &configv1.Plugins{}
	plugins.Filter.Enabled = []configv1.Plugin{{Name: "Opaque"}}
	return registry, &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{Plugins: plugins}}}
}

// TestPlacementMemo checks that kept results do not change where the pods of a group go, in random clusters with racks.
func TestPlacementMemo(t *testing.T) {
	const clusters = 60
	for seed := range uint64(clusters) {
		r := rand.New(rand.NewPCG(seed, 7))
		var nodes []*corev1.Node
		for i := range 4 + r.IntN(20) {
			n := rackNode(fmt.Sprintf("n%d", i), []string{"", "a", "b", "c"}[r.IntN(4)], fmt.Sprint(1+r.IntN(8)))
			n.Labels[corev1.LabelTopologyZone] = fmt.Sprint(r.IntN(3)) // racks share zones
			nodes = append(nodes, n)
		}
		var groups []string
		var pods [][]*corev1.Pod
		for g := range 4 {
			name := fmt.Sprintf("g%d", g)
			groups = append(groups, name)
			members := groupPods(name, 1+r.IntN(12), "1")
			rule := randomRule(r)
			for _, p := range members {
				rule(p)
			}
			pods = append(pods, members)
		}
		registry, config := forgetful()
		kept := newRacks(t, scheduler.Simulation{Nodes: nodes}, groups...)
		fresh := newRacks(t, scheduler.Simulation{Nodes: nodes, Registry: registry, Config: config}, groups...)
		for _, members := range pods {
			need := r.IntN(len(members) + 1)
			got, err := kept.ScheduleGroup(t.Context(), members, need)
			if err != nil {
				t.Fatal(err)
			}
			want, err := fresh.ScheduleGroup(t.Context(), members, need)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: got %+v, want %+v", seed, got, want)
			}
		}
	}
}

// randomRule returns a function that gives the pods of a group the same spread constraint, affinity, or neither.
func randomRule(r *rand.Rand) func(*corev1.Pod) {
	labels := map[string]string{"app": fmt.Sprint(r.IntN(2))}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	key := []string{corev1.LabelHostname, corev1.LabelTopologyZone}[r.IntN(2)]
	when := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}[r.IntN(2)]
	kind, skew := r.IntN(4), int32(1+r.IntN(3))
	return func(p *corev1.Pod) {
		p.Labels = labels
		term := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector}
		switch kind {
		case 0, 1:
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: selector}}
		case 2:
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}}
		}
	}
}

// TestPlacementNominated checks that a node for which another pod is nominated is not used by a group in another rack.
func TestPlacementNominated(t *testing.T) {
	box := newRacks(t, scheduler.Simulation{Nodes: []*corev1.Node{rackNode("a1", "a", "4"), rackNode("a2", "a", "4"), rackNode("outside", "", "64")}}, "g")
	waits := sandboxPod("waits", 0, "1")
	waits.Status.NominatedNodeName = "outside"
	box.Nominate(waits)
	members := groupPods("g", 3, "1")
	members[0].Status.NominatedNodeName = "outside" // since an attempt before the group had its constraint
	out, err := box.ScheduleGroup(t.Context(), members, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range out {
		if !strings.HasPrefix(p.Node, "a") {
			t.Errorf("got %+v, want a node of rack a", p)
		}
	}
}

// TestPlacementPoints checks which plugins a profile has at the extension points of placements, for cases of Kubernetes' tests of its framework.
func TestPlacementPoints(t *testing.T) {
	type set = configv1.PluginSet
	one := func(name string, weight int32) configv1.Plugin { return configv1.Plugin{Name: name, Weight: &weight} }
	none := configv1.Plugin{Name: "*"}
	for _, x := range []struct {
		name     string
		gates    feature.Gates
		plugins  configv1.Plugins
		generate []scheduler.PluginRef
		score    []scheduler.PluginRef
		err      string
	}{
		{name: "without the gate", score: []scheduler.PluginRef{{Name: "NodeResourcesFit", Weight: 1}}},
		{name: "with the gate", gates: feature.All, generate: []scheduler.PluginRef{{Name: "TopologyPlacementGenerator"}},
			score: []scheduler.PluginRef{{Name: "NodeResourcesFit", Weight: 1}, {Name: "PodGroupPodsCount", Weight: 1}}},
		{name: "MultiPoint", plugins: configv1.Plugins{MultiPoint: set{Disabled: []configv1.Plugin{none}, Enabled: []configv1.Plugin{one("PrioritySort", 0), one("DefaultBinder", 0), one("Both", 5)}}},
			generate: []scheduler.PluginRef{{Name: "Both"}}, score: []scheduler.PluginRef{{Name: "Both", Weight: 5}}},
		{name: "disable MultiPoint plugin at some extension points", gates: feature.All, plugins: configv1.Plugins{PlacementScore: set{Disabled: []configv1.Plugin{one("NodeResourcesFit", 0)}}},
			generate: []scheduler.PluginRef{{Name: "TopologyPlacementGenerator"}}, score: []scheduler.PluginRef{{Name: "PodGroupPodsCount", Weight: 1}}},
		{name: "Override MultiPoint plugins weights", gates: feature.All, plugins: configv1.Plugins{PlacementScore: set{Enabled: []configv1.Plugin{one("PodGroupPodsCount", 3)}}},
			generate: []scheduler.PluginRef{{Name: "TopologyPlacementGenerator"}},
			score:    []scheduler.PluginRef{{Name: "PodGroupPodsCount", Weight: 3}, {Name: "NodeResourcesFit", Weight: 1}}},
		{name: "disable and enable MultiPoint plugins with '*'", gates: feature.All, plugins: configv1.Plugins{
			PlacementGenerate: set{Disabled: []configv1.Plugin{none}, Enabled: []configv1.Plugin{one("Both", 0)}},
			PlacementScore:    set{Disabled: []configv1.Plugin{none}, Enabled: []configv1.Plugin{one("Both", 0)}}},
			generate: []scheduler.PluginRef{{Name: "Both"}}, score: []scheduler.PluginRef{{Name: "Both", Weight: 1}}},
		{name: "more than one PlacementGeneratePlugin", gates: feature.All, plugins: configv1.Plugins{PlacementGenerate: set{Enabled: []configv1.Plugin{one("Both", 0)}}},
			err: `profiles[0].plugins.placementGenerate: Forbidden: at most one placement generate plugin is allowed for profile with scheduler name "default-scheduler"`},
	} {
		t.Run(x.name, func(t *testing.T) {
			registry := maps.Clone(schedplugins.Registry)
			registry["Both"] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
				return bothPoints{}, nil
			}
			conf := &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{Plugins: &x.plugins}}}
			got, err := scheduler.InspectWith(t.Context(), scheduler.Simulation{Registry: registry, Config: conf, Features: x.gates})
			if x.err != "" {
				if err == nil || err.Error() != x.err {
					t.Errorf("got error %v, want %s", err, x.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			at := func(point string) []scheduler.PluginRef {
				points := got.Profiles[0].Points
				return points[slices.IndexFunc(points, func(p scheduler.PointInfo) bool { return p.Name == point })].Plugins
			}
			if g, s := at("placementGenerate"), at("placementScore"); !slices.Equal(g, x.generate) || !slices.Equal(s, x.score) {
				t.Errorf("got %v and %v, want %v and %v", g, s, x.generate, x.score)
			}
		})
	}
}

// bothPoints is a plugin with both extension points of placements.
type bothPoints struct{}

func (bothPoints) Name() string { return "Both" }
func (bothPoints) GeneratePlacements(_ context.Context, _ framework.PodGroupCycleState, _ framework.PodGroupInfo, all *framework.Placement) (*framework.GeneratePlacementsResult, *framework.Status) {
	return &framework.GeneratePlacementsResult{Placements: []*framework.Placement{all}}, nil
}
func (bothPoints) ScorePlacement(context.Context, framework.PodGroupCycleState, framework.PodGroupInfo, *framework.PodGroupAssignments) (int64, *framework.Status) {
	return 0, nil
}
func (bothPoints) PlacementScoreExtensions() framework.PlacementScoreExtensions { return nil }

// TestPlacementCost checks that the memory that a placement takes depends on its own nodes, and not on those of the cluster.
func TestPlacementCost(t *testing.T) {
	bytes := func(racks int) float64 {
		var nodes []*corev1.Node
		for i := range 2 * racks {
			nodes = append(nodes, rackNode(fmt.Sprintf("n%d", i), fmt.Sprint(i%racks), "64"))
		}
		box := newRacks(t, scheduler.Simulation{Nodes: nodes}, "g")
		pods := groupPods("g", 4, "1")
		schedule := func() {
			if _, err := box.ScheduleGroup(t.Context(), pods, len(pods)+1); err != nil { // one more than there are: none keeps its node
				t.Fatal(err)
			}
		}
		schedule()
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		schedule()
		goruntime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(racks)
	}
	if few, many := bytes(100), bytes(1000); many > 1.5*few {
		t.Errorf("a placement takes %.0f bytes in a cluster of 200 nodes, and %.0f in one of 2,000", few, many)
	}
}

// BenchmarkScheduleGroup schedules gangs in one of many racks, with and without kept results.
func BenchmarkScheduleGroup(b *testing.B) {
	for _, size := range []struct{ pods, racks, nodes int }{{100, 20, 1000}, {4, 2500, 5000}} {
		for _, keeps := range []bool{true, false} {
			b.Run(fmt.Sprintf("pods=%d/racks=%d/nodes=%d/keeps=%v", size.pods, size.racks, size.nodes, keeps), func(b *testing.B) {
				var nodes []*corev1.Node
				for i := range size.nodes {
					nodes = append(nodes, rackNode(fmt.Sprintf("n%d", i), fmt.Sprint(i%size.racks), "64"))
				}
				q := scheduler.Simulation{Nodes: nodes}
				if !keeps {
					q.Registry, q.Config = forgetful()
				}
				box := newRacks(b, q, "g")
				pods := groupPods("g", size.pods, "1")
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if _, err := box.ScheduleGroup(b.Context(), pods, len(pods)+1); err != nil { // one more than there are: none keeps its node
						b.Fatal(err)
					}
				}
			})
		}
	}
}
