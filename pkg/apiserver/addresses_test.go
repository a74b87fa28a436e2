package apiserver_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
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
}

// TestServiceRanges follows the page "Virtual IPs and Service Proxies" and "Extend Service IP Ranges" of the documentation.
func TestServiceRanges(t *testing.T) {
	e := apiservertest.New(t)
	ctx := testContext(t)
	c := clientset(t, e.AdminConfig)
	services, addresses, ranges := c.CoreV1().Services("default"), c.NetworkingV1().IPAddresses(), c.NetworkingV1().ServiceCIDRs()
	create := func(name, ip string, dry ...string) (*corev1.Service, error) {
		return services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}},
		}}, metav1.CreateOptions{DryRun: dry})
	}
	wantErr := func(what string, err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	_, err := create("a", "10.200.0.5")
	wantErr("outside all ranges", err, "failed to allocate IP 10.200.0.5: the provided network does not match the current range")
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/30"}}}
	if _, err := ranges.Create(ctx, more, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = create("a", "10.200.0.3")
	wantErr("a broadcast address", err, "does not match the current range")
	if _, err := create("a", "10.200.0.1", "All"); err != nil {
		t.Fatal(err)
	}
	if _, err := addresses.Get(ctx, "10.200.0.1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run has an IPAddress: %v", err)
	}
	if _, err := create("a", "10.200.0.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := addresses.Get(ctx, "10.200.0.1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	reserved := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.200.0.2"},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Name: "gw"}}}
	if _, err := addresses.Create(ctx, reserved, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = create("b", "10.200.0.2")
	wantErr("an address that a client has reserved", err, "provided IP is already allocated")

	// While the default range is terminating all addresses come from the other one, which is full.
	if err := ranges.Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = create("b", "")
	wantErr("full ranges", err, "failed to allocate a serviceIP: range is full")
	if err := addresses.Delete(ctx, "10.200.0.2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b, err := create("b", "")
	if err != nil || b.Spec.ClusterIP != "10.200.0.2" {
		t.Fatalf("the only free address: %v %v", b.Spec.ClusterIP, err)
	}
	invalid := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: corev1.ServiceSpec{ClusterIP: "10.200.0.2"}}
	if _, err := services.Update(ctx, invalid, metav1.UpdateOptions{}); err == nil {
		t.Error("a Service without ports is valid")
	}
	named := b.DeepCopy()
	named.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.b"}
	if _, err := services.Update(ctx, named, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := addresses.Get(ctx, "10.200.0.2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the IPAddress of a Service that has none any more: %v", err)
	}
	generated, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := addresses.Get(ctx, generated.Spec.ClusterIP, metav1.GetOptions{}); err != nil || a.Spec.ParentRef.Name != generated.Name || a.Spec.ParentRef.Namespace != "default" {
		t.Errorf("the IPAddress of a Service with a generated name: %v, %v", a, err)
	}
	if err := services.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := addresses.Get(ctx, "10.200.0.1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the IPAddress of a deleted Service: %v", err)
	}
}

// TestRepairedAddresses removes the IPAddress of a Service.
func TestRepairedAddresses(t *testing.T) {
	e := apiservertest.New(t)
	ctx := testContext(t)
	c := clientset(t, e.AdminConfig)
	a, err := c.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.NetworkingV1().IPAddresses().Delete(ctx, a.Spec.ClusterIP, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Event about the repair", func() bool {
		list, err := c.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(list.Items, func(ev eventsv1.Event) bool {
			return ev.Reason == "ClusterIPNotAllocated" && ev.Action == "ClusterIPAllocation" && ev.Type == "Warning" &&
				ev.ReportingController == "ipallocator-repair-controller" && ev.Regarding.Name == "a" &&
				ev.Note == "Cluster IP [IPv4]: "+a.Spec.ClusterIP+" is not allocated; repairing"
		})
	})
	eventually(t, "the repaired address", func() bool {
		_, err := c.NetworkingV1().IPAddresses().Get(ctx, a.Spec.ClusterIP, metav1.GetOptions{})
		return err == nil
	})
}
