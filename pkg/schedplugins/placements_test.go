package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

const rackKey = "example.com/rack"

// inRack labels a node with its rack.
func inRack(rack string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[rackKey] = rack }
}

// rackGroup creates a gang whose pods have to be in one rack.
func (c *cluster) rackGroup(name string, minCount int) {
	c.t.Helper()
	c.create(client.Target{Resource: podGroupResource, Namespace: "default"}, groupWithKey(name, rackKey, minCount))
}

// groupWithKey returns a gang with a topology constraint, or without one if key is "".
func groupWithKey(name, key string, minCount int) *schedulingv1alpha2.PodGroup {
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(minCount)}
	if key != "" {
		g.Spec.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{Topology: []schedulingv1alpha2.TopologyConstraint{{Key: key}}}
	}
	return g
}

// TestRackGang creates a gang that has room in one of two racks only, though the other has the emptiest node.
func TestRackGang(t *testing.T) {
	c := newCluster(t, withFeatures(feature.All))
	c.node("a1", "4", inRack("a"))
	c.node("b1", "2", inRack("b"))
	c.node("b2", "2", inRack("b"))
	c.node("b3", "2", inRack("b"))
	c.node("free", "64")
	c.start(func(cfg *scheduler.Config) { cfg.Features = feature.All })
	c.rackGroup("g", 5)
	for i := range 5 {
		c.pod(fmt.Sprintf("p%d", i), "1", inGroup("g"))
	}
	for i := range 5 {
		if node := c.bound(fmt.Sprintf("p%d", i)); !strings.HasPrefix(node, "b") {
			t.Errorf("p%d is on %s, want a node of rack b", i, node)
		}
	}
	placements := c.decision("p0", "Scheduled").Group.Placements
	if len(placements) != 2 || placements[0].Name != "b" || placements[0].Outcome != "Chosen" || placements[0].Placed != 5 || placements[0].Nodes != 3 ||
		placements[1].Name != "a" || placements[1].Outcome != "Unschedulable" || placements[1].Placed != 4 || placements[1].Blocking == nil {
		t.Errorf("placements: %+v", placements)
	}
}

// TestRackGangs creates random gangs with a topology constraint on random racks. The pods of a gang run in one rack, at least its minCount or none,
// and it does not wait while a rack has room for it. When a gang ends, others take its room, until all have run.
func TestRackGangs(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			c := newCluster(t, withFeatures(feature.All))
			racks := map[string]int{} // room for pods
			for i := range 6 {
				rack, cpus := fmt.Sprint(r.IntN(3)), 1+r.IntN(3)
				racks[rack] += cpus
				c.node(fmt.Sprintf("n%d-%s", i, rack), fmt.Sprint(cpus), inRack(rack))
			}
			c.node("outside", "99")
			c.start(func(cfg *scheduler.Config) {
				cfg.Features = feature.All
				cfg.Config = &configv1.KubeSchedulerConfiguration{PodInitialBackoffSeconds: new(int64(1)), PodMaxBackoffSeconds: new(int64(1))}
			})
			largest := slices.Max(slices.Collect(maps.Values(racks)))
			var gangs []gang
			for i := range 5 {
				g := gang{name: fmt.Sprintf("g%d", i), need: 1 + r.IntN(largest)}
				g.size = g.need + r.IntN(2)
				gangs = append(gangs, g)
				c.rackGroup(g.name, g.need)
				for k := range g.size {
					c.pod(fmt.Sprintf("%s-%d", g.name, k), "1", inGroup(g.name))
				}
			}
			for len(gangs) > 0 {
				var on map[string]map[string]int
				c.converges(func() string { on = c.racksOf(); return settledInRacks(gangs, on, racks) })
				i := slices.IndexFunc(gangs, func(g gang) bool { return len(on[g.name]) > 0 })
				for k := range gangs[i].size {
					c.remove(fmt.Sprintf("%s-%d", gangs[i].name, k))
				}
				gangs = slices.Delete(gangs, i, i+1)
			}
		})
	}
}

