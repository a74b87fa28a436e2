package quota_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var resourceQuotas = corev1.SchemeGroupVersion.WithResource("resourcequotas")

// TestResourceQuota: a quota's status counts objects, admission enforces it, and deletes release quota.
func TestResourceQuota(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("first"))
	controllertest.Create(c, resourceQuotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "maps", Namespace: "default"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"configmaps": resource.MustParse("3"), "pods": resource.MustParse("1")}}})
	used := func(name corev1.ResourceName) string {
		q, ok := controllertest.Get[*corev1.ResourceQuota](c, resourceQuotas, "maps")
		if !ok || len(q.Status.Hard) != 2 {
			return ""
		}
		n := q.Status.Used[name]
		return n.String()
	}
	// The namespace's own kube-root-ca.crt also counts, or is about to be created.
	c.Until("the quota counted", func() bool { return used("configmaps") == "2" && used("pods") == "0" })
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("second"))
	controllertest.Want(c, "used", used("configmaps"), "3")
	_, err := c.Create(c.Context(), client.Target{Resource: client.ConfigMaps, Namespace: "default"}, controllertest.ConfigMap("third"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("one too many: %v", err)
	}
	if _, err := c.Delete(c.Context(), controllertest.At(client.ConfigMaps, "first"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Until("room again", func() bool { return used("configmaps") == "2" })
	for i := range 3 { // each replaces the previous one, and no quota leaks
		name := fmt.Sprint("next-", i)
		c.Until("room for "+name, func() bool {
			_, err := c.Create(c.Context(), client.Target{Resource: client.ConfigMaps, Namespace: "default"}, controllertest.ConfigMap(name), metav1.CreateOptions{})
			return err == nil
		})
		if _, err := c.Delete(c.Context(), controllertest.At(client.ConfigMaps, name), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuotaOfCustomResources: custom objects are counted, including those older than the quota.
func TestQuotaOfCustomResources(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	c.Define("Shirt", controllertest.Shirts, apiextensionsv1.NamespaceScoped)
	c.CreateCustom("Shirt", controllertest.Shirts, "default", "first")
	controllertest.Create(c, resourceQuotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "shirts", Namespace: "default"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/shirts.example.com": resource.MustParse("2")}}})
	used := func() string {
		q, _ := controllertest.Get[*corev1.ResourceQuota](c, resourceQuotas, "shirts")
		n := q.Status.Used["count/shirts.example.com"]
		return n.String()
	}
	c.Until("one counted", func() bool { return used() == "1" })
	c.CreateCustom("Shirt", controllertest.Shirts, "default", "second")
	controllertest.Want(c, "used", used(), "2")
	third := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Shirt", "metadata": map[string]any{"name": "third"}}}
	if _, err := c.Create(c.Context(), client.Target{Resource: controllertest.Shirts, Namespace: "default"}, third, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("one too many: %v", err)
	}
	c.Remove(controllertest.Shirts, "first", metav1.DeletePropagationBackground)
	c.Until("room again", func() bool { return used() == "1" })
}
