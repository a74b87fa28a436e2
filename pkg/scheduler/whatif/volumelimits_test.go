package whatif_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// csiNode limits the volumes of the driver disk.example.com on a node.
func csiNode(name string, limit int) string {
	return fmt.Sprintf(`apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: %s}
spec: {drivers: [{name: disk.example.com, nodeID: %[1]s, allocatable: {count: %d}}]}
---
`, name, limit)
}

// csiVolume is a volume of the driver, and its claim, which is bound.
func csiVolume(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: disk, csi: {driver: disk.example.com, volumeHandle: %[1]s}, claimRef: {namespace: default, name: %[1]s}}
---
`, name) + pvc(name, "storageClassName: disk, volumeName: "+name+",", `, annotations: {pv.kubernetes.io/bind-completed: "yes"}`)
}

// on is a pod that uses a claim on a node.
func on(node, pod string) string {
	return strings.Replace(pod, "spec: {", "spec: {nodeName: "+node+", ", 1)
}

// TestVolumeLimits: the volumes of the pods of a node, also those that are bound in the simulation, count towards its limits.
func TestVolumeLimits(t *testing.T) {
	const exceeds = "2 node(s) exceed max volume count"
	const attachment = "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: x}\nspec: {attacher: disk.example.com, nodeName: b, source: {persistentVolumeName: one}}\n---\n"
	const set = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 1Gi}}}}]
---
`
	disk := func(name string) string { return pvc(name, "storageClassName: disk,", "") }
	atOnce := func(name string) string { return pvc(name, "storageClassName: at-once,", "") }
	for _, tt := range []struct {
		name, manifests string
		want            []string // the node of each pod, or why it has none
		more            int
	}{
		{"provisioned for pods", csiNode("a", 1) + csiNode("b", 1) + disk("c") + disk("d") + disk("e") + user("p", "c") + user("q", "d") + user("r", "e"), []string{"b", "a", exceeds}, 0},
		{"provisioned at once", csiNode("a", 1) + csiNode("b", 1) + atOnce("c") + atOnce("d") + atOnce("e") + user("p", "c") + user("q", "d") + user("r", "e"), []string{"b", "a", exceeds}, 0},
		{"shared by pods", csiNode("a", 0) + csiNode("b", 1) + disk("c") + user("p", "c") + user("q", "c"), []string{"b", "b"}, 8},
		{"of a running pod", csiNode("a", 0) + csiNode("b", 1) + csiVolume("one") + on("b", user("old", "one")) + disk("c") + user("p", "c"), []string{exceeds}, 0},
		{"the same as of a running pod", csiNode("a", 0) + csiNode("b", 1) + csiVolume("one") + on("b", user("old", "one")) + user("p", "one"), []string{"b"}, 8},
		{"that is attached", csiNode("a", 0) + csiNode("b", 1) + csiVolume("one") + attachment + disk("c") + user("p", "c"), []string{exceeds}, 0},
		{"that is bound in the simulation", csiNode("a", 0) + csiNode("b", 1) + strings.Replace(csiVolume("one"), ", claimRef: {namespace: default, name: one}", "", 1) + user("p", "one") + disk("c") + user("q", "c"), []string{"b", exceeds}, 0},
		{"of more pods", csiNode("a", 1) + csiNode("b", 2) + set, []string{"b"}, 2},
		{"without a limit", csiNode("b", 1) + disk("c") + disk("d") + user("p", "c") + user("q", "d"), []string{"b", "a"}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := read(t, nodes+storage+strings.TrimSuffix(tt.manifests, "---\n"))
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
		})
	}
	m, _ := read(t, nodes+storage+csiNode("a", 1)+csiNode("b", 1)+disk("c")+disk("d")+disk("e")+user("p", "c")+user("q", "d")+strings.TrimSuffix(user("r", "e"), "---\n"))
	got, err := whatif.Compare(t.Context(), "c", m.Simulation(schedplugins.Registry, nil), m.Workloads, 2, func() time.Time { return time.Time{} })
	if err != nil || got[0].Placed != 2 || got[1].Pending != 1 {
		t.Errorf("compare: %+v, %v", got, err)
	}
}
