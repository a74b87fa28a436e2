package schedplugins

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

func someNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("10Gi"), "pods": resource.MustParse("10"), "example.com/gpu": resource.MustParse("2")}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts}}
	for _, f := range change {
		f(n)
	}
	return n
}

func somePod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "web:1"}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func requests(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities(pairs...) }
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func hostPort(port int32, ip string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port, ContainerPort: port, HostIP: ip, Protocol: corev1.ProtocolTCP}}
	}
}

func taint(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func tolerate(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

func declares(features ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.DeclaredFeatures = features }
}

// restartsAll makes a pod require the node feature RestartAllContainersOnContainerExits.
func restartsAll(p *corev1.Pod) {
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
}

const noRoom = " no new claims to deallocate, preemption: 0/1 nodes are available: 1 "

// TestFilter runs Filter on one node, with passing and rejected cases for each plugin.
func TestFilter(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, c := range []struct {
		name string
		node *corev1.Node
		pods []*corev1.Pod
		pod  *corev1.Pod
		want string // "": the pod fits
	}{
		{"empty node", someNode("n"), nil, somePod("p", ""), ""},
		{"cordoned", someNode("n", func(n *corev1.Node) { n.Spec.Unschedulable = true }), nil, somePod("p", ""), "1 node(s) were unschedulable."},
		{"cordoned and tolerated", someNode("n", func(n *corev1.Node) { n.Spec.Unschedulable = true }), nil, somePod("p", "", tolerate("node.kubernetes.io/unschedulable")), ""},
		{"NoSchedule", someNode("n", taint("x", corev1.TaintEffectNoSchedule)), nil, somePod("p", ""), "1 node(s) had untolerated taint(s)."},
		{"NoExecute", someNode("n", taint("x", corev1.TaintEffectNoExecute)), nil, somePod("p", ""), "1 node(s) had untolerated taint(s)."},
		{"undeclared feature", someNode("n"), nil, somePod("p", "", restartsAll), "1 node(s) didn't match Pod's required features."},
		{"declared feature", someNode("n", declares("RestartAllContainersOnContainerExits")), nil, somePod("p", "", restartsAll), ""},
		{"another declared feature", someNode("n", declares("ExtendWebSocketsToKubelet")), nil, somePod("p", "", restartsAll), "1 node(s) didn't match Pod's required features."},
		{"PreferNoSchedule", someNode("n", taint("x", corev1.TaintEffectPreferNoSchedule)), nil, somePod("p", ""), ""},
		{"tolerated", someNode("n", taint("x", corev1.TaintEffectNoSchedule)), nil, somePod("p", "", tolerate("x")), ""},
		{"node selector", someNode("n"), nil, somePod("p", "", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), "1 node(s) didn't match Pod's node affinity/selector."},
		{"port taken", someNode("n"), []*corev1.Pod{somePod("o", "n", hostPort(80, ""))}, somePod("p", "", hostPort(80, "127.0.0.1")), "1 node(s) didn't have free ports for the requested pod ports."},
		{"port of another address", someNode("n"), []*corev1.Pod{somePod("o", "n", hostPort(80, "127.0.0.2"))}, somePod("p", "", hostPort(80, "127.0.0.1")), ""},
		{"cpu", someNode("n"), []*corev1.Pod{somePod("o", "n", requests("cpu", "3500m"))}, somePod("p", "", requests("cpu", "600m")), "1 Insufficient cpu."},
		{"cpu, just enough", someNode("n"), []*corev1.Pod{somePod("o", "n", requests("cpu", "3500m"))}, somePod("p", "", requests("cpu", "500m")), ""},
		{"several", someNode("n"), []*corev1.Pod{somePod("o", "n", requests("cpu", "4", "memory", "8Gi"))}, somePod("p", "", requests("cpu", "1", "memory", "1")), "1 Insufficient cpu, 1 Insufficient memory."},
		{"storage", someNode("n"), nil, somePod("p", "", requests("ephemeral-storage", "11Gi")), "1 Insufficient ephemeral-storage."},
		{"extended", someNode("n"), []*corev1.Pod{somePod("o", "n", requests("example.com/gpu", "2"))}, somePod("p", "", requests("example.com/gpu", "1")), "1 Insufficient example.com/gpu."},
		{"init container larger than the sum", someNode("n"), nil, somePod("p", "", requests("cpu", "1"), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "5")}}}
		}), "1 Insufficient cpu."},
		{"sidecar adds up", someNode("n"), nil, somePod("p", "", requests("cpu", "3"), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "2")}}}
		}), "1 Insufficient cpu."},
		{"overhead adds up", someNode("n"), nil, somePod("p", "", requests("cpu", "3"), func(p *corev1.Pod) { p.Spec.Overhead = quantities("cpu", "2") }), "1 Insufficient cpu."},
		{"pod-level requests", someNode("n"), nil, somePod("p", "", requests("cpu", "1"), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities("cpu", "5")}
		}), "1 Insufficient cpu."},
		{"too many", someNode("n", func(n *corev1.Node) { n.Status.Allocatable["pods"] = resource.MustParse("1") }), []*corev1.Pod{somePod("o", "n")}, somePod("p", ""), "1 Too many pods."},
		{"resource claims", someNode("n"), nil, somePod("p", "", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("c")}}
		}), `could not find ResourceClaim "default/c".`},
		{"volume claims", someNode("n"), nil, somePod("p", "", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}), "persistentvolumeclaim \"c\" not found."},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Nodes: []*corev1.Node{c.node}, Pods: c.pods, Pod: c.pod})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if got.Node != c.node.Name {
					t.Errorf("turned down: %s", got.Message)
				}
				return
			}
			if c.name == "volume claims" {
				if want := "0/1 nodes are available: " + c.want + " not found"; got.Message != want {
					t.Errorf("got  %s\nwant %s", got.Message, want)
				}
				return
			}
			if want := "0/1 nodes are available: " + c.want + noRoom; len(got.Message) < len(want) || got.Message[:len(want)] != want {
				t.Errorf("got  %s\nwant %s…", got.Message, want)
			}
		})
	}
}

