package whatif_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// templates are the files that the configurations of these tests name.
var templates = map[string]string{
	"node.yaml":     "apiVersion: v1\nkind: Node\nmetadata: {name: 'n{{.Index}}'}\nstatus: {capacity: {cpu: {{AddInt 1 .Index}}, memory: 8Gi, pods: 10}}\n",
	"small.yaml":    "apiVersion: v1\nkind: Node\nmetadata: {name: small}\nstatus: {capacity: {cpu: 1500m, memory: 8Gi, pods: 10}}\n",
	"second.yaml":   "apiVersion: v1\nkind: Node\nmetadata: {name: second}\nstatus: {capacity: {cpu: '1', memory: 8Gi, pods: 10}}\n",
	"pod.yaml":      "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-, labels: {app: web}}\nspec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}\n",
	"big.yaml":      "apiVersion: v1\nkind: Pod\nmetadata: {name: 'big-{{.Index}}'}\nspec: {containers: [{name: c, image: i, resources: {requests: {cpu: '8'}}}]}\n",
	"smaller.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: 'big-{{.Index}}'}\nspec: {nodeName: x, containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}\n",
	"grown.yaml":    "apiVersion: v1\nkind: Node\nmetadata: {name: n0}\nstatus: {capacity: {cpu: 8, memory: 8Gi, pods: 10}}\n",
	"high.yaml":     "apiVersion: v1\nkind: Pod\nmetadata: {generateName: high-}\nspec: {priorityClassName: high, containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}\n",
	"class.yaml":    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n",
	"service.yaml":  "apiVersion: v1\nkind: Service\nmetadata: {generateName: s-}\n",
	"claim.yaml":    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}\n",
	"group.yaml":    "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: 'g{{.Index}}'}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n",
	"member.yaml":   "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\nspec: {schedulingGroup: {podGroupName: 'g{{Mod .Index 2}}'}, containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}\n",
	"crd.yaml":      "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: 'g{{.Index}}'}\nspec: {minMember: 2}\n",
	"labelled.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-, labels: {scheduling.x-k8s.io/pod-group: 'g{{Mod .Index 2}}'}}\nspec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]}\n",
	"rack.yaml":     constrained,
	"racknode.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: 'r{{.Index}}', labels: {rack: 'r{{.Index}}'}}\nstatus: {capacity: {cpu: 1, memory: 8Gi, pods: 10}}\n",
	"one.yaml":      "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\nspec: {schedulingGroup: {podGroupName: a}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}\n",
	"later.yaml":    "apiVersion: scheduling.k8s.io/v1beta9\nkind: PodGroup\nmetadata: {name: g}\n",
	"typo.yaml":     "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containrs: []}\n",
	"action.yaml":   "kind: Pod\nmetadata: {name: 'p{{Mod .Index 0}}'}\n",
	"unclosed.yaml": "kind: Pod\nmetadata: {name: 'p{{.Index'}\n",
}

func readTemplate(path string) ([]byte, error) {
	text, ok := templates[filepath.Base(path)]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", path, os.ErrNotExist)
	}
	return []byte(text), nil
}

// perf returns the only workload of a configuration with these operations and parameters.
func perf(t *testing.T, ops, params string) whatif.PerfWorkload {
	t.Helper()
	text := "- name: Case\n  workloadTemplate:\n" + ops + "  workloads:\n  - name: load\n    params: {" + params + "}\n"
	list, err := whatif.ReadPerf(whatif.File{Name: "dir/perf.yaml", Data: []byte(text)}, readTemplate)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || len(list[0].Unsupported) > 0 {
		t.Fatalf("got %+v", list)
	}
	return list[0]
}

// op is an operation in the flow style of YAML.
func op(text string, args ...any) string { return "  - {" + fmt.Sprintf(text, args...) + "}\n" }

