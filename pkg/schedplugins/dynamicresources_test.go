package schedplugins

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

const gpus = "gpu.example.com" // a driver, and its class

// someDevices is a slice with the devices of a node, as a pool of its own.
func someDevices(node string, names ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: gpus, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for _, name := range names {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: new(strings.TrimRight(name, "0123456789"))},
		}})
	}
	return s
}

func someClass(name string, selectors ...string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, s := range append([]string{fmt.Sprintf("device.driver == %q", gpus)}, selectors...) {
		c.Spec.Selectors = append(c.Spec.Selectors, celSelector(s))
	}
	return c
}

func celSelector(expression string) resourcev1.DeviceSelector {
	return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}
}

// someClaim is a claim with a request for one device, which change may change.
func someClaim(name string, change ...func(*resourcev1.DeviceRequest)) *resourcev1.ResourceClaim {
	r := resourcev1.DeviceRequest{Name: "req", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: gpus}}
	for _, f := range change {
		f(&r)
	}
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{r}}}}
}

// useClaims makes a pod use claims.
func useClaims(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		}
	}
}

func (c *cluster) devices(objs ...objectOf) {
	c.t.Helper()
	for _, obj := range objs {
		t := client.Target{Namespace: obj.GetNamespace()}
		switch obj.(type) {
		case *resourcev1.ResourceClaim:
			t.Resource = resourceClaims
		case *resourcev1.ResourceSlice:
			t.Resource = resourcev1.SchemeGroupVersion.WithResource("resourceslices")
		case *resourcev1.DeviceClass:
			t.Resource = resourcev1.SchemeGroupVersion.WithResource("deviceclasses")
		}
		c.create(t, obj.DeepCopyObject().(objectOf))
		if claim, ok := obj.(*resourcev1.ResourceClaim); ok && claim.Status.Allocation != nil {
			c.setClaim(claim.Name, func(now *resourcev1.ResourceClaim) { now.Status = claim.Status })
		}
	}
}

func (c *cluster) claim(name string) *resourcev1.ResourceClaim {
	c.t.Helper()
	obj, err := c.client.Get(context.Background(), client.In(resourceClaims, keyOf(name)), getOptions)
	if err != nil {
		c.t.Fatal(err)
	}
	return obj.(*resourcev1.ResourceClaim)
}

// setClaim changes the status of a claim.
func (c *cluster) setClaim(name string, change func(*resourcev1.ResourceClaim)) {
	c.t.Helper()
	claim := c.claim(name).DeepCopy()
	change(claim)
	if _, err := c.client.Update(context.Background(), client.In(resourceClaims, keyOf(name)).Sub("status"), claim, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// got returns the devices of a claim, and the pods for which it is reserved.
func got(claim *resourcev1.ResourceClaim) string {
	var devices, pods []string
	if a := claim.Status.Allocation; a != nil {
		for _, r := range a.Devices.Results {
			devices = append(devices, r.Request+"="+r.Pool+"/"+r.Device)
		}
	}
	for _, r := range claim.Status.ReservedFor {
		pods = append(pods, r.Name)
	}
	slices.Sort(pods)
	return strings.Join(devices, " ") + " for " + strings.Join(pods, " ")
}

// TestDevicesAreAllocatedOnce: two pods get the two devices of a node, and a third one waits until the claim of the first is deallocated.
func TestDevicesAreAllocatedOnce(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "4")
	c.node("n2", "4")
	c.devices(someClass(gpus), someDevices("n1", "a0", "a1"), someClaim("one"), someClaim("two"), someClaim("three"))
	c.start(nil)
	for _, name := range []string{"one", "two"} {
		c.pod(name, "1", useClaims(name))
		if on := c.bound(name); on != "n1" {
			t.Errorf("%s is on %s", name, on)
		}
	}
	if one, two := got(c.claim("one")), got(c.claim("two")); one != "req=n1/a0 for one" || two != "req=n1/a1 for two" {
		t.Errorf("the claims have %s, and %s", one, two)
	}
	if claim := c.claim("one"); !slices.Contains(claim.Finalizers, resourcev1.Finalizer) || claim.Status.Allocation.AllocationTimestamp == nil {
		t.Errorf("the claim has no finalizer or timestamp: %+v", claim)
	}
	c.pod("three", "1", useClaims("three"))
	c.unschedulable("three", "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
	c.setClaim("one", func(claim *resourcev1.ResourceClaim) { claim.Status = resourcev1.ResourceClaimStatus{} })
	c.bound("three")
	if three := got(c.claim("three")); three != "req=n1/a0 for three" {
		t.Errorf("the third claim has %s", three)
	}
}

// TestDevicesAreShared: pods share a claim, on the node of its device.
func TestDevicesAreShared(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "4")
	c.node("n2", "4")
	c.devices(someClass(gpus), someDevices("n2", "a0"), someClaim("shared"))
	c.start(nil)
	for i := range 4 {
		c.pod(fmt.Sprintf("p%d", i), "1", useClaims("shared"))
	}
	for i := range 4 {
		if on := c.bound(fmt.Sprintf("p%d", i)); on != "n2" {
			t.Errorf("p%d is on %s", i, on)
		}
	}
	if shared := got(c.claim("shared")); shared != "req=n2/a0 for p0 p1 p2 p3" {
		t.Errorf("the claim has %s", shared)
	}
}
