package networking_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var (
	ranges    = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	addresses = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
)

// TestServiceCIDR follows the page "Extend Service IP Ranges" of the documentation.
func TestServiceCIDR(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // near the server's
		testServiceCIDR(controllertest.Start(t, clk), clk)
	})
	t.Run("over HTTP", func(t *testing.T) {
		clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // near the server's
		testServiceCIDR(controllertest.StartRemoteOn(t, clk), clk)
	})
}

func testServiceCIDR(c *controllertest.Cluster, clk *testclock.FakeClock) {
	ready := func(name string) metav1.Condition {
		r, ok := controllertest.Get[*networkingv1.ServiceCIDR](c, ranges, "/"+name)
		if !ok || len(r.Status.Conditions) != 1 || !slices.Contains(r.Finalizers, "networking.k8s.io/service-cidr-finalizer") {
			return metav1.Condition{}
		}
		return r.Status.Conditions[0]
	}
	isReady := func(name string) func() bool {
		return func() bool {
			return ready(name).Status == "True" && ready(name).Message == "Kubernetes Service CIDR is ready"
		}
	}
	terminating := func(name string) func() bool {
		return func() bool {
			got := ready(name)
			return got.Status == "False" && got.Reason == "Terminating" &&
				got.Message == "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
		}
	}
	gone := func(name string) func() bool {
		return func() bool {
			clk.Step(time.Second)
			return !c.Exists(ranges, "/"+name)
		}
	}
	create := func(name, cidr string) {
		controllertest.Create(c, ranges, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}},
		})
	}
	create("more", "10.200.0.0/28")
	c.Until("the new range is ready", isReady("more"))
	c.Until("the default range is ready", isReady("kubernetes"))
	if r, _ := controllertest.Get[*networkingv1.ServiceCIDR](c, ranges, "/kubernetes"); r.ResourceVersion != "1" {
		c.Errorf("the default range was written: %v", r)
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	svc.Spec = corev1.ServiceSpec{ClusterIP: "10.200.0.5", Ports: []corev1.ServicePort{{Port: 80}}}
	controllertest.Create(c, client.Services, svc)
	c.Remove(ranges, "/more", metav1.DeletePropagationBackground)
	c.Until("the range in use stays", terminating("more"))

	create("larger", "10.200.0.0/24")
	c.Until("a range in a larger one is removed", gone("more"))
	c.Until("the larger one is ready", isReady("larger"))
	c.Remove(ranges, "/larger", metav1.DeletePropagationBackground)
	c.Until("the larger range stays", terminating("larger"))
	c.Remove(client.Services, "a", metav1.DeletePropagationBackground)
	if c.Exists(addresses, "/10.200.0.5") {
		c.Error("the IPAddress of a deleted Service exists")
	}
	c.Until("the larger range is removed", gone("larger"))

	c.Remove(ranges, "/kubernetes", metav1.DeletePropagationBackground)
	c.Until("the default range, which has the Service kubernetes, stays", terminating("kubernetes"))
}