// racksOf returns how many pods of each gang are bound in each rack.
func (c *cluster) racksOf() map[string]map[string]int {
	out := map[string]map[string]int{}
	for _, p := range c.pods.List("default", labels.Everything()) {
		key, ok := podref.PodGroup(p)
		if !ok || p.Spec.NodeName == "" {
			continue
		}
		if out[key.Name] == nil {
			out[key.Name] = map[string]int{}
		}
		_, rack, _ := strings.Cut(p.Spec.NodeName, "-")
		out[key.Name][rack]++
	}
	return out
}

// settledInRacks returns what is wrong with the bound pods of gangs on this room, or "".
func settledInRacks(gangs []gang, on map[string]map[string]int, racks map[string]int) string {
	free := maps.Clone(racks)
	for _, g := range gangs {
		for rack, n := range on[g.name] {
			free[rack] -= n
		}
	}
	for _, g := range gangs {
		if len(on[g.name]) > 1 {
			return fmt.Sprintf("%+v runs in %v", g, on[g.name])
		}
		for rack, n := range on[g.name] {
			switch {
			case n < g.need:
				return fmt.Sprintf("%d pods of %+v run", n, g)
			case n < g.size && free[rack] > 0:
				return fmt.Sprintf("%d pods of %+v run in rack %s with room for %d more", n, g, rack, free[rack])
			}
		}
		for rack, room := range free {
			if len(on[g.name]) == 0 && room >= g.need {
				return fmt.Sprintf("%+v does not run in rack %s with room for %d", g, rack, room)
			}
		}
	}
	return ""
}

// narrowed is TopologyPlacementGenerator with a parent placement of some of the nodes. It keeps what it returned.
type narrowed struct {
	topologyPlacement
	parent []string
	got    map[string][]string
	status *framework.Status
}

func (p *narrowed) GeneratePlacements(ctx context.Context, state framework.PodGroupCycleState, group framework.PodGroupInfo, all *framework.Placement) (*framework.GeneratePlacementsResult, *framework.Status) {
	parent := &framework.Placement{Name: "parent", Nodes: named(all.Nodes, p.parent)}
	result, status := p.topologyPlacement.GeneratePlacements(ctx, state, group, parent)
	p.status, p.got = status, map[string][]string{}
	if result != nil {
		for _, placement := range result.Placements {
			for _, n := range placement.Nodes {
				p.got[placement.Name] = append(p.got[placement.Name], n.Node().Name)
			}
		}
	}
	return result, status
}

// named returns the nodes with these names.
func named(nodes []framework.NodeInfo, names []string) []framework.NodeInfo {
	return slices.DeleteFunc(slices.Clone(nodes), func(n framework.NodeInfo) bool { return !slices.Contains(names, n.Node().Name) })
}

