package scheduler_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

var clusters = flag.Int("engine.clusters", 1500, "random clusters of TestIncrementalEngine")

// TestIncrementalEngine checks that the engine makes the same decisions, with the same messages and scores of each plugin, as
// one that filters and scores every node for every pod, while pods with and without topology spread constraints and
// (anti-)affinity, required and preferred, are scheduled and removed and nodes change.
func TestIncrementalEngine(t *testing.T) {
	kept, clusters := 0, seeds(*clusters)
	for seed := range clusters {
		kept += compareEngines(t, uint64(seed))
		if t.Failed() {
			t.Fatalf("cluster %d", seed)
		}
	}
	if kept < 2*clusters {
		t.Errorf("%d evaluations were updated in %d clusters: the test compares little", kept, clusters)
	}
}

// seeds returns a number of random clusters, and a fifteenth of it with -short, which make race gives: the goroutines are the same in all of
// them, and the race detector takes six times as long.
func seeds(n int) int {
	if testing.Short() {
		return n / 15
	}
	return n
}

// compareEngines compares the engines in one cluster, and returns how many pods were scheduled by an updated evaluation.
func compareEngines(t *testing.T, seed uint64) int {
	w := generator{Rand: rand.New(rand.NewPCG(seed, 2))}
	naive := scheduler.NewBench(t, schedplugins.Registry, nil, seed, true, selecting()...)
	engine := scheduler.NewBench(t, schedplugins.Registry, nil, seed, false, selecting()...)
	naive.Explain, engine.Explain = true, true
	both := func(f func(*scheduler.Bench)) { f(naive); f(engine) }
	nodes := 2 + w.IntN(9)
	for i := range nodes {
		n := w.topology(w.node(i))
		both(func(b *scheduler.Bench) { b.SetNode(n) })
	}
	shapes := make([]*corev1.Pod, 1+w.IntN(4))
	for i := range shapes {
		if shapes[i] = w.related(w.pod(i)); i > 0 && w.IntN(2) == 0 { // the same terms, another label
			shapes[i] = shapes[i-1].DeepCopy()
			shapes[i].Labels = map[string]string{"app": w.pick("web", "db", "cache"), "tier": "front"}
		}
	}
	var scheduled []*corev1.Pod
	for i := range 10 + w.IntN(20) {
		p := shapes[w.IntN(len(shapes))].DeepCopy()
		named := w.pod(1000*int(seed%7+1) + i)
		p.Name, p.UID = named.Name, named.UID
		want, got := naive.Schedule(p), engine.Schedule(p)
		if got != want || engine.Scores != naive.Scores {
			t.Errorf("pod %d: the engine returns %q with scores %s, without updates %q with %s", i, got, engine.Scores, want, naive.Scores)
			return 0
		}
		scheduled = append(scheduled, p)
		for range w.IntN(3) {
			if w.IntN(3) == 0 {
				k := w.IntN(len(scheduled))
				gone := scheduled[k]
				scheduled = append(scheduled[:k], scheduled[k+1:]...)
				both(func(b *scheduler.Bench) { b.RemovePod(gone) })
				if len(scheduled) == 0 {
					break
				}
			}
		}
		switch w.IntN(30) {
		case 0:
			n := w.topology(w.node(w.IntN(nodes)))
			both(func(b *scheduler.Bench) { b.SetNode(n) })
		case 1:
			name := fmt.Sprintf("n%02d", w.IntN(nodes))
			both(func(b *scheduler.Bench) { b.RemoveNode(name) })
		}
	}
	return engine.Updated()
}

// topology changes a node's topology labels; some nodes lack one.
func (w generator) topology(n *corev1.Node) *corev1.Node {
	n.Labels[corev1.LabelTopologyZone] = w.pick("a", "b", "c")
	n.Labels["rack"] = w.pick("r1", "r2")
	if w.IntN(8) == 0 {
		delete(n.Labels, w.pick(corev1.LabelTopologyZone, corev1.LabelHostname, "rack"))
	}
	n.Spec.Unschedulable = n.Spec.Unschedulable && w.IntN(2) == 0
	return n
}

// selecting returns Services and controllers, by whose selectors pods without constraints are spread.
func selecting() []objects.Object {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
	return []objects.Object{
		&corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}},
		&corev1.Service{ObjectMeta: meta("front"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db", "tier": "front"}}},
		&appsv1.ReplicaSet{ObjectMeta: meta("cache"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}}}},
	}
}

// related gives most pods topology spread constraints or terms of (anti-)affinity.
func (w generator) related(p *corev1.Pod) *corev1.Pod {
	p.Namespace = w.pick("default", "default", "other")
	p.Spec.Containers[0].Ports = nil
	if w.IntN(2) == 0 {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cache", Controller: new(true)}}
	}
	if w.IntN(3) > 0 {
		for range 1 + w.IntN(2) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, w.constraint())
		}
	}
	if w.IntN(3) > 0 {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		w.addTerms(p.Spec.Affinity)
	}
	return p
}

func (w generator) constraint() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + w.IntN(3)), TopologyKey: w.topologyKey(), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: w.selector(),
	}
	if w.IntN(2) == 0 {
		c.WhenUnsatisfiable = corev1.ScheduleAnyway
	} else if w.IntN(4) == 0 {
		least := int32(1 + w.IntN(4))
		c.MinDomains = &least
	}
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	if w.IntN(4) == 0 {
		c.NodeTaintsPolicy = &honor
	}
	if w.IntN(4) == 0 {
		c.NodeAffinityPolicy = &ignore
	}
	if w.IntN(4) == 0 {
		c.MatchLabelKeys = []string{"app"}
	}
	return c
}

func (w generator) topologyKey() string {
	return w.pick(corev1.LabelTopologyZone, corev1.LabelHostname, "rack")
}

func (w generator) selector() *metav1.LabelSelector {
	switch w.IntN(8) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"db"}}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.pick("web", "db", "cache")}}
}

func (w generator) term() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: w.topologyKey(), LabelSelector: w.selector()}
	switch w.IntN(6) {
	case 0:
		t.Namespaces = []string{"default", "other"}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	}
	return t
}

func (w generator) addTerms(a *corev1.Affinity) {
	if w.IntN(2) == 0 {
		a.PodAffinity = &corev1.PodAffinity{}
		if w.IntN(2) == 0 {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{w.term()}
		}
		if w.IntN(2) == 0 {
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + w.IntN(50)), PodAffinityTerm: w.term()}}
		}
	}
	if w.IntN(2) == 0 {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		if w.IntN(2) == 0 {
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{w.term()}
		}
		if w.IntN(2) == 0 {
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + w.IntN(50)), PodAffinityTerm: w.term()}}
		}
	}
}
