package discovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var (
	endpoints      = corev1.SchemeGroupVersion.WithResource("endpoints")
	endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

// run creates a running pod on a node, with an address and the label app=web.
func run(c *controllertest.Cluster, name, ip string, ready bool) {
	c.Helper()
	if !c.Exists(client.Nodes, "/n") {
		controllertest.Create(c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	}
	controllertest.Create(c, client.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(bool)},
	})
	setReady(c, name, ip, ready)
}

func setReady(c *controllertest.Cluster, name, ip string, ready bool) {
	c.Helper()
	status := map[bool]string{true: "True", false: "False"}[ready]
	c.Merge(controllertest.At(client.Pods, name).Sub("status"), fmt.Sprintf(
		`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready","status":%q}]}}`, ip, ip, status))
}

func service(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// sliceAddresses returns the addresses of a Service's slices, those that are not ready with a "-", by name of the slices'
// controller.
func sliceAddresses(c *controllertest.Cluster, service string) string {
	c.Helper()
	var out []string
	for _, s := range controllertest.List[*discoveryv1.EndpointSlice](c, endpointSlices) {
		if s.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		by, _, _ := strings.Cut(s.Labels[discoveryv1.LabelManagedBy], "-")
		for _, e := range s.Endpoints {
			ready := ""
			if !*e.Conditions.Ready {
				ready = "-"
			}
			out = append(out, by+":"+ready+e.Addresses[0])
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// endpointAddresses returns the same of a Service's Endpoints, "none" if there are none.
func endpointAddresses(c *controllertest.Cluster, service string) string {
	c.Helper()
	ep, ok := controllertest.Get[*corev1.Endpoints](c, endpoints, service)
	if !ok {
		return "none"
	}
	var out []string
	for _, s := range ep.Subsets {
		for _, a := range s.Addresses {
			out = append(out, a.IP)
		}
		for _, a := range s.NotReadyAddresses {
			out = append(out, "-"+a.IP)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func until(c *controllertest.Cluster, service, wantSlices, wantEndpoints string) {
	c.Helper()
	c.Until(fmt.Sprintf("the slices of %s have %q and its Endpoints %q", service, wantSlices, wantEndpoints), func() bool {
		return sliceAddresses(c, service) == wantSlices && endpointAddresses(c, service) == wantEndpoints
	})
}

// TestEndpointsFollowPods changes pods and the Service's selector, and deletes the Service.
func TestEndpointsFollowPods(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		run(c, "a", "10.1.0.1", true)
		run(c, "b", "10.1.0.2", false)
		controllertest.Create(c, client.Services, service("web", map[string]string{"app": "web"}))
		until(c, "web", "endpointslice:-10.1.0.2 endpointslice:10.1.0.1", "-10.1.0.2 10.1.0.1")
		setReady(c, "b", "10.1.0.2", true)
		until(c, "web", "endpointslice:10.1.0.1 endpointslice:10.1.0.2", "10.1.0.1 10.1.0.2")
		c.Merge(controllertest.At(client.Pods, "a"), `{"metadata":{"labels":{"app":"other"}}}`)
		until(c, "web", "endpointslice:10.1.0.2", "10.1.0.2")
		c.Merge(controllertest.At(client.Services, "web"), `{"spec":{"selector":{"app":"other"}}}`)
		until(c, "web", "endpointslice:10.1.0.1", "10.1.0.1")
		c.Remove(client.Pods, "a", metav1.DeletePropagationBackground) // it stays until a kubelet has ended it
		until(c, "web", "endpointslice:-10.1.0.1", "")
		c.Remove(client.Services, "web", metav1.DeletePropagationBackground)
		until(c, "web", "", "none")
	})
}

// TestSlicesAreRestored changes and deletes what the controllers have written.
func TestSlicesAreRestored(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		run(c, "a", "10.1.0.1", true)
		controllertest.Create(c, client.Services, service("web", map[string]string{"app": "web"}))
		until(c, "web", "endpointslice:10.1.0.1", "10.1.0.1")
		s := controllertest.List[*discoveryv1.EndpointSlice](c, endpointSlices)
		i := slices.IndexFunc(s, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[discoveryv1.LabelServiceName] == "web" })
		c.Remove(endpointSlices, s[i].Name, metav1.DeletePropagationBackground)
		c.Remove(endpoints, "web", metav1.DeletePropagationBackground)
		c.Until("a new slice", func() bool { return !c.Exists(endpointSlices, s[i].Name) })
		until(c, "web", "endpointslice:10.1.0.1", "10.1.0.1")
	})
}

// TestMirroring writes Endpoints for a Service without a selector, and then gives it one.
func TestMirroring(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		run(c, "a", "10.1.0.1", true)
		written := func(name string, ips ...string) *corev1.Endpoints {
			s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: 80}}}
			for _, ip := range ips {
				s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: ip})
			}
			return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Subsets: []corev1.EndpointSubset{s}}
		}
		controllertest.Create(c, endpoints, written("db", "192.0.2.1")) // before its Service: kept, and not mirrored
		controllertest.Create(c, client.Services, service("db", nil))
		until(c, "db", "endpointslicemirroring:192.0.2.1", "192.0.2.1")
		c.Merge(controllertest.At(endpoints, "db"), `{"metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":"true"}}}`)
		until(c, "db", "", "192.0.2.1")
		c.Merge(controllertest.At(endpoints, "db"), `{"metadata":{"labels":null}}`)
		until(c, "db", "endpointslicemirroring:192.0.2.1", "192.0.2.1")
		c.Merge(controllertest.At(client.Services, "db"), `{"spec":{"selector":{"app":"web"}}}`)
		until(c, "db", "endpointslice:10.1.0.1", "10.1.0.1")
		c.Merge(controllertest.At(client.Services, "db"), `{"spec":{"selector":null}}`)
		c.Until("the Endpoints of the pods are mirrored", func() bool {
			return strings.Contains(sliceAddresses(c, "db"), "endpointslicemirroring:10.1.0.1")
		})
	})
}