// TestGeneratePlacements has the cases of Kubernetes' test of this name.
func TestGeneratePlacements(t *testing.T) {
	type byNode = map[string]string // key=value
	two := byNode{"node0": "topology2=d1", "node1": "topology2=d4", "node2": "topology1=d1", "node3": "topology1=d2", "node4": "topology1=d1", "node5": "topology1=d3"}
	for _, x := range []struct {
		name           string
		key            string
		scheduled      map[string]string // nodes of pods of the group
		parent, others byNode
		want           map[string][]string
		err            string
	}{
		{"without constraint returns placement matching all nodes", "", nil, byNode{"node1": "", "node2": "foo=bar"}, byNode{"node3": ""}, map[string][]string{"parent": {"node1", "node2"}}, ""},
		{"with topology key constraint, returns placement for each topology domain", "topology1", nil, two, nil,
			map[string][]string{"d1": {"node2", "node4"}, "d2": {"node3"}, "d3": {"node5"}}, ""},
		{"without matching topology label, returns empty", "topology3", nil, two, nil, map[string][]string{}, ""},
		{"with pods already scheduled in a single domain, returns that domain", "topology", map[string]string{"pod1": "node2", "pod2": "node3"},
			byNode{"node0": "topology=d2", "node1": "topology=d1"}, byNode{"node2": "topology=d1", "node3": "topology=d1"}, map[string][]string{"d1": {"node1"}}, ""},
		{"with pods already scheduled in a single domain not present in current placement, returns empty", "topology", map[string]string{"pod1": "node2", "pod2": "node3"},
			byNode{"node0": "topology=d2"}, byNode{"node2": "topology=d1", "node3": "topology=d1"}, map[string][]string{}, ""},
		{"with pods already scheduled in conflicting domains, returns error", "topology", map[string]string{"pod1": "node2", "pod2": "node3"},
			byNode{"node0": "topology=d2", "node1": "topology=d1"}, byNode{"node2": "topology=d0", "node3": "topology=d1"}, nil,
			"cannot determine domain for already scheduled pods: more than 1 domain found for pod group: "},
		{"with already scheduled pod on node outside of snapshot, returns error", "topology", map[string]string{"pod1": "node2", "pod2": "node4"},
			byNode{"node0": "topology=d2", "node1": "topology=d1"}, byNode{"node2": "topology=d1", "node3": "topology=d1"}, nil,
			`cannot determine domain for already scheduled pods: getting node for pod default/pod2: nodeinfo not found for node name "node4"`},
		{"with already scheduled pod on node without topology label, returns error", "topology", map[string]string{"pod1": "node2"},
			byNode{"node1": "topology=d2"}, byNode{"node2": "foo=bar"}, nil, "cannot determine domain for already scheduled pods: no topology domain found for pod default/pod1"},
	} {
		t.Run(x.name, func(t *testing.T) {
			spy := &narrowed{parent: slices.Collect(maps.Keys(x.parent))}
			registry := maps.Clone(Registry)
			registry["TopologyPlacementGenerator"] = func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
				spy.handle = h
				return spy, nil
			}
			q := scheduler.Simulation{Registry: registry, Features: feature.All,
				Objects: map[framework.EventResource][]objects.Object{framework.PodGroup: {groupWithKey("pg1", x.key, 1)}}}
			for _, nodes := range []byNode{x.parent, x.others} {
				for name, label := range nodes {
					n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
					if key, value, ok := strings.Cut(label, "="); ok {
						n.Labels[key] = value
					}
					q.Nodes = append(q.Nodes, n)
				}
			}
			member := func(name, node string) *corev1.Pod {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: node}}
				inGroup("pg1")(p)
				return p
			}
			for name, node := range x.scheduled {
				q.Pods = append(q.Pods, member(name, node))
			}
			box, err := scheduler.NewSandbox(t.Context(), q, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close(t.Context())
			if _, err := box.ScheduleGroup(t.Context(), []*corev1.Pod{member("unscheduled", "")}, 1); err != nil {
				t.Fatal(err)
			}
			if x.err == "" && !spy.status.IsSuccess() || x.err != "" && (spy.status.Code() != framework.Error || !strings.HasPrefix(spy.status.Message(), x.err)) {
				t.Fatalf("got status %v, want error %q", spy.status.AsError(), x.err)
			}
			if x.err == "" && !reflect.DeepEqual(spy.got, x.want) {
				t.Errorf("got %v, want %v", spy.got, x.want)
			}
		})
	}
}

// countHandle is a Handle whose group has a number of pods with nodes.
type countHandle struct {
	framework.Handle
	framework.SharedLister
	framework.PodGroupState
	scheduled int
}

func (h countHandle) SnapshotSharedLister() framework.SharedLister        { return h }
func (h countHandle) PodGroupStates() framework.PodGroupStateLister       { return h }
func (h countHandle) Get(string, string) (framework.PodGroupState, error) { return h, nil }
func (h countHandle) ScheduledPodsCount() int                             { return h.scheduled }

type proposed struct {
	pod  *corev1.Pod
	node string
}

func (p proposed) GetPod() *corev1.Pod { return p.pod }
func (p proposed) GetNodeName() string { return p.node }

type someGroup struct{ framework.PodGroupInfo }

func (someGroup) GetNamespace() string { return "default" }
func (someGroup) GetName() string      { return "g" }

// TestPodGroupPodsCount checks that the pods that have nodes are counted, and those that get one.
func TestPodGroupPodsCount(t *testing.T) {
	of := &framework.PodGroupAssignments{ProposedAssignments: []framework.ProposedAssignment{proposed{}, proposed{}}}
	for scheduled, want := range []int64{2, 3, 4, 5} {
		p := newPodGroupPodsCount(countHandle{scheduled: scheduled}).(framework.PlacementScorePlugin)
		if got, status := p.ScorePlacement(t.Context(), nil, someGroup{}, of); got != want || !status.IsSuccess() {
			t.Errorf("%d pods with nodes: got %d, %v, want %d", scheduled, got, status, want)
		}
	}
}

