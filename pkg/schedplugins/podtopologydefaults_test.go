package schedplugins

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// selecting returns what selects pods by their labels "app" and "tier".
func selecting() []objects.Object {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	return []objects.Object{
		&corev1.Service{ObjectMeta: meta("front"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web", "tier": "front"}}},
		&corev1.Service{ObjectMeta: meta("back"), Spec: corev1.ServiceSpec{Selector: map[string]string{"tier": "back"}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Namespace: "other"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}},
		&corev1.Service{ObjectMeta: meta("without")},
		&corev1.ReplicationController{ObjectMeta: meta("rc"), Spec: corev1.ReplicationControllerSpec{Selector: web.MatchLabels}},
		&appsv1.ReplicaSet{ObjectMeta: meta("rs"), Spec: appsv1.ReplicaSetSpec{Selector: web}},
		&appsv1.StatefulSet{ObjectMeta: meta("set"), Spec: appsv1.StatefulSetSpec{Selector: web}},
	}
}

func controlledBy(apiVersion, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: new(true)}}
	}
}

// withLabels gives a pod labels: pairs are keys and values.
func withLabels(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = labelled(pairs...) }
}

// spreadScores returns the scores of PodTopologySpread by node; "" if it does not score.
func spreadScores(nodes []scheduler.NodeScore) string {
	var out []string
	for _, n := range nodes {
		for _, s := range n.Plugins {
			if s.Plugin == "PodTopologySpread" {
				out = append(out, fmt.Sprintf("%s %d", n.Node, s.Score/s.Weight))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestSystemDefaultSpread schedules a pod beside two pods with app=web on node a in zone 1 and one with tier=back on node b in zone 2.
// The scores are those of kube-scheduler's formula: 2 pods on a node and in its zone weigh 2·ln 4 each, and 2 and 4 are
// added for the skews of 3 and 5, so that a's raw score is 12 and that of b and c is 6.
func TestSystemDefaultSpread(t *testing.T) {
	on := func(name, zone string) *corev1.Node {
		n := someNode(name)
		n.Labels = map[string]string{corev1.LabelHostname: name}
		if zone != "" {
			n.Labels[corev1.LabelTopologyZone] = zone
		}
		return n
	}
	own := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}}}
	}
	zones := []*corev1.Node{on("a", "1"), on("b", "2")}
	for name, c := range map[string]struct {
		nodes  []*corev1.Node
		change []func(*corev1.Pod)
		want   string // scores of the plugin; "": it does not score
	}{
		"a Service":                       {zones, []func(*corev1.Pod){withLabels("app", "web", "tier", "front")}, "a 100 b 100"}, // no other pod has both labels
		"a Service of other pods":         {zones, []func(*corev1.Pod){withLabels("app", "web")}, ""},
		"another Service":                 {zones, []func(*corev1.Pod){withLabels("tier", "back", "app", "x")}, "a 100 b 66"},
		"a ReplicationController":         {zones, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("v1", "ReplicationController", "rc")}, "a 50 b 100"},
		"a ReplicaSet":                    {zones, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("apps/v1", "ReplicaSet", "rs")}, "a 50 b 100"},
		"a ReplicaSet and a Service":      {zones, []func(*corev1.Pod){withLabels("app", "web", "tier", "front"), controlledBy("apps/v1", "ReplicaSet", "rs")}, "a 100 b 100"},
		"a StatefulSet":                   {zones, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("apps/v1", "StatefulSet", "set")}, "a 50 b 100"},
		"a ReplicaSet that is gone":       {zones, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("apps/v1", "ReplicaSet", "gone")}, ""},
		"a Job":                           {zones, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("batch/v1", "Job", "rs")}, ""},
		"a ReplicaSet of another group":   {zones, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("example.com/v1", "ReplicaSet", "rs")}, ""},
		"no labels":                       {zones, nil, ""},
		"own constraints":                 {zones, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("apps/v1", "ReplicaSet", "rs"), own}, ""},
		"a node without a zone":           {[]*corev1.Node{on("a", "1"), on("b", "")}, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("apps/v1", "ReplicaSet", "rs")}, "a 16 b 100"},
		"no node with a zone":             {[]*corev1.Node{on("a", ""), on("b", "")}, []func(*corev1.Pod){withLabels("app", "web"), controlledBy("apps/v1", "ReplicaSet", "rs")}, "a 40 b 100"},
		"another namespace than the pods": {zones, []func(*corev1.Pod){withLabels("app", "web"), func(p *corev1.Pod) { p.Namespace = "other" }}, "a 100 b 100"},
	} {
		t.Run(name, func(t *testing.T) {
			pods := []*corev1.Pod{somePod("1", "a", withLabels("app", "web")), somePod("2", "a", withLabels("app", "web")), somePod("3", "b", withLabels("tier", "back"))}
			out, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Nodes: c.nodes, Pods: pods, Selecting: selecting(),
				Pod: somePod("p", "", c.change...)})
			if err != nil {
				t.Fatal(err)
			}
			if got := spreadScores(out.Scores); got != c.want {
				t.Errorf("scores %q, want %q; %s", got, c.want, out.Message)
			}
		})
	}
}

func TestDefaultConstraints(t *testing.T) {
	hard := `{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]}`
	nodes := []*corev1.Node{someNode("a"), someNode("b")}
	for _, n := range nodes {
		n.Labels = map[string]string{corev1.LabelHostname: n.Name}
	}
	pods := []*corev1.Pod{somePod("1", "a", withLabels("app", "web")), somePod("2", "b"), somePod("3", "b")} // b has less room
	web := somePod("p", "", withLabels("app", "web"), controlledBy("apps/v1", "ReplicaSet", "rs"))
	for name, c := range map[string]struct {
		args string
		pod  *corev1.Pod
		want string
	}{
		"a constraint that must hold":    {hard, web, "b"},
		"… for a pod that has no owner":  {hard, somePod("p", "", withLabels("app", "web")), "a"},
		"none":                           {`{defaultingType: List}`, web, "a"},
		"one that the other nodes lack":  {strings.Replace(hard, "kubernetes.io/hostname", "rack", 1), web, "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints (missing required label). no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."},
		"with a selector":                {`{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, web, "error: profiles[0].pluginConfig[0].args.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod"},
		"with the type System":           {`{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}`, web, `error: profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty`},
		"without skew, key and action":   {`{defaultingType: List, defaultConstraints: [{}]}`, web, `error: profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf), profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: Required value: can not be empty, profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty`},
		"twice":                          {`{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}`, web, `error: profiles[0].pluginConfig[0].args.defaultConstraints[1]: Duplicate value: "{a, ScheduleAnyway}"`},
		"with an action that is not one": {`{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: Never}]}`, web, `error: profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway"`},
		"of a type that is not one":      {`{defaultingType: Some}`, web, `error: profiles[0].pluginConfig[0].args.defaultingType: Unsupported value: "Some": supported values: "System", "List"`},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config(t, fmt.Sprintf("profiles: [{pluginConfig: [{name: PodTopologySpread, args: %s}]}]", c.args))
			out, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Config: conf, Nodes: nodes, Pods: pods, Selecting: selecting(), Pod: c.pod})
			got := out.Node + out.Message
			if err != nil {
				got = "error: " + strings.Trim(err.Error(), "[]")
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