// TestFitScore compares the scores of a node by each strategy, when it is empty and when it is full.
func TestFitScore(t *testing.T) {
	shape := `{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 50, score: 10}, {utilization: 100, score: 2}]}}`
	gpu := `{type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: example.com/gpu, weight: 3}]}`
	for _, c := range []struct {
		strategy  string
		used, pod []string
		want      int64
	}{
		{"{type: LeastAllocated}", nil, []string{"cpu", "1", "memory", "2Gi"}, 75},
		{"{type: LeastAllocated}", []string{"cpu", "2", "memory", "2Gi"}, []string{"cpu", "1", "memory", "2Gi"}, 37},
		{"{type: MostAllocated}", nil, []string{"cpu", "1", "memory", "2Gi"}, 25},
		{"{type: MostAllocated}", []string{"cpu", "2", "memory", "2Gi"}, []string{"cpu", "1", "memory", "2Gi"}, 62},
		{gpu, nil, []string{"cpu", "1", "example.com/gpu", "1"}, 43},
		{gpu, nil, []string{"cpu", "1"}, 25}, // an extended resource that the pod does not request does not count
		{shape, nil, []string{"cpu", "1", "memory", "2Gi"}, 50},
		{shape, []string{"cpu", "1", "memory", "2Gi"}, []string{"cpu", "1", "memory", "2Gi"}, 100},
		{shape, []string{"cpu", "2", "memory", "4Gi"}, []string{"cpu", "1", "memory", "2Gi"}, 60},
	} {
		t.Run(fmt.Sprint(c.strategy, c.used, c.pod), func(t *testing.T) {
			conf := &configv1.KubeSchedulerConfiguration{}
			if err := plug.Decode([]byte(header+"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: "+c.strategy+"}}]}]"), conf); err != nil {
				t.Fatal(err)
			}
			var pods []*corev1.Pod
			if c.used != nil {
				pods = append(pods, somePod("o", "n", requests(c.used...)))
			}
			got, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Config: conf, Nodes: []*corev1.Node{someNode("n")}, Pods: pods, Pod: somePod("p", "", requests(c.pod...))})
			if err != nil || got.Node == "" {
				t.Fatal(got.Message, err)
			}
			for _, p := range got.Scores[0].Plugins {
				if p.Plugin == "NodeResourcesFit" && p.Score != c.want {
					t.Errorf("got %d, want %d", p.Score, c.want)
				}
			}
		})
	}
}

// TestArguments checks the effect of each plugin's arguments.
func TestArguments(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"ignored resource", `[{name: NodeResourcesFit, args: {ignoredResources: [example.com/gpu]}}]`, ""},
		{"ignored group", `[{name: NodeResourcesFit, args: {ignoredResourceGroups: [example.com]}}]`, ""},
		{"not ignored", `[{name: NodeResourcesFit, args: {ignoredResourceGroups: [example.org]}}]`, "0/1 nodes are available: 1 Insufficient example.com/gpu." + noRoom + "Preemption is not helpful for scheduling."},
		{"added affinity", `[{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}}]`,
			"0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity." + noRoom + "Preemption is not helpful for scheduling."},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := &configv1.KubeSchedulerConfiguration{}
			if err := plug.Decode([]byte(header+"profiles: [{pluginConfig: "+c.config+"}]"), conf); err != nil {
				t.Fatal(err)
			}
			pod := somePod("p", "", requests("example.com/gpu", "5"))
			got, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Config: conf, Nodes: []*corev1.Node{someNode("n")}, Pod: pod})
			if err != nil || got.Message != c.want {
				t.Errorf("got  %q, %v\nwant %q", got.Message, err, c.want)
			}
		})
	}
}