// TestNormalizePlacementScore has the cases of Kubernetes' test of this name.
func TestNormalizePlacementScore(t *testing.T) {
	for _, x := range []struct {
		name         string
		scores, want []int64
		err          string
	}{
		{"distinct scores", []int64{10, 50, 110}, []int64{9, 45, 100}, ""},
		{"equal scores", []int64{50, 50}, []int64{100, 100}, ""},
		{"single score", []int64{50}, []int64{100}, ""},
		{"some minimal score that is far from a group of scores located closely", []int64{11, 100, 101, 102}, []int64{10, 98, 99, 100}, ""},
		{"zero scores", []int64{0, 0}, nil, "no pods from pod group are assigned to any of the candidate placements"},
	} {
		var scores []framework.PlacementScore
		for _, v := range x.scores {
			scores = append(scores, framework.PlacementScore{Score: v})
		}
		status := podGroupPodsCount{}.NormalizePlacementScore(t.Context(), nil, nil, scores)
		var got []int64
		for _, v := range scores {
			got = append(got, v.Score)
		}
		if status.Message() != x.err || x.err == "" && !slices.Equal(got, x.want) {
			t.Errorf("%s: got %v, %v, want %v, %q", x.name, got, status, x.want, x.err)
		}
	}
}

// TestScorePlacementResources has the cases of Kubernetes' TestScorePlacement_Resources.
func TestScorePlacementResources(t *testing.T) {
	type amounts struct{ cpu, memory, gpus string }
	const gpu = "nvidia.com/gpu"
	list := func(a amounts) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, v := range map[corev1.ResourceName]string{corev1.ResourceCPU: a.cpu, corev1.ResourceMemory: a.memory, gpu: a.gpus} {
			if v != "" {
				out[name] = resource.MustParse(v)
			}
		}
		return out
	}
	pod := func(a amounts) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list(a)}}}}}
	}
	node, gpuNode := amounts{"5", "5000", ""}, amounts{"5", "5000", "5"}
	small, large := amounts{"1", "0", ""}, amounts{"2", "2000", ""}
	cpuAndMemory := func(cpu int64) []configv1.ResourceSpec {
		return []configv1.ResourceSpec{{Name: "cpu", Weight: cpu}, {Name: "memory", Weight: 1}}
	}
	withGPU := append(cpuAndMemory(1), configv1.ResourceSpec{Name: gpu, Weight: 1})
	for _, x := range []struct {
		name      string
		nodes     []amounts
		outside   int // how many of the nodes are outside of the placement
		pods      []amounts
		on        []int // the node of each pod
		before    []amounts
		resources []configv1.ResourceSpec
		want      int64
	}{
		{"Computes score based on total requests", []amounts{node, node}, 0, []amounts{small, large}, []int{0, 1}, nil, cpuAndMemory(1), 25},
		{"Computes score using weights", []amounts{node, node}, 0, []amounts{small, large}, []int{0, 1}, nil, cpuAndMemory(4), 28},
		{"Handles multiple pods per node", []amounts{node, node}, 0, []amounts{small, large}, []int{0, 0}, nil, cpuAndMemory(4), 28},
		{"Does not include nodes from outside of placement", []amounts{node, node, node}, 1, []amounts{small, large}, []int{0, 1}, nil, cpuAndMemory(1), 25},
		{"Includes pre-existing pods from outside of pod group", []amounts{node, node}, 0, []amounts{small, large}, []int{0, 1}, []amounts{small}, cpuAndMemory(1), 30},
		{"Includes scalar resources if any pod in pod group has nonzero requests", []amounts{gpuNode, gpuNode}, 0,
			[]amounts{{"1", "0", "0"}, {"1", "2000", "1"}}, []int{0, 1}, []amounts{{"1", "0", "0"}}, withGPU, 20},
		{"Does not include scalar resources if all pods in pod group have zero requests", []amounts{gpuNode, gpuNode}, 0,
			[]amounts{{"1", "0", "0"}, {"1", "2000", "0"}}, []int{0, 1}, []amounts{{"1", "0", "1"}}, withGPU, 25},
	} {
		t.Run(x.name, func(t *testing.T) {
			strategy := &configv1.ScoringStrategy{Type: configv1.LeastAllocated, Resources: x.resources}
			plugin, err := newFit(configv1.NodeResourcesFitArgs{ScoringStrategy: strategy}, withoutDevices{})
			if err != nil {
				t.Fatal(err)
			}
			var nodes []*corev1.Node
			for i, a := range x.nodes {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Status: corev1.NodeStatus{Allocatable: list(a)}})
			}
			var before []*corev1.Pod
			for _, a := range x.before {
				p := pod(a)
				p.Spec.NodeName = "0"
				before = append(before, p)
			}
			of := &framework.PodGroupAssignments{Placement: &framework.Placement{Nodes: infosOf(t, nodes, before)[:len(nodes)-x.outside]}}
			for i, a := range x.pods {
				of.ProposedAssignments = append(of.ProposedAssignments, proposed{pod(a), fmt.Sprint(x.on[i])})
			}
			got, status := plugin.(framework.PlacementScorePlugin).ScorePlacement(t.Context(), nil, someGroup{}, of)
			if got != x.want || !status.IsSuccess() {
				t.Errorf("got %d, %v, want %d", got, status, x.want)
			}
		})
	}
}

