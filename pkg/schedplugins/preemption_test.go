package schedplugins

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

func withPriority(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }

// startedAt sets the start of a pod, in minutes after a fixed time.
func startedAt(minute int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)}
	}
}

func withLabel(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

func budget(selects string, allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b-" + selects, Namespace: "default"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": selects}}
	b.Status.DisruptionsAllowed = allowed
	b.Status.DisruptedPods = map[string]metav1.Time{}
	for _, name := range disrupted {
		b.Status.DisruptedPods[name] = metav1.Time{}
	}
	return b
}

// TestPreemption checks which node is chosen and which of its pods are evicted. Nodes have four CPUs.
func TestPreemption(t *testing.T) {
	low, mid, high := withPriority(0), withPriority(100), withPriority(1000)
	cpu := func(n string) func(*corev1.Pod) { return requests("cpu", n) }
	never := func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) }
	for _, c := range []struct {
		name    string
		nodes   int
		pods    []*corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		pod     *corev1.Pod
		want    string // node: victims (violations), or the reason
	}{
		{"one victim", 1, []*corev1.Pod{somePod("a", "n1", cpu("4"), low)}, nil, somePod("p", "", cpu("1"), high), "n1: a"},
		{"same priority", 1, []*corev1.Pod{somePod("a", "n1", cpu("4"), high)}, nil, somePod("p", "", cpu("1"), high),
			"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		{"policy Never", 1, []*corev1.Pod{somePod("a", "n1", cpu("4"), low)}, nil, somePod("p", "", cpu("1"), high, never),
			"preemption: not eligible due to preemptionPolicy=Never."},
		{"too large for the node", 1, []*corev1.Pod{somePod("a", "n1", cpu("4"), low)}, nil, somePod("p", "", cpu("5"), high),
			"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."},
		{"still too large without lower pods", 1, []*corev1.Pod{somePod("a", "n1", cpu("2"), high), somePod("b", "n1", cpu("2"), low)}, nil,
			somePod("p", "", cpu("3"), high), "preemption: 0/1 nodes are available: 1 Insufficient cpu."},
		{"the important ones stay", 1, []*corev1.Pod{somePod("a", "n1", cpu("1"), mid), somePod("b", "n1", cpu("1"), low), somePod("c", "n1", cpu("2"), low)}, nil,
			somePod("p", "", cpu("1"), high), "n1: c"},
		{"the one that started last goes", 1, []*corev1.Pod{somePod("a", "n1", cpu("2"), low, startedAt(2)), somePod("b", "n1", cpu("2"), low, startedAt(1))}, nil,
			somePod("p", "", cpu("2"), high), "n1: a"},
		{"several victims, the most important first", 1, []*corev1.Pod{somePod("a", "n1", cpu("2"), low), somePod("b", "n1", cpu("2"), mid)}, nil,
			somePod("p", "", cpu("4"), high), "n1: b a"},
		{"a node without violations", 2, []*corev1.Pod{somePod("a", "n1", cpu("4"), low, withLabel("app", "x")), somePod("b", "n2", cpu("4"), mid)},
			[]*policyv1.PodDisruptionBudget{budget("x", 0)}, somePod("p", "", cpu("1"), high), "n2: b"},
		{"a violation rather than none", 1, []*corev1.Pod{somePod("a", "n1", cpu("4"), low, withLabel("app", "x"))},
			[]*policyv1.PodDisruptionBudget{budget("x", 0)}, somePod("p", "", cpu("1"), high), "n1: a (1)"},
		{"protected pods are taken back first", 1,
			[]*corev1.Pod{somePod("a", "n1", cpu("2"), low, withLabel("app", "x")), somePod("b", "n1", cpu("2"), mid)},
			[]*policyv1.PodDisruptionBudget{budget("x", 0)}, somePod("p", "", cpu("2"), high), "n1: b"},
		{"the budget allows one", 1,
			[]*corev1.Pod{somePod("a", "n1", cpu("2"), low, startedAt(1), withLabel("app", "x")), somePod("b", "n1", cpu("2"), low, startedAt(2), withLabel("app", "x"))},
			[]*policyv1.PodDisruptionBudget{budget("x", 1)}, somePod("p", "", cpu("4"), high), "n1: a b (1)"},
		{"a disruption that is counted already", 1, []*corev1.Pod{somePod("a", "n1", cpu("4"), low, withLabel("app", "x"))},
			[]*policyv1.PodDisruptionBudget{budget("x", 0, "a")}, somePod("p", "", cpu("1"), high), "n1: a"},
		{"the lowest highest priority", 2, []*corev1.Pod{somePod("a", "n1", cpu("4"), mid), somePod("b", "n2", cpu("2"), low), somePod("c", "n2", cpu("2"), low)}, nil,
			somePod("p", "", cpu("4"), high), "n2: b c"},
		{"the lowest sum of priorities", 2, []*corev1.Pod{somePod("a", "n1", cpu("2"), mid), somePod("b", "n1", cpu("2"), mid), somePod("c", "n2", cpu("2"), mid), somePod("d", "n2", cpu("2"), low)}, nil,
			somePod("p", "", cpu("4"), high), "n2: c d"},
		{"negative priorities: fewer victims", 2, []*corev1.Pod{somePod("a", "n1", cpu("2"), withPriority(-10)), somePod("b", "n1", cpu("2"), withPriority(-10)), somePod("c", "n2", cpu("4"), withPriority(-10))}, nil,
			somePod("p", "", cpu("4"), high), "n2: c"},
		{"the latest start", 2, []*corev1.Pod{somePod("a", "n1", cpu("4"), low, startedAt(1)), somePod("b", "n2", cpu("4"), low, startedAt(5))}, nil,
			somePod("p", "", cpu("4"), high), "n2: b"},
		{"the first of equal nodes", 2, []*corev1.Pod{somePod("a", "n1", cpu("4"), low, startedAt(1)), somePod("b", "n2", cpu("4"), low, startedAt(1))}, nil,
			somePod("p", "", cpu("4"), high), "n1: a"},
		{"anti-affinity of a lower pod", 1, []*corev1.Pod{somePod("a", "n1", low, withLabel("app", "x"), awayFrom(corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: selector("app", "y")}))}, nil,
			somePod("p", "", high, withLabel("app", "y")), "n1: a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := preempt(t, c.nodes, c.pods, c.budgets, c.pod); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// preempt schedules a pod on nodes n1, n2, … that have no room, and describes the preemption.
func preempt(t *testing.T, nodes int, pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget, pod *corev1.Pod) string {
	t.Helper()
	cluster := scheduler.Simulation{Registry: Registry, Budgets: budgets, Pod: pod}
	for i := range nodes {
		cluster.Nodes = append(cluster.Nodes, someNode(fmt.Sprintf("n%d", i+1)))
	}
	for _, p := range pods {
		p.UID = types.UID(p.Name)
		cluster.Pods = append(cluster.Pods, p)
	}
	got, err := scheduler.Simulate(context.Background(), cluster)
	switch {
	case err != nil:
		t.Fatal(err)
	case got.Node != "":
		return "fits on " + got.Node
	case got.Preemption == nil:
		_, after, _ := strings.Cut(got.Message, "no new claims to deallocate, ")
		return after
	}
	out := got.Preemption.Node + ":"
	for _, v := range got.Preemption.Victims {
		out += " " + v.Name
	}
	if got.Preemption.Violations > 0 {
		out += fmt.Sprintf(" (%d)", got.Preemption.Violations)
	}
	return out
}

// TestPreemptionCandidates checks how many nodes are searched.
func TestPreemptionCandidates(t *testing.T) {
	for _, c := range []struct {
		args  string
		nodes int
		want  int
	}{
		{"{}", 50, 50},
		{"{minCandidateNodesAbsolute: 1}", 50, 5},
		{"{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 3}", 50, 3},
		{"{minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 0}", 50, 50},
	} {
		args, err := plug.Args([]byte(c.args), defaultPreemptionArgs)
		if err != nil {
			t.Fatal(err)
		}
		p := defaultPreemption{args: args}
		if got := p.enough(c.nodes); got != c.want {
			t.Errorf("%s: got %d of %d nodes, want %d", c.args, got, c.nodes, c.want)
		}
	}
	for args, want := range map[string]string{
		"{minCandidateNodesPercentage: 101}":                             "not in valid range [0, 100]",
		"{minCandidateNodesAbsolute: -1}":                                "not in valid range [0, inf)",
		"{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}": "cannot both be zero",
	} {
		conf := &configv1.KubeSchedulerConfiguration{}
		if err := plug.Decode([]byte(header+"profiles: [{pluginConfig: [{name: DefaultPreemption, args: "+args+"}]}]"), conf); err != nil {
			t.Fatal(err)
		}
		_, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Config: conf, Pod: somePod("p", "")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

// priority creates a PriorityClass, and returns what gives it to a pod.
func (c *cluster) priority(name string, value int32) func(*corev1.Pod) {
	c.t.Helper()
	classes := schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
	c.create(client.Target{Resource: classes}, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

// remove deletes a pod at once, as a kubelet does when it has ended.
func (c *cluster) remove(name string) {
	c.t.Helper()
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if _, err := c.client.Delete(c.ctx, client.In(client.Pods, keyOf(name)), options); err != nil {
		c.t.Fatal(err)
	}
}

// TestPreemptionInCluster checks that a preemptor evicts its victims, is nominated meanwhile, and runs in their place.
func TestPreemptionInCluster(t *testing.T) {
	c := newCluster(t)
	c.start(nil)
	c.node("n1", "4")
	low, high := c.priority("low", -5), c.priority("high", 1000)
	c.pod("low-1", "2", low)
	c.pod("low-2", "2", low)
	for _, name := range []string{"low-1", "low-2"} {
		c.bound(name)
	}
	c.pod("high", "3", high)
	for _, name := range []string{"low-1", "low-2"} {
		victim := c.until(name, "being deleted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
		i := slices.IndexFunc(victim.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
		if i < 0 {
			t.Fatalf("%s has no condition DisruptionTarget: %v", name, victim.Status.Conditions)
		}
		got := victim.Status.Conditions[i]
		if got.Reason != "PreemptionByScheduler" || got.Message != "default-scheduler: preempting to accommodate a higher priority pod" || got.Status != corev1.ConditionTrue {
			t.Errorf("%s: condition %+v", name, got)
		}
	}
	pending := c.until("high", "nominated", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName == "n1" })
	if pending.Spec.NodeName != "" {
		t.Error("high is bound before its victims have ended")
	}
	for _, name := range []string{"low-1", "low-2"} { // as a kubelet does when they have ended
		c.remove(name)
	}
	c.bound("high")
	c.event("low-1", "Preempted", "Preempted by pod "+string(pending.UID)+" on node n1")
}
