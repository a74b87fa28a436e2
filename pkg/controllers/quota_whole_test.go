package controllers_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

var (
	resourceQuotas = corev1.SchemeGroupVersion.WithResource("resourcequotas")
	claims         = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

// TestResourceQuota: a quota says what is there, admission holds it, and what goes makes room.
func TestResourceQuota(t *testing.T) {
	c := start(t, clock.Real())
	create(c, client.ConfigMaps, configMap("first"))
	create(c, resourceQuotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "maps", Namespace: "default"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"configmaps": resource.MustParse("3"), "pods": resource.MustParse("1")}}})
	used := func(name corev1.ResourceName) string {
		q, ok := get[*corev1.ResourceQuota](c, resourceQuotas, "maps")
		if !ok || len(q.Status.Hard) != 2 {
			return ""
		}
		n := q.Status.Used[name]
		return n.String()
	}
	// The namespace's own kube-root-ca.crt is there too, or on its way.
	c.until("the quota counted", func() bool { return used("configmaps") == "2" && used("pods") == "0" })
	create(c, client.ConfigMaps, configMap("second"))
	want(c, "used", used("configmaps"), "3")
	_, err := c.Create(c.ctx, client.Target{Resource: client.ConfigMaps, Namespace: "default"}, configMap("third"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("one too many: %v", err)
	}
	if _, err := c.Delete(c.ctx, at(client.ConfigMaps, "first"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("room again", func() bool { return used("configmaps") == "2" })
	for i := range 3 { // each takes the place of the one before, and no place is ever lost
		name := fmt.Sprint("next-", i)
		c.until("room for "+name, func() bool {
			_, err := c.Create(c.ctx, client.Target{Resource: client.ConfigMaps, Namespace: "default"}, configMap(name), metav1.CreateOptions{})
			return err == nil
		})
		if _, err := c.Delete(c.ctx, at(client.ConfigMaps, name), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClaimProtection: a claim that is deleted stays while a pod on a node uses it.
func TestClaimProtection(t *testing.T) {
	c := start(t, clock.Real())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}
	create(c, claims, claim.DeepCopy())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user", Namespace: "default"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "x"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
	create(c, client.Pods, pod)
	there := func() bool {
		_, ok := get[*corev1.PersistentVolumeClaim](c, claims, "data")
		return ok
	}
	if _, err := c.Delete(c.ctx, at(claims, "data"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(c, "the claim is there", there(), true)
	if _, err := c.Delete(c.ctx, at(client.Pods, "user"), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	c.until("the claim gone", func() bool { return !there() })
}
