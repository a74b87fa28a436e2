package service_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

func balanced(name string, spec corev1.ServiceSpec) *corev1.Service {
	spec.Type = corev1.ServiceTypeLoadBalancer
	spec.Ports = []corev1.ServicePort{{Port: 80}}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
}

// TestLoadBalancer follows the address of a Service through its life.
func TestLoadBalancer(t *testing.T) {
	set := func(cfg *controllers.Config) { cfg.LoadBalancers = netip.MustParsePrefix("127.7.127.0/30") }
	controllertest.BothWith(t, set, func(c *controllertest.Cluster) {
		get := func(name string) *corev1.Service {
			svc, _ := controllertest.Get[*corev1.Service](c, client.Services, "default/"+name)
			return svc
		}
		address := func(name string) string {
			svc := get(name)
			if svc == nil || len(svc.Status.LoadBalancer.Ingress) == 0 {
				return ""
			}
			return svc.Status.LoadBalancer.Ingress[0].IP
		}
		class := "example.com/other"
		controllertest.Create(c, client.Services, balanced("other", corev1.ServiceSpec{LoadBalancerClass: &class}))
		for _, name := range []string{"a", "b", "c"} {
			controllertest.Create(c, client.Services, balanced(name, corev1.ServiceSpec{}))
			c.Until("an address of "+name, func() bool { return address(name) != "" })
		}
		controllertest.Want(c, "addresses", []string{address("a"), address("b"), address("c")}, []string{"127.7.127.1", "127.7.127.2", "127.7.127.3"})
		a := get("a").DeepCopy()
		if mode := a.Status.LoadBalancer.Ingress[0].IPMode; mode == nil || *mode != corev1.LoadBalancerIPModeVIP {
			c.Errorf("mode %v", mode)
		}
		controllertest.Want(c, "finalizers", a.Finalizers, []string{"service.kubernetes.io/load-balancer-cleanup"})

		controllertest.Create(c, client.Services, balanced("d", corev1.ServiceSpec{}))
		c.Until("an event about the Service without an address", func() bool {
			return slices.Contains(c.EventsOf("d"), "SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure load balancer: the load balancer has no free address in 127.7.127.0/30")
		})
		a.Spec.Type, a.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeNodePort, nil
		if _, err := c.Update(c.Context(), controllertest.At(client.Services, "default/a"), a, metav1.UpdateOptions{}); err != nil {
			c.Fatal(err)
		}
		c.Until("d has the address that a had", func() bool {
			return address("d") == "127.7.127.1" && address("a") == "" && len(get("a").Finalizers) == 0
		})
		c.Until("events about a", func() bool {
			return strings.Join(c.EventsOf("a"), ", ") == "DeletedLoadBalancer: Deleted load balancer, DeletingLoadBalancer: Deleting load balancer, "+
				"EnsuredLoadBalancer: Ensured load balancer, EnsuringLoadBalancer: Ensuring load balancer"
		})
		c.Remove(client.Services, "default/b", metav1.DeletePropagationBackground)
		c.Until("the deleted Service is gone", func() bool { return get("b") == nil })
		if ip := address("other"); ip != "" {
			c.Errorf("a Service of another class has %s", ip)
		}
	})
}
