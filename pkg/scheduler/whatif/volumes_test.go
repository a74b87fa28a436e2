package whatif_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

const storage = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: disk.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: at-once, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: disk.example.com
---
`

func pv(name, node, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}
  %s
---
`, name, node, more)
}

func pvc(name, class, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s%s}
spec: {accessModes: [ReadWriteOnce], %s resources: {requests: {storage: 1Gi}}}
---
`, name, more, class)
}

func user(name, claim string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}], volumes: [{name: data, persistentVolumeClaim: {claimName: %s}}]}
---
`, name, claim)
}

// ownStorage is classes of the cluster's own provisioner, of one that does not exist, and of one whose volumes have topologies.
const ownStorage = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: dir}
provisioner: minikctl.dev/folder
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: dir-late}
provisioner: minikctl.dev/folder
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: none}
provisioner: kubernetes.io/none
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: none-late}
provisioner: kubernetes.io/none
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: on-a}
provisioner: disk.example.com
allowedTopologies: [{matchLabelExpressions: [{key: kubernetes.io/hostname, values: [a]}]}]
---
`

var labelled = strings.NewReplacer("metadata: {name: a}", "metadata: {name: a, labels: {kubernetes.io/hostname: a}}", "metadata: {name: b}", "metadata: {name: b, labels: {kubernetes.io/hostname: b}}")

// TestProvisionedVolumes: volumes are where their provisioners make them.
func TestProvisionedVolumes(t *testing.T) {
	const block = " volumeMode: Block,"
	at := func(node, pod string) string {
		return strings.Replace(pod, "spec: {", "spec: {nodeSelector: {kubernetes.io/hostname: "+node+"}, ", 1)
	}
	both := at("a", user("p", "c")) + at("b", user("q", "c"))
	shared := func(claim string) string { return strings.Replace(claim, "ReadWriteOnce", "ReadWriteMany", 1) }
	const conflict, unbound = "didn't match PersistentVolume's node affinity", "pod has unbound immediate PersistentVolumeClaims"
	for _, tt := range []struct {
		name, manifests string
		want            []string // the node of each pod, or why it has none
		guessed         string
	}{
		{"a directory", pvc("c", "storageClassName: dir,", "") + both, []string{"a", "b"}, ""},
		{"a directory of a node", pvc("c", "storageClassName: dir-late,", "") + both, []string{"a", conflict}, ""},
		{"a shared directory", shared(pvc("c", "storageClassName: dir-late,", "")) + both, []string{"a", "b"}, ""},
		{"another provisioner's", pvc("c", "storageClassName: disk,", "") + both, []string{"a", "didn't find available persistent volumes to bind"}, ""},
		{"no directory", pvc("c", "storageClassName: dir,"+block, "") + both, []string{unbound, unbound}, ""},
		{"no directory of a node", pvc("c", "storageClassName: dir-late,"+block, "") + user("p", "c"), []string{`2 failed to provision volume with StorageClass "dir-late": block volumes are not supported: a volume is a directory`}, ""},
		{"no provisioner", pvc("c", "storageClassName: none,", "") + both, []string{unbound, unbound}, ""},
		{"no provisioner of a node", pvc("c", "storageClassName: none-late,", "") + user("p", "c"), []string{"2 no volume plugin matched name: kubernetes.io/none"}, ""},
		{"in an allowed topology", pvc("c", "storageClassName: on-a,", "") + both, []string{"a", conflict},
			"PersistentVolumeClaim default/c: where the provisioner disk.example.com makes its volume is not known; it is taken to be on all nodes that its class allows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := read(t, labelled.Replace(nodes)+storage+ownStorage+strings.TrimSuffix(tt.manifests, "---\n"))
			got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, nil), &m.Cluster, m.Workloads, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range got.Pods {
				if p.Node != tt.want[i] && (p.Node != "" || len(tt.want[i]) == 1 || !strings.Contains(p.Message, tt.want[i])) {
					t.Errorf("pod %s: on %q, %s; want %s", p.Name, p.Node, p.Message, tt.want[i])
				}
			}
			if guessed := strings.Join(m.Guessed(m.Workloads), "\n"); guessed != tt.guessed {
				t.Errorf("guessed %q, want %q", guessed, tt.guessed)
			}
		})
	}
}

// TestVolumes schedules pods where the volumes of their claims are or can be.
func TestVolumes(t *testing.T) {
	const set = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: %d
  template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}}]
---
`
	const bound = ", annotations: {pv.kubernetes.io/bind-completed: \"yes\"}"
	const ephemeral = `apiVersion: apps/v1
kind: Deployment
metadata: {name: cache}
spec:
  replicas: 2
  template:
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
      volumes: [{name: data, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 1Gi}}}}}}]
---
`
	const group = `apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
`
	member := func(name, claim string) string {
		return strings.Replace(user(name, claim), "spec: {", "spec: {schedulingGroup: {podGroupName: g}, priority: 5, ", 1)
	}
	for _, tt := range []struct {
		name, manifests string
		want            []string // the node of each pod, or why it has none
		more            int      // of the last workload
	}{
		{"a volume for each pod of a StatefulSet", fmt.Sprintf(set, 3) + pv("one", "a", "") + pv("two", "b", "") + pv("three", "b", ""), []string{"b", "b", "a"}, 0},
		{"room for two more", fmt.Sprintf(set, 1) + pv("one", "b", "") + pv("two", "b", "") + pv("three", "b", ""), []string{"b"}, 2},
		{"claims of a StatefulSet that exist", fmt.Sprintf(set, 1) + pvc("data-db-0", "storageClassName: local, volumeName: one,", bound) + pv("one", "b", "claimRef: {namespace: default, name: data-db-0}"), []string{"b"}, 0},
		{"no volume left", fmt.Sprintf(set, 2) + pv("one", "b", ""), []string{"b", "didn't find available persistent volumes to bind"}, 0},
		{"a claim that is bound", pvc("c", "storageClassName: local, volumeName: one,", bound) + pv("one", "b", "") + user("p", "c") + user("q", "c"), []string{"b", "b"}, 8},
		{"a bound claim on no node", pvc("c", "storageClassName: local, volumeName: one,", bound) + pv("one", "elsewhere", "") + user("p", "c"), []string{"didn't match PersistentVolume's node affinity"}, 0},
		{"a claim whose volume is gone", pvc("c", "storageClassName: local, volumeName: one,", bound) + user("p", "c"), []string{`persistentvolume "one" not found`}, 0},
		{"one volume for two pods", pvc("c", "storageClassName: local,", "") + pv("one", "b", "") + user("p", "c") + user("q", "c"), []string{"b", "b"}, 8},
		{"one provisioned volume for two pods", pvc("c", "storageClassName: disk,", "") + user("p", "c") + user("q", "c"), []string{"b", "b"}, 8},
		{"a claim that is bound at once, of the default class", pvc("c", "", "") + user("p", "c"), []string{"b"}, 14},
		{"a claim that nothing binds", pvc("c", `storageClassName: "",`, "") + user("p", "c"), []string{"pod has unbound immediate PersistentVolumeClaims"}, 0},
		{"a volume for a claim without a class", pvc("c", `storageClassName: "",`, "") + strings.Replace(pv("one", "b", ""), "storageClassName: local", `storageClassName: ""`, 1) + user("p", "c"), []string{"b"}, 9},
		{"no claim", user("p", "c"), []string{`persistentvolumeclaim "c" not found`}, 0},
		{"volumes of pods", ephemeral, []string{"b", "b"}, 0},
		{"a gang that lacks a volume leaves the others", group + member("g1", "c1") + member("g2", "c2") + pvc("c1", "storageClassName: local,", "") + pvc("c2", "storageClassName: local,", "") +
			pv("one", "b", "") + pvc("c", "storageClassName: local,", "") + user("p", "c"), []string{"1 of its 2 pods find a node", "didn't find available persistent volumes to bind", "b"}, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := read(t, labelled.Replace(nodes)+storage+strings.TrimSuffix(tt.manifests, "---\n"))
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
			for _, claim := range m.Claims {
				if claim.Spec.VolumeName != "" && !slices.ContainsFunc([]string{"one"}, func(v string) bool { return v == claim.Spec.VolumeName }) {
					t.Errorf("the cluster's claim %s has got the volume %s", claim.Name, claim.Spec.VolumeName)
				}
			}
		})
	}
}