// infosOf returns the NodeInfos of a cluster as its plugins see them.
func infosOf(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod) []framework.NodeInfo {
	t.Helper()
	var handle framework.Handle
	registry := maps.Clone(Registry)
	registry["NodeName"] = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
		handle = h
		return Registry["NodeName"](ctx, args, h)
	}
	box, err := scheduler.NewSandbox(t.Context(), scheduler.Simulation{Registry: registry, Nodes: nodes, Pods: pods}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(context.Background()) })
	infos, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	return infos
}

// placementPlugin is an out-of-tree plugin with the extension points of placements, and a filter.
type placementPlugin struct {
	name       string
	placements map[string][]string // the nodes of each placement
	scores     map[string]int64
	rejects    []string // nodes
	generate   *framework.Status
	score      map[string]*framework.Status
	normalise  *framework.Status
	strange    func(framework.NodeInfo) framework.NodeInfo // makes the nodes of placements; nil: they are the given ones
	fault      func(point string)                          // misbehaves
}

func (p *placementPlugin) at(point string) {
	if p.fault != nil {
		p.fault(point)
	}
}

func (p *placementPlugin) Name() string { return p.name }

func (p *placementPlugin) GeneratePlacements(_ context.Context, _ framework.PodGroupCycleState, _ framework.PodGroupInfo, all *framework.Placement) (*framework.GeneratePlacementsResult, *framework.Status) {
	p.at("PlacementGenerate")
	out := &framework.GeneratePlacementsResult{}
	for _, name := range slices.Sorted(maps.Keys(p.placements)) {
		nodes := named(all.Nodes, p.placements[name])
		for i := range nodes {
			if p.strange != nil {
				nodes[i] = p.strange(nodes[i])
			}
		}
		out.Placements = append(out.Placements, &framework.Placement{Name: name, Nodes: nodes})
	}
	return out, p.generate
}

func (p *placementPlugin) ScorePlacement(_ context.Context, _ framework.PodGroupCycleState, _ framework.PodGroupInfo, of *framework.PodGroupAssignments) (int64, *framework.Status) {
	p.at("PlacementScore")
	return p.scores[of.Name], p.score[of.Name]
}

func (p *placementPlugin) PlacementScoreExtensions() framework.PlacementScoreExtensions { return p }

func (p *placementPlugin) NormalizePlacementScore(context.Context, framework.PodGroupCycleState, framework.PodGroupInfo, []framework.PlacementScore) *framework.Status {
	p.at("NormalizePlacementScore")
	return p.normalise
}

func (p *placementPlugin) Filter(_ context.Context, _ framework.CycleState, _ *corev1.Pod, node framework.NodeInfo) *framework.Status {
	p.at("Filter")
	if slices.Contains(p.rejects, node.Node().Name) {
		return framework.NewStatus(framework.Unschedulable, "refused by the test")
	}
	return nil
}