func TestPerf(t *testing.T) {
	for _, c := range []struct {
		name, ops, params string
		placed, pending   int
		preemptions       int
		seconds           float64 // of virtual time, at least
		stopped           string
	}{
		{name: "createPods", placed: 7, seconds: 0.007, params: "nodes: 2, pods: 4",
			ops: op("opcode: createNodes, countParam: $nodes") + op("opcode: createPods, count: 3") + op("opcode: createPods, countParam: $pods, podTemplatePath: pod.yaml")},
		{name: "only the measured pods", placed: 4,
			ops: op("opcode: createNodes, count: 1") + op("opcode: createPods, count: 3") + op("opcode: createPods, count: 4, collectMetrics: true")},
		{name: "startCollectingMetrics", placed: 2,
			ops: op("opcode: createNodes, count: 2") + op("opcode: startCollectingMetrics, namespaces: [a], labelSelector: {app: web}") +
				op("opcode: createPods, count: 3, namespace: b, podTemplatePath: pod.yaml") + op("opcode: createPods, count: 2, namespace: a, podTemplatePath: pod.yaml") + op("opcode: createPods, count: 3, namespace: a") +
				op("opcode: stopCollectingMetrics")},
		{name: "createPodSets", placed: 6,
			ops: op("opcode: createNodes, count: 1") + op("opcode: createNamespaces, prefix: ns, count: 3") +
				op("opcode: createPodSets, count: 3, namespacePrefix: ns, createPodsOp: {opcode: createPods, count: 2}")},
		{name: "a barrier waits for pods that do not fit", placed: 1, pending: 1, stopped: "workloadTemplate[2]: 1 of 2 pods of namespace x are scheduled, and no more within 10m0s",
			ops: op("opcode: createNodes, count: 1, nodeTemplatePath: grown.yaml") + op("opcode: createPods, count: 2, namespace: x, podTemplatePath: big.yaml, skipWaitToCompletion: true") + op("opcode: barrier")},
		{name: "Attempted is enough", placed: 1, pending: 1,
			ops: op("opcode: createNodes, count: 1, nodeTemplatePath: grown.yaml") + op("opcode: createPods, count: 2, namespace: x, podTemplatePath: big.yaml, skipWaitToCompletion: true") +
				op("opcode: barrier, namespaces: [x], stageRequirement: Attempted")},
		{name: "a node grows", placed: 1, seconds: 0.5,
			ops: op("opcode: createNodes, count: 1, nodeTemplatePath: node.yaml") + op("opcode: createPods, count: 1, namespace: x, podTemplatePath: big.yaml, skipWaitToCompletion: true") +
				op("opcode: barrier, stageRequirement: Attempted") + op("opcode: updateAny, templatePath: grown.yaml, updatePerSecond: 2") + op("opcode: barrier")},
		{name: "a pod shrinks", placed: 2,
			ops: op("opcode: createNodes, count: 1, nodeTemplatePath: grown.yaml") + op("opcode: createPods, count: 1, namespace: x, podTemplatePath: big.yaml") +
				op("opcode: createPods, count: 1, podTemplatePath: pod.yaml, skipWaitToCompletion: true") + op("opcode: barrier, stageRequirement: Attempted") +
				op("opcode: updateAny, namespace: x, templatePath: smaller.yaml, subresources: [resize]") + op("opcode: barrier")},
		{name: "deletePods makes room", placed: 3, seconds: 1,
			ops: op("opcode: createNodes, count: 1, nodeTemplatePath: node.yaml") + op("opcode: createPods, count: 2, namespace: x, podTemplatePath: pod.yaml") +
				op("opcode: createPods, count: 1, namespace: y, podTemplatePath: pod.yaml, skipWaitToCompletion: true") +
				op("opcode: deletePods, namespace: x, labelSelector: {app: web}, deletePodsPerSecond: 1, skipWaitToCompletion: true") + op("opcode: barrier, labelSelector: {app: web}")},
		{name: "preemption", placed: 1, preemptions: 2, // of the two pods on the node; they have no controller
			ops: op("opcode: createNodes, count: 1, nodeTemplatePath: node.yaml") + op("opcode: createAny, templatePath: class.yaml") + op("opcode: createPods, count: 2, podTemplatePath: pod.yaml") +
				op("opcode: createPods, count: 1, podTemplatePath: high.yaml")},
		{name: "sleep", seconds: 12.5, params: "long: 12s500ms", placed: 1,
			ops: op("opcode: createNodes, count: 1") + op("opcode: createPods, count: 1") + op("opcode: sleep, durationParam: $long")},
		{name: "churn creates", placed: 4, seconds: 3, // 3 of the churn
			ops: op("opcode: createNodes, count: 1") + op("opcode: churn, mode: create, number: 3, templatePaths: [pod.yaml, service.yaml]") + op("opcode: createPods, count: 1") + op("opcode: sleep, duration: 3s")},
		{name: "churn recreates", placed: 2, seconds: 3, // at 1 s and at 3 s
			ops: op("opcode: createNodes, count: 1") + op("opcode: churn, mode: recreate, number: 1, intervalMilliseconds: 1000, templatePaths: [pod.yaml]") + op("opcode: sleep, duration: 3500ms")},
		{name: "steady state", placed: 101, pending: 1, seconds: 0.1, // 50 batches, and the one that time cuts off
			ops: op("opcode: createNodes, count: 1") + op("opcode: createPods, count: 2, steadyState: true, duration: 101ms, collectMetrics: true")},
		{name: "labels of nodes", placed: 1,
			ops: op("opcode: createNodes, count: 2, nodeTemplatePath: node.yaml, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a]}, nodeAllocatableStrategy: {nodeAllocatable: {cpu: '9'}}") +
				op("opcode: createPods, count: 1, podTemplatePath: big.yaml")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := replay(t, perf(t, c.ops, c.params).Trace())
			end := 0.0
			if len(r.Samples) > 0 {
				end = r.Samples[len(r.Samples)-1].Time
			}
			if r.Placed != c.placed || r.Pending != c.pending || r.Preemptions != c.preemptions || r.Stopped != c.stopped || end < c.seconds {
				t.Errorf("placed %d, pending %d, preemptions %d, %v s, stopped %q", r.Placed, r.Pending, r.Preemptions, end, r.Stopped)
			}
		})
	}
}

