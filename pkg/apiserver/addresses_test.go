package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

func TestServiceIPAddresses(t *testing.T) {
	e := apiservertest.New(t)
	ctx := testContext(t)
	c := clientset(t, e.AdminConfig)
	made := func(name string) *corev1.Service {
		t.Helper()
		svc, err := c.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return svc
	}
	a := made("a")
	r, err := c.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Spec.CIDRs[0] != "10.96.0.0/16" || len(r.Finalizers) != 1 || len(r.Status.Conditions) != 1 ||
		r.Status.Conditions[0].Type != "Ready" || r.Status.Conditions[0].Status != "True" {
		t.Errorf("got %v", r)
	}
	addresses := c.NetworkingV1().IPAddresses()
	one, err := addresses.Get(ctx, a.Spec.ClusterIP, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "a"}
	if *one.Spec.ParentRef != want || one.Labels["ipaddress.kubernetes.io/managed-by"] != "ipallocator.k8s.io" || one.Labels["ipaddress.kubernetes.io/ip-family"] != "IPv4" {
		t.Errorf("got %v", one)
	}
	list, err := addresses.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=10.96.0.1"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "10.96.0.1" {
		t.Errorf("the API server's own: %v %v", list, err)
	}
	events, err := addresses.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	b := made("b") // a watch receives both the create and the delete
	if ev := <-events.ResultChan(); ev.Type != watch.Added || ev.Object.(*networkingv1.IPAddress).Name != b.Spec.ClusterIP {
		t.Errorf("got %v", ev)
	}
	if err := c.CoreV1().Services("default").Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if ev := <-events.ResultChan(); ev.Type != watch.Deleted || ev.Object.(*networkingv1.IPAddress).Name != b.Spec.ClusterIP {
		t.Errorf("got %v", ev)
	}
	if err := addresses.Delete(ctx, a.Spec.ClusterIP, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the IPAddress of a Service is recreated", func() bool {
		_, err := addresses.Get(ctx, a.Spec.ClusterIP, metav1.GetOptions{})
		return err == nil
	})
	if _, err := addresses.Get(ctx, b.Spec.ClusterIP, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what none has: %v", err)
	}
	if err := c.NetworkingV1().ServiceCIDRs().Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a range in use stays and is reported as terminating", func() bool {
		if r, err = c.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		return r.DeletionTimestamp != nil && len(r.Status.Conditions) == 1 && r.Status.Conditions[0].Status == "False" && r.Status.Conditions[0].Reason == "Terminating"
	})
}
