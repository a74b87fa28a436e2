package storage

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestClaimOfUnknownPod: a claim stays while a pod uses it that the informer does not have yet.
func TestClaimOfUnknownPod(t *testing.T) {
	c := apiservertest.New(t).Client("test")
	create := func(resource client.Target, obj objects.Object) {
		t.Helper()
		if _, err := c.Create(t.Context(), resource, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(client.Target{Resource: client.ServiceAccounts, Namespace: "default"}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	create(client.Target{Resource: persistentVolumeClaims, Namespace: "default"}, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	})
	create(client.Target{Resource: client.Pods, Namespace: "default"}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user"}, Spec: corev1.PodSpec{
		NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "x"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
	}})
	at := client.Target{Resource: persistentVolumeClaims, Namespace: "default", Name: "data"}
	if _, err := c.Delete(t.Context(), at, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	caches := client.NewCaches(c, clock.Real())
	claims := client.CacheOf[*corev1.PersistentVolumeClaim](caches, persistentVolumeClaims)
	go func() { _ = caches.Run(t.Context()) }()
	if err := caches.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := claimProtector{c, claims, client.NewCaches(c, clock.Real()).Pods()} // whose informer has no pod, since it does not run
	if _, err := r.reconcile(t.Context(), objects.Key{Namespace: "default", Name: "data"}); err != nil {
		t.Fatal(err)
	}
	obj, err := c.Get(t.Context(), at, metav1.GetOptions{})
	if err != nil || !slices.Contains(obj.GetFinalizers(), claimProtection) {
		t.Fatalf("the claim is gone: %v, %v", obj, err)
	}
}