func TestPerfErrors(t *testing.T) {
	for _, c := range []struct{ name, ops, params, want string }{
		{"opcode", op("opcode: createCats"), "", `perf.yaml: [0].workloadTemplate[0].opcode: there is no operation "createCats"`},
		{"no mapping", "  - 7\n", "", "perf.yaml: [0].workloadTemplate[0].opcode: must be a string, in a mapping"},
		{"field", op("opcode: createNodes, cuont: 1"), "", `perf.yaml: [0].workloadTemplate[0]: unknown field "cuont"`},
		{"type", op("opcode: createNodes, count: x"), "", "perf.yaml: [0].workloadTemplate[0]: count: a string is not a number"},
		{"negative", op("opcode: createNodes, count: -1"), "", "perf.yaml: [0].workloadTemplate[0].count: -1 is not a whole number from 0"},
		{"param missing", op("opcode: createNodes, countParam: $num"), "", "perf.yaml: [0].workloadTemplate[0].countParam: workload load has no parameter num"},
		{"param without $", op("opcode: createNodes, countParam: num"), "", `countParam: "num" must begin with $`},
		{"type of a param", op("opcode: createNodes, countParam: $num"), "num: x", "countParam: parameter num of workload load must be a number"},
		{"duration", op("opcode: sleep, durationParam: $long"), "long: soon", `durationParam: parameter $long: "soon" is not a duration`},
		{"no template", op("opcode: createPods, count: 1, podTemplatePath: none.yaml"), "", "[0].workloadTemplate[0].podTemplatePath: open dir/none.yaml: file does not exist"},
		{"template", op("opcode: createPods, count: 1, podTemplatePath: typo.yaml"), "", `podTemplatePath: dir/typo.yaml: unknown field "containrs"`},
		{"action", op("opcode: createPods, count: 1, podTemplatePath: action.yaml"), "", "division by zero"},
		{"unclosed", op("opcode: createPods, count: 1, podTemplatePath: unclosed.yaml"), "", "unclosed.yaml"},
		{"in a set", op("opcode: createPodSets, count: 1, createPodsOp: {opcode: createPods, count: -3}"), "", "[0].workloadTemplate[0].createPodsOp.count: -3 is not"},
		{"mode", op("opcode: churn, mode: x, templatePaths: [pod.yaml]"), "", `mode: "x" is not one of [create recreate]`},
		{"stage", op("opcode: barrier, stageRequirement: x"), "", `stageRequirement: "x" is not one of [Scheduled Attempted]`},
		{"YAML", "  - {\n", "", "yaml: line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "- name: Case\n  workloadTemplate:\n" + c.ops + "  workloads:\n  - name: load\n    params: {" + c.params + "}\n"
			_, err := whatif.ReadPerf(whatif.File{Name: "dir/perf.yaml", Data: []byte(text)}, readTemplate)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	_, err := whatif.ReadPerf(whatif.File{Name: "perf.yaml", Data: []byte("- name: x\n")}, readTemplate)
	if want := "perf.yaml: [0].workloadTemplate: required\nperf.yaml: [0].workloads: required"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPerfUnsupported(t *testing.T) {
	text := "- name: Case\n  featureGates: {Gate: true}\n  workloadTemplate:\n" + op("opcode: createPods, count: 1, podTemplatePath: claim.yaml, persistentVolumeClaimTemplatePath: pvc.yaml") + op("opcode: createResourceDriver") +
		op("opcode: createAny, templatePath: service.yaml") + "  workloads:\n  - {name: load, params: {unused: 1}}\n"
	list, err := whatif.ReadPerf(whatif.File{Name: "dir/perf.yaml", Data: []byte(text)}, readTemplate)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"[0].workloadTemplate[0].persistentVolumeClaimTemplatePath: persistent volumes are not simulated",
		"[0].workloadTemplate[0].podTemplatePath: dir/claim.yaml: spec.volumes[0]: persistent volumes are not simulated",
		"[0].workloadTemplate[1].opcode: createResourceDriver is not supported: devices and resource claims are not simulated",
		"[0].workloadTemplate[2].templatePath: dir/service.yaml: objects of the kind Service are not simulated",
	}
	if !slices.Equal(list[0].Unsupported, want) || !slices.Equal(list[0].Ignored, []string{"featureGates.Gate", "params.unused"}) {
		t.Errorf("got %q, %q", list[0].Unsupported, list[0].Ignored)
	}
}

// TestPublishedPerf replays the smallest workloads of the configurations that Kubernetes publishes, if its module is in the module cache.
func TestPublishedPerf(t *testing.T) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Skip("needs the go command, which names the module cache: ", err)
	}
	root := filepath.Join(strings.TrimSpace(string(cache)), "k8s.io/kubernetes@v1.36.3/test/integration/scheduler_perf")
	var files []string
	err = filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "performance-config.yaml" {
			files = append(files, path)
		}
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("needs the module k8s.io/kubernetes v1.36.3, which nothing imports: go mod download k8s.io/kubernetes@v1.36.3")
	}
	if err != nil || len(files) < 13 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := whatif.ReadPerf(whatif.File{Name: file, Data: data}, os.ReadFile)
		if err != nil {
			t.Error(err)
		}
		for _, w := range list {
			if len(w.Unsupported) > 0 || !slices.Contains(w.Labels, "integration-test") {
				continue
			}
			r := replay(t, w.Trace())
			if r.Placed == 0 || r.Stopped != "" {
				t.Errorf("%s: placed %d, pending %d, %s", w.Name, r.Placed, r.Pending, r.Stopped)
			}
		}
	}
}

