package whatif_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

func read(t *testing.T, text string) (*whatif.Manifests, []string) {
	t.Helper()
	var list []whatif.Manifest
	for _, doc := range strings.Split(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		list = append(list, whatif.Manifest{Unstructured: u, File: "test.yaml"})
	}
	m, skipped, err := whatif.Read(list, "default")
	if err == nil {
		err = m.Complete()
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, skipped
}

// TestClassesFromElsewhere verifies that the priority classes of a pod may be read after it, and that finished pods take up nothing.
func TestClassesFromElsewhere(t *testing.T) {
	pod := func(phase string) whatif.Manifest {
		return whatif.Manifest{Unstructured: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p" + phase},
			"spec": map[string]any{"priorityClassName": "high", "nodeName": map[bool]string{true: "", false: "a"}[phase == ""]}, "status": map[string]any{"phase": phase}}}}
	}
	m, _, err := whatif.Read([]whatif.Manifest{pod(""), pod("Succeeded"), pod("Running"), pod("Failed")}, "default")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Complete(); err == nil || !strings.Contains(err.Error(), "no PriorityClass with name high was found") {
		t.Errorf("without the class: %v", err)
	}
	m.Priorities = append(m.Priorities, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7})
	if err := m.Complete(); err != nil || *m.Workloads[0].Pods[0].Spec.Priority != 7 {
		t.Errorf("with the class: %v", err)
	}
	if len(m.Pods) != 1 || m.Pods[0].Name != "pRunning" {
		t.Errorf("the pods of nodes are %v", m.Pods)
	}
}

const nodes = `apiVersion: v1
kind: Node
metadata: {name: a}
status: {capacity: {cpu: "2", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {capacity: {cpu: "2", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: old, uid: old}
spec: {nodeName: a, priority: 0, containers: [{name: c, image: x, resources: {requests: {cpu: 1500m}}}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
`

