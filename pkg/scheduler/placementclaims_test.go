package scheduler_test

import (
	"fmt"
	goruntime "runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/volume"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// claimedRacks is racks of two nodes, and a group of 4 pods, each with a claim that waits for it, beside other claims, which are bound.
func claimedRacks(racks, others int) (scheduler.Simulation, []*corev1.Pod) {
	var nodes []*corev1.Node
	for i := range 2 * racks {
		nodes = append(nodes, rackNode(fmt.Sprintf("n%d", i), fmt.Sprintf("rack-%d", i/2), "8"))
	}
	amount := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("disk"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: amount}}}
	}
	all := map[framework.EventResource][]objects.Object{
		framework.PodGroup: {rackGroup("g")},
		framework.StorageClass: {&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: "disk.example.com",
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}},
	}
	for i := range others {
		pv, bound := volume.Bind(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("v%d", i)},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "disk", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: amount}}, claim(fmt.Sprintf("c%d", i)))
		all[framework.PersistentVolumeClaim] = append(all[framework.PersistentVolumeClaim], bound)
		all[framework.PersistentVolume] = append(all[framework.PersistentVolume], pv)
	}
	pods := groupPods("g", 4, "1")
	for _, p := range pods {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}}}}
		all[framework.PersistentVolumeClaim] = append(all[framework.PersistentVolumeClaim], claim(p.Name))
	}
	return scheduler.Simulation{Registry: schedplugins.Registry, Features: feature.All, Nodes: nodes, Objects: all}, pods
}

// scheduleClaimed schedules the group in a new sandbox, and calls before when the sandbox is there and after when the group has nodes.
func scheduleClaimed(t testing.TB, q scheduler.Simulation, pods []*corev1.Pod, before, after func()) {
	box, err := scheduler.NewSandbox(t.Context(), q, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(t.Context())
	before()
	out, err := box.ScheduleGroup(t.Context(), pods, len(pods))
	after()
	if err != nil || out[len(pods)-1].Node == "" {
		t.Fatal(out, err)
	}
}

// TestClaimsOfOthersAreNotCopied: the memory that placements take does not depend on the claims of other pods.
func TestClaimsOfOthersAreNotCopied(t *testing.T) {
	bytes := func(others int) float64 {
		q, pods := claimedRacks(20, others)
		var from, to goruntime.MemStats
		scheduleClaimed(t, q, pods, func() { goruntime.ReadMemStats(&from) }, func() { goruntime.ReadMemStats(&to) })
		return float64(to.TotalAlloc - from.TotalAlloc)
	}
	if without, with := bytes(0), bytes(2000); with > 1.5*without {
		t.Errorf("beside 2,000 claims, a group took %.0f bytes, and without them %.0f", with, without)
	}
}

// BenchmarkScheduleGroupWithClaims schedules a group with claims in 500 placements.
func BenchmarkScheduleGroupWithClaims(b *testing.B) {
	for _, others := range []int{0, 2000} {
		b.Run(fmt.Sprintf("%dOthers", others), func(b *testing.B) {
			q, pods := claimedRacks(500, others)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				scheduleClaimed(b, q, pods, b.StartTimer, b.StopTimer)
				b.StartTimer()
			}
		})
	}
}
