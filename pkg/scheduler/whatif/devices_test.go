package whatif_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

const gpus = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu, selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
`

// gpuSlice is the devices of a node.
func gpuSlice(node string, devices ...string) string {
	out := fmt.Sprintf(`apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: %[1]s-gpus}
spec:
  driver: gpu.example.com
  nodeName: %[1]s
  pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}
  devices:
`, node)
	for _, d := range devices {
		out += "  - {name: " + d + "}\n"
	}
	return out + "---\n"
}

// deviceClaim is a claim for count devices.
func deviceClaim(name string, count int, status string) string {
	return fmt.Sprintf(`apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s, finalizers: [resource.kubernetes.io/delete-protection]}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: %d}}]}}
%s
---
`, name, count, status)
}

const gpuTemplate = `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
`

// gpuPod is a pod with a claim: {resourceClaimName: c}, or {resourceClaimTemplateName: t}.
func gpuPod(name, claim, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, uid: %[1]s}
spec: {resourceClaims: [{name: gpu, %s}], %s containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
---
`, name, claim, more)
}

// allocated is the status of a claim that has a device of a node, and is reserved for a pod.
func allocated(node, device, pod string) string {
	return fmt.Sprintf(`status:
  reservedFor: [{resource: pods, name: %s, uid: %[1]s}]
  allocation:
    devices: {results: [{request: r, driver: gpu.example.com, pool: %s, device: %s}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%[2]s]}]}]}
`, pod, node, device)
}

const (
	byTemplate    = "resourceClaimTemplateName: one"
	lacksDevices  = "2 cannot allocate all claims"
	gpuDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  replicas: 2
  template: {spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: one}], containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}}
---
`
	gpuGroup = `apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