func TestRun(t *testing.T) {
	m, skipped := read(t, nodes+`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {priorityClassName: high, containers: [{name: c, image: x, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "3"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: later}], containers: [{name: c, image: x}]}
---
apiVersion: v1
kind: Pod
metadata: {name: tiny, namespace: other}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 100m}}}]}
`)
	if fmt.Sprint(skipped) != "[ConfigMap]" {
		t.Errorf("skipped %v", skipped)
	}
	got, err := whatif.Run(context.Background(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, m.Workloads, 1)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, p := range got.Pods {
		text = append(text, fmt.Sprintf("%s/%s %s %s%v", p.Namespace, p.Name, p.Node, p.Message, p.Evicts))
	}
	want := []string{
		"default/big b []", // of high priority: first, and where it evicts nothing
		"default/web-0 a []",
		"default/web-1  0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.[]",
		"default/web-2  0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.[]",
		"default/huge  0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.[]",
		"default/gated  gated by the scheduler plugin SchedulingGates: waiting for scheduling gates: [later][]",
		"other/tiny  0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.[]",
	}
	if strings.Join(text, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
	if w := fmt.Sprint(got.Workloads); w != "[{Deployment/web 1 2 0} {Pod/big 1 0 0} {Pod/huge 0 1 0} {Pod/gated 0 1 0} {Pod/tiny 0 1 0}]" {
		t.Errorf("workloads: %s", w)
	}
}

// TestMoreFit verifies that the copies that fit are counted, and that a pod of higher priority evicts.
func TestMoreFit(t *testing.T) {
	m, _ := read(t, nodes+`apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 250m}}}]}
`)
	got, err := whatif.Run(context.Background(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, m.Workloads, 1)
	if err != nil {
		t.Fatal(err)
	}
	if w := fmt.Sprint(got.Workloads); w != "[{Pod/small 1 0 9}]" { // 2.5 cores were free
		t.Errorf("workloads: %s", w)
	}
	m, _ = read(t, nodes+`apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: big}
spec: {replicas: 2, template: {spec: {priorityClassName: high, containers: [{name: c, image: x, resources: {requests: {cpu: "2"}}}]}}}
`)
	if got, err = whatif.Run(context.Background(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, m.Workloads, 1); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(got.Pods); text != "[{default big-0 ReplicaSet/big b  []} {default big-1 ReplicaSet/big a  [default/old]}]" {
		t.Errorf("pods: %s", text)
	}
}

// TestCompare compares a configuration that spreads pods with one that packs them.
func TestCompare(t *testing.T) {
	m, _ := read(t, strings.Replace(nodes, "nodeName: a, priority: 0", "nodeName: b, priority: 0", 1)+`apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: low}
spec: {replicas: 3, template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: high}
spec: {priorityClassName: high, containers: [{name: c, image: x, resources: {requests: {cpu: "2"}}}]}
`)
	pack := &configv1.KubeSchedulerConfiguration{}
	if err := yaml.Unmarshal([]byte(`{profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]}`), pack); err != nil {
		t.Fatal(err)
	}
	now := clock.Real().Now()
	tick := func() time.Time { now = now.Add(time.Second); return now }
	for _, config := range []*configv1.KubeSchedulerConfiguration{nil, pack} {
		runs, err := whatif.Compare(context.Background(), "x", m.Simulation(schedplugins.Registry, config), m.Workloads, 8, tick)
		if err != nil {
			t.Fatal(err)
		}
		evicted := 0
		for _, r := range runs {
			// The pods do not all fit: 1.5 cores run, 3.5 more are requested, and there are 4. The running pod counts once it is evicted.
			if n := r.Placed + r.Pending; n != 4 && (n != 5 || r.Preemptions == 0) || r.Pending == 0 || r.CPU > 1 || r.Throughput <= 0 || r.Throughput > 1 {
				t.Errorf("%+v", *r)
			}
			evicted += r.Preemptions
		}
		if evicted == 0 {
			t.Error("no order of arrival led to an eviction")
		}
		again, err := whatif.Compare(context.Background(), "x", m.Simulation(schedplugins.Registry, config), m.Workloads, 8, tick)
		if err != nil {
			t.Fatal(err)
		}
		for i := range runs {
			if !reflect.DeepEqual(runs[i], again[i]) {
				t.Errorf("seed %d: %+v, and again %+v", i+1, *runs[i], *again[i])
			}
		}
	}
}

func TestSummarise(t *testing.T) {
	runs := []*whatif.Result{{Placed: 1}, {Placed: 2}, {Placed: 3}}
	s := whatif.Summarise(runs, whatif.Metrics[0])
	if s.Mean != 2 || math.Abs(s.Confidence-4.303/math.Sqrt(3)) > 1e-9 {
		t.Errorf("got %+v", s)
	}
	if s := whatif.Summarise(runs[:1], whatif.Metrics[0]); s.Mean != 1 || s.Confidence != 0 {
		t.Errorf("got %+v of one run", s)
	}
}

// TestDrain drains a node with pods of a controller, of a DaemonSet, of none, and a static pod.
func TestDrain(t *testing.T) {
	pod := func(name, owner, more string) string {
		owners := ""
		if owner != "" {
			owners = fmt.Sprintf(", ownerReferences: [{apiVersion: apps/v1, kind: %s, name: o, uid: u, controller: true}]", owner)
		}
		return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: %[1]s, labels: {app: web}%s%s}\nspec: {nodeName: a, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}\n", name, owners, more)
	}
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: %s}\nstatus: {allocatable: {cpu: 2, memory: 1Gi, pods: 10}}\n"
	m, _ := read(t, fmt.Sprintf(node, "a")+"---\n"+fmt.Sprintf(node, "b")+pod("r1", "ReplicaSet", "")+pod("r2", "ReplicaSet", "")+pod("r3", "ReplicaSet", "")+
		pod("d", "DaemonSet", "")+pod("alone", "", "")+pod("static", "Node", ", annotations: {kubernetes.io/config.mirror: x}")+
		"---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: pdb, namespace: default}\nspec: {selector: {matchLabels: {app: web}}}\nstatus: {disruptionsAllowed: 1}\n")
	workloads, warnings, err := m.Drain([]string{"a"})
	if err != nil || len(workloads) != 1 || workloads[0].Name != "ReplicaSet/o" || len(workloads[0].Pods) != 3 {
		t.Fatalf("got %+v, %v", workloads, err)
	}
	if want := []string{"no controller replaces pod default/alone", "PodDisruptionBudget default/pdb allows 1 of 4 evictions at a time"}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, workloads, 1)
	if err != nil {
		t.Fatal(err)
	}
	if w := got.Workloads[0]; w.Placed != 2 || w.Pending != 1 {
		t.Errorf("placed %d, pending %d; node b has room for two", w.Placed, w.Pending)
	}
	for _, p := range got.Pods {
		if p.Node != "b" && p.Node != "" {
			t.Errorf("pod %s is on %s", p.Name, p.Node)
		}
	}
	if _, _, err := m.Drain([]string{"c"}); err == nil {
		t.Error("a node that does not exist is drained")
	}
}

// TestDryRunOfGangs checks that a gang is scheduled as a whole or not at all.
func TestDryRunOfGangs(t *testing.T) {
	for _, x := range []struct{ name, group, member, config string }{
		{"scheduling.k8s.io", "apiVersion: scheduling.k8s.io/v1alpha2\nkind: Workload\nmetadata: {name: %[1]s}\n---\napiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: %[1]s}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n---\n", "{schedulingGroup: {podGroupName: %s}, ", "{}"},
		{"scheduling.x-k8s.io", "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: %s}\nspec: {minMember: 2}\n---\n", "{", coscheduled},
	} {
		t.Run(x.name, func(t *testing.T) {
			text := "apiVersion: v1\nkind: Node\nmetadata: {name: one}\nstatus: {capacity: {cpu: \"3\", memory: 1Gi, pods: \"10\"}}\n---\n"
			for _, g := range []string{"a", "b"} {
				text += fmt.Sprintf(x.group, g)
				for i := range 2 {
					spec := x.member
					if strings.Contains(spec, "%s") {
						spec = fmt.Sprintf(spec, g)
					}
					text += fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s-%d, labels: {scheduling.x-k8s.io/pod-group: %[1]s}}\nspec: %[3]scontainers: [{name: c, image: x, resources: {requests: {cpu: \"1\"}}}]}\n---\n", g, i, spec)
				}
			}
			m, skipped := read(t, strings.TrimSuffix(text, "---\n"))
			if len(skipped) > 0 {
				t.Fatalf("skipped %v", skipped)
			}
			if err := m.Complete(); err != nil {
				t.Fatal(err)
			}
			got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, configOf(t, x.config)), &m.Cluster, m.Workloads, 1)
			if err != nil {
				t.Fatal(err)
			}
			nodes := ""
			for _, p := range got.Pods {
				nodes += p.Name + ":" + p.Node + " "
			}
			if nodes != "a-0:one a-1:one b-0: b-1: " {
				t.Errorf("got %s", nodes)
			}
			if want := "pod group is unschedulable: 1 of its 2 pods find a node, and 2 have to; pod default/b-1 finds no node: 0/1 nodes are available: 1 Insufficient cpu."; !strings.HasPrefix(got.Pods[2].Message, want) {
				t.Errorf("got %q, want %q", got.Pods[2].Message, want)
			}
		})
	}
}

// TestDryRunOfIncompleteGangs checks the messages of pods whose group is too small, or does not exist.
func TestDryRunOfIncompleteGangs(t *testing.T) {
	m, _ := read(t, `apiVersion: v1
kind: Node
metadata: {name: one}
status: {capacity: {cpu: "3", memory: 1Gi, pods: "10"}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: small}
spec: {minMember: 3}
---
apiVersion: v1
kind: Pod
metadata: {name: labelled, labels: {scheduling.x-k8s.io/pod-group: small}}
spec: {containers: [{name: c, image: x}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lost}
spec: {schedulingGroup: {podGroupName: absent}, containers: [{name: c, image: x}]}
`)
	config := &configv1.KubeSchedulerConfiguration{}
	if err := yaml.Unmarshal([]byte(`{profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}}}]}`), config); err != nil {
		t.Fatal(err)
	}
	for _, groups := range [][]objects.Object{m.PodGroups, nil} {
		m.PodGroups = groups
		got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, config), &m.Cluster, m.Workloads, 1)
		if err != nil {
			t.Fatal(err)
		}
		if want := "pod group is unschedulable: 1 of its 1 pods find a node, and 3 have to"; groups != nil && got.Pods[0].Message != want {
			t.Errorf("got %q, want %q", got.Pods[0].Message, want)
		}
		if want := `gated by the scheduler plugin GangScheduling: waiting for pods's pod group "absent" to appear in scheduling queue`; got.Pods[1].Message != want {
			t.Errorf("got %q, want %q", got.Pods[1].Message, want)
		}
	}
}