// placementConfig is a configuration with placementPlugins instead of the plugins of placements, and their weights.
func placementConfig(weights []int32) *configv1.KubeSchedulerConfiguration {
	plugins := &configv1.Plugins{}
	plugins.PlacementGenerate = configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}, Enabled: []configv1.Plugin{{Name: "P0"}}}
	plugins.Filter.Enabled = []configv1.Plugin{{Name: "P0"}}
	plugins.PlacementScore.Disabled = []configv1.Plugin{{Name: "*"}}
	for i, w := range weights {
		plugins.PlacementScore.Enabled = append(plugins.PlacementScore.Enabled, configv1.Plugin{Name: fmt.Sprintf("P%d", i), Weight: &w})
	}
	return &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{Plugins: plugins}}}
}

// TestPodGroupSchedulingPlacementAlgorithm has the cases of Kubernetes' two tests of this name, and others, through the API: a pod of a group is
// scheduled on one of two nodes, or its group has a condition with the reason.
func TestPodGroupSchedulingPlacementAlgorithm(t *testing.T) {
	failed := framework.AsStatus(errors.New("error for test"))
	both := map[string][]string{"placement1": {"node1"}, "placement2": {"node2"}}
	type scores = map[string]int64
	for _, x := range []struct {
		name    string
		plugins []placementPlugin
		weights []int32
		node    string
		reason  string // of the condition, if the pod has no node
		message string
		pod     string // the pod's message; "": that of the condition
	}{
		{name: "respects higher score of placement1", plugins: []placementPlugin{{placements: both, scores: scores{"placement1": 2, "placement2": 1}}}, node: "node1"},
		{name: "respects higher score of placement2", plugins: []placementPlugin{{placements: both, scores: scores{"placement1": 1, "placement2": 2}}}, node: "node2"},
		{name: "when no placements are generated, returns unschedulable", plugins: []placementPlugin{{}}, reason: "Unschedulable", message: "no feasible placements found"},
		{name: "when all placements are infeasible, returns unschedulable", plugins: []placementPlugin{{placements: both, rejects: []string{"node1", "node2"}}}, reason: "Unschedulable",
			message: "0/2 placements are available, first placement status: pod group is unschedulable",
			pod:     "0/1 nodes are available: 1 refused by the test. no new claims to deallocate, preemption: not eligible due to placement-based pod group scheduling limitation"},
		{name: "filters out infeasible placements", plugins: []placementPlugin{{placements: both, rejects: []string{"node2"}, scores: scores{"placement2": 9}}}, node: "node1"},
		{name: "when generate plugin fails, returns error", plugins: []placementPlugin{{placements: both, generate: failed}}, reason: "SchedulerError", message: "error for test"},
		{name: "when score plugin fails, returns error", plugins: []placementPlugin{{placements: both, score: map[string]*framework.Status{"placement2": failed}}}, reason: "SchedulerError",
			message: `running PlacementScore plugins: plugin "P0" failed with: error for test`},
		{name: "when the normalization fails, returns error", plugins: []placementPlugin{{placements: both, normalise: failed}}, reason: "SchedulerError",
			message: `running NormalizePlacementScore on PlacementScore plugins: plugin "P0" failed with: error for test`},
		{name: "when a score is too high, returns error", plugins: []placementPlugin{{placements: both, scores: scores{"placement1": 101}}}, reason: "SchedulerError",
			message: `applying score defaultWeights on PlacementScore plugins: plugin "P0" returns an invalid score 101, it should in the range of [0, 100] after normalizing`},
		{name: "Scoring: respects higher score of placement1", weights: []int32{1, 2}, node: "node1",
			plugins: []placementPlugin{{placements: both, scores: scores{"placement1": 50, "placement2": 75}}, {scores: scores{"placement1": 25, "placement2": 10}}}},
		{name: "Scoring: respects higher score of placement2", weights: []int32{1, 2}, node: "node2",
			plugins: []placementPlugin{{placements: both, scores: scores{"placement1": 75, "placement2": 50}}, {scores: scores{"placement1": 10, "placement2": 25}}}},
		{name: "when a node is a copy, returns error", plugins: []placementPlugin{{placements: both, strange: func(n framework.NodeInfo) framework.NodeInfo { return n.Snapshot() }}}, reason: "SchedulerError",
			message: "failed to assume pod group placement: node node1 in placement is not the same instance as in the snapshot"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newCluster(t, withFeatures(feature.All))
			c.node("node1", "4")
			c.node("node2", "4")
			weights := x.weights
			if weights == nil {
				weights = []int32{1}
			}
			c.start(func(cfg *scheduler.Config) {
				cfg.Features, cfg.Config, cfg.Registry = feature.All, placementConfig(weights), maps.Clone(Registry)
				for i := range x.plugins {
					p := &x.plugins[i]
					p.name = fmt.Sprintf("P%d", i)
					cfg.Registry[p.name] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return p, nil }
				}
			})
			c.rackGroup("pg", 1)
			c.pod("foo", "1", inGroup("pg"))
			if x.node != "" {
				if got := c.bound("foo"); got != x.node {
					t.Errorf("the pod is on %s, want %s", got, x.node)
				}
				return
			}
			c.converges(func() string {
				if cond := c.groupCondition("pg"); cond == nil || cond.Status != metav1.ConditionFalse || cond.Reason != x.reason || cond.Message != x.message {
					return fmt.Sprintf("condition %+v", cond)
				}
				return ""
			})
			outcome := "Unschedulable"
			if x.reason == "SchedulerError" {
				outcome = "Error"
			}
			want := x.pod
			if want == "" {
				want = x.message
			}
			if d := c.decision("foo", outcome); d.Message != want {
				t.Errorf("the pod's message is %q, want %q", d.Message, want)
			}
		})
	}
}

