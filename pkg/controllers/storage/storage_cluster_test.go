package storage_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var claims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")

// TestClaimProtection: a deleted claim exists until no pod uses it.
func TestClaimProtection(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}
	controllertest.Create(c, claims, claim.DeepCopy())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user", Namespace: "default"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "x"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
	controllertest.Create(c, client.Pods, pod)
	there := func() bool {
		_, ok := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "data")
		return ok
	}
	if _, err := c.Delete(c.Context(), controllertest.At(claims, "data"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Want(c, "the claim is there", there(), true)
	if _, err := c.Delete(c.Context(), controllertest.At(client.Pods, "user"), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	c.Until("the claim gone", func() bool { return !there() })
}
