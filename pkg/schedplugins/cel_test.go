package schedplugins

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

func celConfig(t *testing.T, args string) *configv1.KubeSchedulerConfiguration {
	t.Helper()
	conf := &configv1.KubeSchedulerConfiguration{}
	text := header + "profiles:\n- plugins: {multiPoint: {enabled: [{name: CEL/a, weight: 100}]}}\n  pluginConfig:\n  - {name: CEL/a, args: " + args + "}\n"
	if err := plug.Decode([]byte(text), conf); err != nil {
		t.Fatal(err)
	}
	return conf
}

func celNode(name string, cpu string, labels map[string]string) *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("10")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: "soft", Value: name, Effect: corev1.TaintEffectPreferNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: amounts}}
}

// TestCEL schedules a pod on one of three nodes by expressions: n1 has a disk of type ssd, n2 of type hdd, n3 has no label.
func TestCEL(t *testing.T) {
	nodes := []*corev1.Node{
		celNode("n1", "1500m", map[string]string{"disk": "ssd", "rank": "1"}), celNode("n2", "1750m", map[string]string{"disk": "hdd", "rank": "-7"}), celNode("n3", "4", nil),
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Labels: map[string]string{"want": "hdd"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}}}}
	for _, c := range []struct{ name, args, want string }{
		{"filter", `{filter: "has(node.labels.disk) && node.labels.disk == 'ssd'"}`, "n1"},
		{"a missing label rejects the node", `{filter: "node.labels.disk == 'hdd'"}`, "n2"},
		{"by the pod", `{filter: "node.labels[?'disk'].orValue('') == pod.labels.want"}`, "n2"},
		{"amounts", `{filter: "node.allocatable.cpu - node.requested.cpu - pod.requests.cpu > 1.1 && node.allocatable.cpu < 2"}`, "n2"},
		{"taints", `{filter: "node.taints.exists(t, t.value == 'n2' && t.effect == 'PreferNoSchedule')"}`, "n2"},
		{"greatest integer", `{score: "node.labels[?'rank'].hasValue() ? int(node.labels.rank) : -100"}`, "n1"},
		{"negative scores", `{score: "node.labels[?'rank'].hasValue() ? -int(node.labels.rank) : -100"}`, "n2"},
		{"fractions", `{score: "-node.allocatable.cpu / 10.0"}`, "n1"},
		{"without normalisation", `{score: "node.name == 'n2' ? 100 : 0", normalize: None}`, "n2"},
		{"rejected", `{filter: "node.name == pod.name"}`, "0/3 nodes are available: 3 node(s) didn't satisfy the CEL filter node.name == pod.name. "},
		{"rejected with a message", `{filter: "false", message: not on Sundays}`, "0/3 nodes are available: 3 not on Sundays. "},
		{"fails on all", `{filter: "node.labels.none == 'x'"}`, "0/3 nodes are available: 3 node(s) on which the CEL filter node.labels.none == 'x' fails: no such key: none. "},
		{"score fails", `{score: "int(node.labels.disk)"}`, `running Score plugin "CEL/a": CEL score int(node.labels.disk) on node n1: type conversion error`},
		{"score out of range", `{score: "101", normalize: None}`, `plugin "CEL/a" returns an invalid score 101`},
		{"too expensive", `{filter: "[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, [1,2,3,4,5,6,7,8].all(d, [1,2,3,4,5,6,7,8].all(e, [1,2,3,4,5,6,7,8].all(f, a+b+c+d+e+f > 0))))))"}`, "cost limit exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Config: celConfig(t, c.args), Nodes: nodes, Pod: pod})
			if err != nil {
				t.Fatal(err)
			}
			if text := got.Node + got.Message; !strings.Contains(text, c.want) || got.Node != "" && got.Node != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// TestCELSignature verifies that pods which differ in what an expression reads have different signatures, and others equal ones.
func TestCELSignature(t *testing.T) {
	sign := func(args minikctl.CELArgs, pod *corev1.Pod) string {
		args.Normalize = minikctl.NormalizeMinMax
		p, err := newCEL(args, nil)
		if err != nil {
			t.Fatal(err)
		}
		fragments, _ := p.(*celPlugin).SignPod(context.Background(), pod)
		b, err := json.Marshal(fragments)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	a := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "1"}}}
	b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"x": "1"}}}
	for _, c := range []struct {
		args  minikctl.CELArgs
		equal bool
	}{
		{minikctl.CELArgs{Filter: "pod.labels.x == '1'"}, true},
		{minikctl.CELArgs{Filter: "pod.labels.x == '1'", Score: "size(pod.name)"}, false},
		{minikctl.CELArgs{Filter: "node.name == 'a'"}, true},
		{minikctl.CELArgs{Filter: "[pod].exists(p, p.name == node.name)"}, false},
	} {
		if got := sign(c.args, a) == sign(c.args, b); got != c.equal {
			t.Errorf("%+v: equal signatures: %v, want %v", c.args, got, c.equal)
		}
	}
}