`
	member = "schedulingGroup: {podGroupName: g}, priority: 5,"
)

// extendedPod is a pod that requests devices as an extended resource.
func extendedPod(name string, count int, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {%s containers: [{name: c, image: i, resources: {limits: {example.com/gpu: %d}, requests: {example.com/gpu: %[3]d}}}]}\n---\n", name, more, count)
}

// ownedClaim is the claim that was made for a pod, which has a device of node b.
func ownedClaim(pod string) string {
	owner := fmt.Sprintf("metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: %s, uid: %[1]s, controller: true}], ", pod)
	return strings.Replace(deviceClaim(pod+"-gpu", 1, allocated("b", "d1", pod)), "metadata: {", owner, 1)
}

// lowPod is a pod of the lowest priority on node b, with a device.
func lowPod(cpu string) string {
	pod := strings.Replace(gpuPod("low", byTemplate, "nodeName: b, priority: -5,"), "100m", cpu, 1)
	return ownedClaim("low") + strings.TrimSuffix(pod, "---\n") + "status: {resourceClaimStatuses: [{name: gpu, resourceClaimName: low-gpu}]}\n---\n"
}

// plainPod is a pod of high priority without devices.
func plainPod(name, cpu string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {priorityClassName: high, containers: [{name: c, image: i, resources: {requests: {cpu: %s}}}]}\n---\n", name, cpu)
}

// TestDevices places pods where the devices of their claims are.
func TestDevices(t *testing.T) {
	constrained := gpuTemplate + strings.NewReplacer("spec: {", "spec: {schedulingConstraints: {topology: [{key: kubernetes.io/hostname}]}, ", "minCount: 2", "minCount: 3").Replace(gpuGroup)
	for _, tt := range []struct {
		name, manifests string
		want            []string // the node of each pod, or why it has none
		more            int      // of the last workload
	}{
		{"a claim from a template for each pod", gpuTemplate + gpuSlice("b", "d1", "d2", "d3", "d4") + gpuDeployment, []string{"b", "b"}, 2},
		{"too few devices", gpuTemplate + gpuSlice("b", "d1") + gpuDeployment, []string{"b", lacksDevices}, 0},
		{"devices of several nodes", gpuTemplate + gpuSlice("a", "d1") + gpuSlice("b", "d1") + gpuDeployment, []string{"b", "a"}, 0},
		{"a shared claim", gpuSlice("a", "d1", "d2") + deviceClaim("c", 2, "") + gpuPod("p", "resourceClaimName: c", "") + gpuPod("q", "resourceClaimName: c", ""), []string{"a", "a"}, 3},
		{"a claim that another one leaves a device", gpuSlice("a", "d1", "d2") + deviceClaim("c", 1, "") + deviceClaim("d", 2, "") + gpuPod("p", "resourceClaimName: c", "") + gpuPod("q", "resourceClaimName: d", ""), []string{"a", lacksDevices}, 0},
		{"a claim that is allocated", gpuSlice("a", "d1") + gpuSlice("b", "d1") + deviceClaim("c", 1, allocated("b", "d1", "other")) + gpuPod("p", "resourceClaimName: c", "") + gpuPod("q", "resourceClaimName: c", ""), []string{"b", "b"}, 8},
		{"a device that is allocated", gpuTemplate + gpuSlice("b", "d1") + deviceClaim("c", 1, allocated("b", "d1", "other")) + gpuPod("p", byTemplate, ""), []string{lacksDevices}, 0},
		{"a claim that is allocated on a full node, and that nothing uses", gpuSlice("a", "d1") + gpuSlice("b", "d1") + strings.Replace(deviceClaim("c", 1, allocated("a", "d1", "other")), "{resource: pods, name: other, uid: other}", "", 1) +
			strings.Replace(gpuPod("p", "resourceClaimName: c", ""), "100m", "900m", 1), []string{"b"}, 1},
		{"no claim", gpuPod("p", "resourceClaimName: c", ""), []string{`could not find ResourceClaim "default/c"`}, 0},
		{"no template", gpuPod("p", byTemplate, ""), []string{`PodResourceClaim gpu: resource claim template "one": resourceclaimtemplate.resource.k8s.io "one" not found`}, 0},
		{"no class", strings.ReplaceAll(gpuTemplate, "gpu}", "other}") + gpuPod("p", byTemplate, ""), []string{"request r: device class other does not exist"}, 0},
		{"an extended resource", gpuSlice("a", "d1", "d2") + extendedPod("p", 1, "") + extendedPod("q", 2, "") + extendedPod("r", 1, ""), []string{"a", lacksDevices, "a"}, 0},
		{"more of an extended resource", gpuSlice("a", "d1", "d2", "d3") + extendedPod("p", 1, ""), []string{"a"}, 2},
		{"a gang that lacks a device leaves the others", gpuTemplate + gpuGroup + gpuSlice("a", "d1") + gpuPod("g1", byTemplate, member) + gpuPod("g2", byTemplate, member) + gpuPod("p", byTemplate, ""),
			[]string{"1 of its 2 pods find a node", lacksDevices, "a"}, 0},
		{"a gang with extended resources that lacks a device leaves the others", gpuGroup + gpuSlice("a", "d1") + extendedPod("g1", 1, member) + extendedPod("g2", 1, member) + extendedPod("p", 1, ""),
			[]string{"1 of its 2 pods find a node", lacksDevices, "a"}, 0},
		{"a gang with a shared claim", gpuGroup + gpuSlice("a", "d1") + deviceClaim("c", 1, "") + gpuPod("g1", "resourceClaimName: c", member) + gpuPod("g2", "resourceClaimName: c", member), []string{"a", "a"}, 3},
		{"room for more of each workload", gpuTemplate + gpuSlice("b", "d1", "d2", "d3", "d4") + gpuPod("p", byTemplate, "") + gpuPod("q", byTemplate, ""), []string{"b", "b"}, 2},
		{"a gang in the second placement", constrained + deviceClaim("c", 1, "") + gpuSlice("a", "d1") + gpuSlice("b", "d1", "d2") + gpuPod("g1", "resourceClaimName: c", member) + gpuPod("g2", "resourceClaimName: c", member) + gpuPod("g3", byTemplate, member),
			[]string{"b", "b", "b"}, 1},
		{"a gang in the first placement", constrained + deviceClaim("c", 1, "") + gpuSlice("b", "d1") + gpuSlice("a", "d1", "d2") + gpuPod("g1", "resourceClaimName: c", member) + gpuPod("g2", "resourceClaimName: c", member) + gpuPod("g3", byTemplate, member),
			[]string{"a", "a", "a"}, 1},
		{"a claim that the controller has made", gpuTemplate + gpuSlice("b", "d1") + ownedClaim("p") + strings.TrimSuffix(gpuPod("p", byTemplate, ""), "---\n") +
			"status: {resourceClaimStatuses: [{name: gpu, resourceClaimName: p-gpu}]}\n---\n", []string{"b"}, 0},
		{"a device of a pod that is evicted", gpuTemplate + gpuSlice("b", "d1") + lowPod("1800m") + plainPod("p", "900m") + gpuPod("q", byTemplate, ""), []string{"b", "b"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := read(t, labelled.Replace(nodes)+gpus+strings.TrimSuffix(tt.manifests, "---\n"))
			before := len(m.DeviceClaims)
			got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, m.Workloads, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range got.Pods {
				if p.Node != tt.want[i] && (p.Node != "" || len(tt.want[i]) == 1 || !strings.Contains(p.Message, tt.want[i])) {
					t.Errorf("pod %s: on %q, %s; want %s", p.Name, p.Node, p.Message, tt.want[i])
				}
			}
			if last := got.Workloads[len(got.Workloads)-1]; len(got.Pods) != len(tt.want) || last.More != tt.more {
				t.Errorf("%d pods, and %d more fit; want %d and %d", len(got.Pods), last.More, len(tt.want), tt.more)
			}
			if len(m.DeviceClaims) != before {
				t.Errorf("the cluster has %d claims, and had %d", len(m.DeviceClaims), before)
			}
		})
	}
}

// TestDevicesOfFiles: a class of a file replaces the cluster's, and a claim of the cluster that of a file.
func TestDevicesOfFiles(t *testing.T) {
	m, _ := read(t, strings.Replace(gpus, "gpu.example.com", "other.example.com", 1)+deviceClaim("c", 1, "")+gpuPod("p", "resourceClaimName: c", "")+deviceClaim("d", 1, "")+strings.TrimSuffix(gpuPod("q", "resourceClaimName: d", ""), "---\n"))
	cluster, _ := read(t, nodes+gpus+gpuSlice("b", "d1", "d2")+strings.TrimSuffix(deviceClaim("c", 1, allocated("b", "d1", "other")), "---\n"))
	m.Append(cluster)
	got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, m.Workloads, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p, q := got.Pods[0], got.Pods[1]; p.Node != "b" || !strings.Contains(q.Message, lacksDevices) {
		t.Errorf("got %+v and %+v", p, q)
	}
}

// TestDevicesOfDrainedPods: a pod that moves gives up its device, and gets one on another node.
func TestDevicesOfDrainedPods(t *testing.T) {
	owned := ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]}"
	m, _ := read(t, nodes+gpus+gpuTemplate+gpuSlice("a", "d1")+gpuSlice("b", "d1")+
		strings.Replace(deviceClaim("old-gpu", 1, allocated("a", "d1", "moving")), "metadata: {", "metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: moving, uid: moving, controller: true}], ", 1)+
		strings.Replace(gpuPod("moving", byTemplate, "nodeName: a, priority: 0,"), "uid: moving}", "uid: moving"+owned, 1)+
		strings.TrimSuffix(gpuPod("p", byTemplate, ""), "---\n"))
	m.Pods[len(m.Pods)-1].Status.ResourceClaimStatuses = nil
	replaced, _, err := m.Drain([]string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	m.Nodes[0].Spec.Unschedulable = false // it is back
	got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, append(replaced, m.Workloads...), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Pods) != 2 || got.Pods[0].Node != "b" || got.Pods[1].Node != "a" {
		t.Errorf("got %+v", got.Pods)
	}
	if len(m.DeviceClaims) != 0 {
		t.Errorf("the claim of the evicted pod is still there")
	}
}

// TestExplainDevices: a pod gives up its device to be evaluated on other nodes, and keeps the one of a claim that another pod uses.
func TestExplainDevices(t *testing.T) {
	shared := strings.Replace(deviceClaim("c", 1, allocated("b", "d1", "p")), "reservedFor: [", "reservedFor: [{resource: pods, name: q, uid: q}, ", 1)
	extended := "metadata: {annotations: {resource.kubernetes.io/extended-resource-claim: \"true\"}, ownerReferences: [{apiVersion: v1, kind: Pod, name: low, uid: low, controller: true}], "
	for _, tt := range []struct{ name, manifests, want string }{
		{"its own", gpuSlice("a", "d1") + lowPod("100m"), minikctl.Passed},
		{"no other device", lowPod("100m"), "cannot allocate all claims"},
		{"shared", gpuSlice("a", "d1") + shared + gpuPod("p", "resourceClaimName: c", "nodeName: b,"), "resourceclaim not available on the node"},
		{"extended", gpuSlice("a", "d1") + strings.Replace(extendedPod("low", 1, "nodeName: b,"), "name: low", "name: low, uid: low", 1) +
			strings.Replace(deviceClaim("low-extended", 1, allocated("b", "d1", "low")), "metadata: {", extended, 1), minikctl.Passed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := read(t, nodes+gpus+gpuSlice("b", "d1")+strings.TrimSuffix(tt.manifests, "---\n"))
			box, err := scheduler.NewSandbox(t.Context(), m.Simulation(schedplugins.Registry, nil), 1)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close(t.Context())
			got, err := box.Explain(t.Context(), m.Pods[len(m.Pods)-1], "a")
			if err != nil {
				t.Fatal(err)
			}
			if v := got.Verdict("a"); v.Outcome != tt.want && v.Reason != tt.want {
				t.Errorf("%s: %s; want %s", v.Outcome, v.Reason, tt.want)
			}
		})
	}
}

// TestCompareDevices: pods wait in the queue for devices, and for those of evicted pods, which arrive again and get new claims.
func TestCompareDevices(t *testing.T) {
	tests := []struct {
		name, manifests              string
		placed, pending, preemptions int
	}{
		{"as many as there are", gpuTemplate + gpuSlice("b", "d1", "d2") + strings.Replace(gpuDeployment, "replicas: 2", "replicas: 3", 1), 2, 1, 0},
		{"extended resources", gpuSlice("b", "d1", "d2") + extendedPod("p", 1, "") + extendedPod("q", 1, "") + extendedPod("r", 1, ""), 2, 1, 0},
		{"a gang that lacks a device", gpuTemplate + gpuGroup + gpuSlice("b", "d1") + gpuPod("g1", byTemplate, member) + gpuPod("g2", byTemplate, member) + gpuPod("p", byTemplate, ""), 1, 2, 0},
		{"a gang", gpuTemplate + gpuGroup + gpuSlice("b", "d1", "d2") + gpuPod("g1", byTemplate, member) + gpuPod("g2", byTemplate, member), 2, 0, 0},
		{"a gang that shares a claim", deviceClaim("c", 1, "") + gpuGroup + gpuSlice("b", "d1") + gpuPod("g1", "resourceClaimName: c", member) + gpuPod("g2", "resourceClaimName: c", member), 2, 0, 0},
		{"a device of an evicted pod", gpuTemplate + gpuSlice("b", "d1") + lowPod("1800m") + gpuPod("p", byTemplate, "") + plainPod("high", "600m"), 2, 1, 1},
		{"an evicted pod gets another device", gpuTemplate + gpuSlice("b", "d1") + gpuSlice("a", "d1") + lowPod("400m") + plainPod("high", "1900m"), 2, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := read(t, nodes+gpus+strings.TrimSuffix(tt.manifests, "---\n"))
			got, err := whatif.Compare(t.Context(), "c", m.Simulation(schedplugins.Registry, nil), m.Workloads, 3, func() time.Time { return time.Time{} })
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range got {
				if r.Placed != tt.placed || r.Pending != tt.pending || r.Preemptions != tt.preemptions || r.WaitP99 > 30 {
					t.Errorf("seed %d: %d placed, %d pending, %d preemptions, waits of up to %g s; want %d, %d, %d", r.Seed, r.Placed, r.Pending, r.Preemptions, r.WaitP99, tt.placed, tt.pending, tt.preemptions)
				}
			}
		})
	}
}

// TestDevicesAreValidated: what the API server would refuse is refused.
func TestDevicesAreValidated(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(deviceClaim("c", 1, ""), "count: 1", "count: -1", 1):        `test.yaml: ResourceClaim.resource.k8s.io "c" is invalid: spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero`,
		strings.Replace(gpus, "device.driver ==", "device.driver =", 1):             `test.yaml: DeviceClass.resource.k8s.io "gpu" is invalid: spec.selectors[0].cel.expression`,
		strings.Replace(gpuTemplate, "k8s.io/v1", "k8s.io/v1beta1", 1):              `test.yaml: ResourceClaimTemplate one: no matches for kind "ResourceClaimTemplate" in version "resource.k8s.io/v1beta1"`,
		strings.Replace(gpuSlice("a", "d1"), "resourceSliceCount: 1", "size: 1", 1): `test.yaml: ResourceSlice a-gpus: strict decoding error: unknown field "spec.pool.size"`,
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.TrimSuffix(text, "---\n")), &u.Object); err != nil {
			t.Fatal(err)
		}
		if _, _, err := whatif.Read([]whatif.Manifest{{Unstructured: u, File: "test.yaml"}}, "default"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestSharedDevicesOfDeletedPods: the devices of a claim are free when all of its pods are gone.
func TestSharedDevicesOfDeletedPods(t *testing.T) {
	for name, more := range map[string]string{"pods": "", "a gang": member} {
		t.Run(name, func(t *testing.T) {
			m, _ := read(t, nodes+gpus+gpuTemplate+gpuGroup+gpuSlice("b", "d1")+strings.Replace(deviceClaim("c", 1, ""), ", finalizers: [resource.kubernetes.io/delete-protection]", "", 1)+
				gpuPod("p1", "resourceClaimName: c", more)+gpuPod("p2", "resourceClaimName: c", more)+strings.TrimSuffix(gpuPod("last", byTemplate, ""), "---\n"))
			q := m.Simulation(schedplugins.Registry, nil)
			clk := clock.NewManual(time.Unix(0, 0), clock.Real())
			q.Clock = clk
			box, err := scheduler.NewSandbox(t.Context(), q, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close(t.Context())
			try := func() (got string) {
				if _, err := clk.Advance(t.Context(), clk.Now().Add(time.Minute), 0); err != nil {
					t.Fatal(err)
				}
				for attempts := box.Next(t.Context()); attempts != nil; attempts = box.Next(t.Context()) {
					for _, a := range attempts {
						got += a.Pod.Name + "=" + a.Node + " "
					}
				}
				return got
			}
			var pods []*corev1.Pod
			for _, w := range m.Workloads {
				pod := w.Pods[0].DeepCopy()
				pod.Spec.SchedulerName = corev1.DefaultSchedulerName
				if err := box.SetPod(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
				pods = append(pods, pod)
			}
			got := []string{try()}
			for _, i := range []int{1, 0} {
				box.DeletePod(t.Context(), pods[i])
				got = append(got, try())
			}
			if want := []string{"p1=b p2=b last= ", "", "last=b "}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