// TestPlacementFaults checks that a panic or a hanging call ends the attempt of a group, and that the group and other pods are scheduled afterwards.
func TestPlacementFaults(t *testing.T) {
	for _, point := range []string{"PlacementGenerate", "PlacementScore", "NormalizePlacementScore", "Filter"} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s hangs=%v", point, hangs), func(t *testing.T) {
				t.Parallel() // each waits for seconds of the machine's time
				release := make(chan struct{})
				message := fmt.Sprintf("running %s plugin %q: panic: boom", point, "P0")
				misbehave := func() { panic("boom") }
				if hangs {
					message = fmt.Sprintf("running %s plugin %q: the plugin did not return within 1s", point, "P0")
					misbehave = func() { <-release }
				}
				var once sync.Once
				var misbehaved atomic.Bool
				p := &placementPlugin{name: "P0", placements: map[string][]string{"1": {"node1"}, "2": {"node2"}}, scores: map[string]int64{"1": 1}, fault: func(at string) {
					if at == point && misbehaved.CompareAndSwap(false, true) {
						misbehave()
					}
				}}
				c := newCluster(t, withFeatures(feature.All))
				for _, name := range []string{"node1", "node2", "node3"} {
					c.node(name, "4")
				}
				c.start(func(cfg *scheduler.Config) {
					cfg.Features, cfg.Config, cfg.Registry = feature.All, placementConfig([]int32{1}), maps.Clone(Registry)
					cfg.Config.PodInitialBackoffSeconds, cfg.Config.PodMaxBackoffSeconds = new(int64(1)), new(int64(1))
					cfg.Timeouts = scheduler.PluginTimeouts{Cycle: time.Second, Binding: time.Second}
					cfg.Registry[p.name] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return p, nil }
				})
				t.Cleanup(func() { once.Do(func() { close(release) }) })
				c.rackGroup("g", 1)
				c.pod("p", "1", inGroup("g"))
				failed := message
				if point == "Filter" {
					failed = "failed to schedule other pod from a pod group: " + message
				}
				c.converges(func() string {
					if d := c.decision("p", "Error"); d.Message == message && d.Group.Message == failed {
						return ""
					}
					return "no decision " + message
				})
				once.Do(func() { close(release) })
				if got := c.bound("p"); got != "node1" {
					t.Errorf("the pod is on %s, want node1", got)
				}
				c.pod("alone", "1", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node3"} })
				c.bound("alone")
			})
		}
	}
}

// withoutDevices is the Handle of a cluster without classes of devices.
type withoutDevices struct{ framework.Handle }

func (withoutDevices) SharedDRAManager() framework.SharedDRAManager { return managerOf{} }
