package virtual_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

// volumes has a pod whose claim waits for its first consumer, of a class with an external provisioner.
type volumes struct {
	*testing.T
	*virtual.Cluster
}

func startVolumes(t *testing.T) volumes {
	v := volumes{t, virtual.Start(t, virtual.Config{Nodes: []string{"a"}})}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "example.com/external",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
	v.create(client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("storageclasses")}, class)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("data"), Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("late"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	v.create(client.Target{Resource: client.PersistentVolumeClaims, Namespace: "default"}, claim)
	pod := &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "c"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
	v.create(client.Target{Resource: client.Pods, Namespace: "default"}, pod)
	return v
}

func (v volumes) create(t client.Target, obj objects.Object) {
	v.T.Helper()
	if _, err := v.Create(v.T.Context(), t, obj, metav1.CreateOptions{}); err != nil {
		v.T.Fatal(err)
	}
}

// advance moves the clock, which must not wait for the claim in machine time.
func (v volumes) advance(d time.Duration) {
	v.T.Helper()
	v.Cluster.Advance(d)
}

func (v volumes) pod() *corev1.Pod {
	v.T.Helper()
	got, err := v.Get(v.T.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: "p"}, metav1.GetOptions{})
	if err != nil {
		v.T.Fatal(err)
	}
	return got.(*corev1.Pod)
}

// TestVolumeIsBoundAtOnce: a pod is scheduled in the same advance in which its volume is provisioned.
func TestVolumeIsBoundAtOnce(t *testing.T) {
	v := startVolumes(t)
	v.advance(time.Minute)
	if p := v.pod(); p.Spec.NodeName != "" {
		t.Fatalf("it is on %s and has no volume", p.Spec.NodeName)
	}
	got, err := v.Get(t.Context(), client.Target{Resource: client.PersistentVolumeClaims, Namespace: "default", Name: "data"}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim := got.(*corev1.PersistentVolumeClaim)
	if claim.Annotations[volume.AnnSelectedNode] != "a" {
		t.Fatalf("the claim's annotations are %v", claim.Annotations)
	}
	v.create(client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes")}, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "made", Annotations: map[string]string{volume.AnnDynamicallyProvisioned: "example.com/external"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "late", AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "data", UID: claim.UID},
		}})
	v.advance(0)
	if p := v.pod(); p.Spec.NodeName != "a" || p.Status.Phase != corev1.PodRunning {
		t.Errorf("it is on %q, %s", p.Spec.NodeName, p.Status.Phase)
	}
}

// TestVolumeBindingTimesOut: the time for which a pod waits for its volumes passes on the cluster's clock.
func TestVolumeBindingTimesOut(t *testing.T) {
	v := startVolumes(t)
	failed := func() bool {
		list, err := v.List(t.Context(), client.Target{Resource: client.Events, Namespace: "default"}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range list.Items {
			if e := obj.(*corev1.Event); e.Reason == "FailedScheduling" && e.Message == `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded` {
				return true
			}
		}
		return false
	}
	v.advance(599 * time.Second)
	if failed() {
		t.Error("it failed before 10 minutes")
	}
	v.advance(2 * time.Second)
	if !failed() {
		t.Error("it has not failed after 10 minutes")
	}
}