// FuzzPerf verifies that a configuration is read or refused with its name.
func FuzzPerf(f *testing.F) {
	f.Add("- name: Case\n  workloadTemplate:\n" + op("opcode: createNodes, countParam: $n") + op("opcode: createPods, count: 1, podTemplatePath: pod.yaml") + "  workloads:\n  - {name: w, params: {n: 1}}\n")
	f.Add("- name: Case\n  workloadTemplate:\n" + op("opcode: churn, mode: recreate, number: 1, templatePaths: [node.yaml, big.yaml]") + op("opcode: createPodSets, count: 1e3, createPodsOp: {count: 1}") +
		op("opcode: sleep, duration: 1s") + op("opcode: updateAny, templatePath: grown.yaml") + "  workloads:\n  - {name: w}\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := whatif.ReadPerf(whatif.File{Name: "perf.yaml", Data: []byte(text)}, readTemplate)
		if err != nil && !strings.Contains(err.Error(), "perf.yaml") {
			t.Errorf("the error names no file: %v", err)
		}
	})
}

// TestPerfOfGangs replays gangs of both APIs in a node with room for one and a half of them, and then in a larger one.
func TestPerfOfGangs(t *testing.T) {
	for _, api := range []struct{ group, pod string }{{"group.yaml", "member.yaml"}, {"crd.yaml", "labelled.yaml"}} {
		w := perf(t, op("opcode: createNodes, count: 1, nodeTemplatePath: small.yaml")+op("opcode: createAny, namespace: x, templatePath: %s, count: 2", api.group)+
			op("opcode: createPods, namespace: x, count: 4, podTemplatePath: %s, skipWaitToCompletion: true", api.pod)+op("opcode: sleep, duration: 100s")+
			op("opcode: createNodes, count: 1, nodeTemplatePath: second.yaml")+op("opcode: barrier"), "")
		r := replay(t, w.Trace())
		if r.Stopped != "" || r.Placed != 4 || r.Gangs.Placed != 2 || r.Gangs.Pending != 0 || r.Gangs.WaitP99 < 100 || r.Gangs.WaitP99 > 110.1 {
			t.Errorf("%s: %+v %+v", api.group, *r, r.Gangs)
		}
	}
	late := perf(t, op("opcode: createNodes, count: 2, nodeTemplatePath: small.yaml")+
		op("opcode: createPods, namespace: x, count: 4, podTemplatePath: member.yaml, skipWaitToCompletion: true")+op("opcode: sleep, duration: 100s")+
		op("opcode: createAny, namespace: x, templatePath: group.yaml, count: 2")+op("opcode: sleep, duration: 50s"), "")
	if r := replay(t, late.Trace()); r.Placed == 0 || r.Gangs == nil || r.Gangs.Placed+r.Gangs.Pending != 2 || r.Gangs.WaitP99 > 60 {
		t.Errorf("PodGroups after their pods: %+v %+v", *r, r.Gangs)
	}
	w := perf(t, op("opcode: createNodes, count: 2, nodeTemplatePath: racknode.yaml")+op("opcode: createAny, namespace: x, templatePath: rack.yaml")+
		op("opcode: createPods, namespace: x, count: 2, podTemplatePath: one.yaml, skipWaitToCompletion: true")+op("opcode: sleep, duration: 100s"), "")
	if r := replay(t, w.Trace()); r.Placed != 0 || r.Gangs.Pending != 1 {
		t.Errorf("the gang is spread over racks: %+v", *r)
	}
	text := "- name: Case\n  featureGates: {GenericWorkload: true, GangScheduling: true, Other: true}\n  workloadTemplate:\n" + op("opcode: createAny, namespace: x, templatePath: group.yaml") +
		"  workloads: [{name: load}]\n"
	list, err := whatif.ReadPerf(whatif.File{Name: "perf.yaml", Data: []byte(text)}, readTemplate)
	if err != nil || !slices.Equal(list[0].Ignored, []string{"featureGates.Other"}) {
		t.Errorf("got %+v, %v", list, err)
	}
	_, err = whatif.ReadPerf(whatif.File{Name: "perf.yaml", Data: []byte(strings.Replace(text, "group.yaml", "later.yaml", 1))}, readTemplate)
	if err == nil || !strings.Contains(err.Error(), `apiVersion: "scheduling.k8s.io/v1beta9" has no PodGroups that are simulated`) {
		t.Errorf("got %v", err)
	}
}
