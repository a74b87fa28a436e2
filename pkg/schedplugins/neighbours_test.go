package schedplugins

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

func selector(pairs ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labelled(pairs...)}
}

func labelled(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func zone(z string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = z }
}

func in(namespace, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Namespace, p.Labels = namespace, labelled("app", app) }
}

func awayFrom(term corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
}

func near(term corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
}

func spreads(change func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector("app", "web")}
		if change != nil {
			change(&c)
		}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c}
	}
}

// TestInterPodAffinity schedules a pod to one of two nodes in two zones, depending on the existing pods.
func TestInterPodAffinity(t *testing.T) {
	key := corev1.LabelTopologyZone
	web := somePod("web", "a", in("default", "web"))
	three := int32(3)
	for _, c := range []struct {
		name string
		pods []*corev1.Pod
		pod  *corev1.Pod
		want string
	}{
		{"near a pod", []*corev1.Pod{web}, somePod("p", "", near(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "web")})), "a"},
		{"away from a pod", []*corev1.Pod{web}, somePod("p", "", awayFrom(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "web")})), "b"},
		{"anti-affinity of the existing pod", []*corev1.Pod{somePod("web", "a", in("default", "web"), awayFrom(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "new")}))}, somePod("p", "", in("default", "new")), "b"},
		{"the first of a group", nil, somePod("p", "", in("default", "new"), near(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "new")})), "any"},
		{"no pod matches", nil, somePod("p", "", near(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "web")})), "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."},
		{"no such key", []*corev1.Pod{web}, somePod("p", "", near(corev1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: selector("app", "web")})), "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."},
		{"another namespace does not count", []*corev1.Pod{somePod("web", "a", in("other", "web"))}, somePod("p", "", near(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "web")})), "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."},
		{"another namespace by name", []*corev1.Pod{somePod("web", "a", in("other", "web"))}, somePod("p", "", near(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "web"), Namespaces: []string{"other"}})), "a"},
		{"namespaces by label", []*corev1.Pod{somePod("web", "a", in("other", "web"))}, somePod("p", "", awayFrom(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "web"), NamespaceSelector: selector("team", "red")})), "b"},
		{"their namespaces by label", []*corev1.Pod{somePod("web", "a", in("default", "web"), awayFrom(corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector("app", "new"), NamespaceSelector: selector("team", "red")}))}, somePod("p", "", in("other", "new")), "b"},
		{"spread", []*corev1.Pod{web}, somePod("p", "", in("default", "web"), spreads(nil)), "b"},
		{"spread wider", []*corev1.Pod{web}, somePod("p", "", in("default", "web"), spreads(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &three })), "b"},
		{"too few zones", []*corev1.Pod{web, somePod("web2", "b", in("default", "web"))}, somePod("p", "", in("default", "web"), spreads(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &three })), "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints."},
		{"spread over what no node has", nil, somePod("p", "", in("default", "web"), spreads(func(c *corev1.TopologySpreadConstraint) { c.TopologyKey = "rack" })), "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints (missing required label)."},
		{"spread among those with the same label", []*corev1.Pod{web}, somePod("p", "", in("default", "web"), func(p *corev1.Pod) { p.Labels["version"] = "2" }, spreads(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} })), "any"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := scheduler.Simulate(context.Background(), scheduler.Simulation{
				Registry: Registry, Nodes: []*corev1.Node{someNode("a", zone("a")), someNode("b", zone("b"))}, Pods: c.pods, Pod: c.pod,
				Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: labelled("team", "red")}}},
			})
			switch {
			case err != nil:
				t.Fatal(err)
			case c.want == "any" && got.Node != "", got.Node != "" && got.Node == c.want:
			case got.Node == "" && len(got.Message) >= len(c.want) && got.Message[:len(c.want)] == c.want && c.want != "any":
			default:
				t.Errorf("got node %q, message %q; want %s", got.Node, got.Message, c.want)
			}
		})
	}
}