// TestEffectiveConfig verifies that the configuration with all defaults filled in runs the same as the one that it was made of.
func TestEffectiveConfig(t *testing.T) {
	for i, text := range []string{
		header,
		header + `percentageOfNodesToScore: 40
parallelism: 3
podMaxBackoffSeconds: 99
profiles:
- schedulerName: a
  percentageOfNodesToScore: 7
  plugins: {multiPoint: {enabled: [{name: CEL/x, weight: 3}, {name: TaintToleration, weight: 9}], disabled: [{name: ImageLocality}]}, score: {disabled: [{name: NodeAffinity}]}}
  pluginConfig: [{name: CEL/x, args: {score: node.pods}}, {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
- schedulerName: b
  plugins: {multiPoint: {disabled: [{name: "*"}]}, queueSort: {enabled: [{name: PrioritySort}]}, bind: {enabled: [{name: DefaultBinder}]}, filter: {enabled: [{name: NodeName}]}}
`} {
		conf := &configv1.KubeSchedulerConfiguration{}
		if err := plug.DecodePaths([]byte(text), conf); err != nil {
			t.Fatal(err)
		}
		first, err := scheduler.Inspect(context.Background(), Registry, conf)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := scheduler.EncodeConfig(first.Config)
		if err != nil {
			t.Fatal(err)
		}
		again := &configv1.KubeSchedulerConfiguration{}
		if err := plug.DecodePaths(raw, again); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		second, err := scheduler.Inspect(context.Background(), Registry, again)
		if err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		if !reflect.DeepEqual(first.Profiles, second.Profiles) {
			t.Errorf("%d: got %+v\nwant %+v", i, second.Profiles, first.Profiles)
		}
		if raw2, err := scheduler.EncodeConfig(second.Config); err != nil || string(raw2) != string(raw) {
			t.Errorf("%d: %v\n%s\n%s", i, err, raw, raw2)
		}
		if i == 1 {
			for _, want := range []string{`"parallelism":3`, `"podInitialBackoffSeconds":1`, `"podMaxBackoffSeconds":99`, `"score":"node.pods","normalize":"MinMax"`, `"hardPodAffinityWeight":1`, `"type":"MostAllocated"`} {
				if !strings.Contains(string(raw), want) {
					t.Errorf("lacks %s:\n%s", want, raw)
				}
			}
			if got := fmt.Sprint(first.Profiles[0].Points[6]); got != "{score [{TaintToleration 9} {NodeResourcesFit 1} {PodTopologySpread 2} {InterPodAffinity 2} {DynamicResources 2} {NodeResourcesBalancedAllocation 1} {CEL/x 3}]}" {
				t.Errorf("score of the first profile: %s", got)
			}
		}
	}
}

// TestListPlugins verifies that the list has each plugin of the registry, with its extension points and default arguments.
func TestListPlugins(t *testing.T) {
	list, err := scheduler.ListPlugins(context.Background(), Registry)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]scheduler.PluginInfo{}
	for _, p := range list {
		found[p.Name] = p
	}
	if len(found) != len(Registry)-2 { // CEL/* is listed with CEL, and Wasm/* with Wasm
		t.Errorf("got %d plugins of %d", len(found), len(Registry))
	}
	for name, want := range map[string]string{
		"CEL":             `{CEL [preFilter filter preScore score] false 0 {"normalize":"MinMax"} true}`,
		"Wasm":            `{Wasm [preFilter filter postFilter preScore score reserve permit preBind bind postBind] false 0 {"guestURL":""} true}`,
		"TaintToleration": `{TaintToleration [filter preScore score] true 3  false}`,
		"PrioritySort":    `{PrioritySort [queueSort] true 0  false}`,
	} {
		p := found[name]
		if got := fmt.Sprintf("{%s %v %v %d %s %v}", p.Name, p.Points, p.Default, p.Weight, p.Args, p.Instances); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
