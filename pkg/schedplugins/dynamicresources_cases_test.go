package schedplugins

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
)

// allocatedTo gives a claim a device of node n1.
func allocatedTo(claim *resourcev1.ResourceClaim, device string, change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	claim.Finalizers = []string{resourcev1.Finalizer}
	claim.Status.Allocation = &resourcev1.AllocationResult{
		NodeSelector: onNode("n1"),
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "req", Driver: gpus, Pool: "n1", Device: device},
		}},
	}
	for _, f := range change {
		f(claim)
	}
	return claim
}

func onNode(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}
}

// onAnother makes the claim's device available on a node that does not exist.
func onAnother(claim *resourcev1.ResourceClaim) {
	claim.Status.Allocation.NodeSelector = onNode("other")
}

func reservedFor(pods ...string) func(*resourcev1.ResourceClaim) {
	return func(claim *resourcev1.ResourceClaim) {
		for _, name := range pods {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID("uid-of-" + name)})
		}
	}
}

func withAdminAccess(claim *resourcev1.ResourceClaim) {
	claim.Status.Allocation.Devices.Results[0].AdminAccess = new(true)
}

func adminAccess(r *resourcev1.DeviceRequest) { r.Exactly.AdminAccess = new(true) }

func selects(expression string) func(*resourcev1.DeviceRequest) {
	return func(r *resourcev1.DeviceRequest) {
		r.Exactly.Selectors = []resourcev1.DeviceSelector{celSelector(expression)}
	}
}

// alternatives makes a request one for the first of several classes.
func alternatives(classes ...string) func(*resourcev1.DeviceRequest) {
	return func(r *resourcev1.DeviceRequest) {
		r.Exactly = nil
		for _, class := range classes {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: strings.ReplaceAll(class, ".", "-"), DeviceClassName: class})
		}
	}
}

func tainted(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	return s
}

// modelled limits a class to devices of a model.
func modelled(name, model string) *resourcev1.DeviceClass {
	return someClass(name, `device.attributes["gpu.example.com"].model == "`+model+`"`)
}

// shareable lets several claims share the memory of a slice's first device.
func shareable(s *resourcev1.ResourceSlice, memory string) *resourcev1.ResourceSlice {
	s.Spec.Devices[0].AllowMultipleAllocations = new(true)
	s.Spec.Devices[0].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}}
	return s
}

// memory makes a request one for a part of a device's memory.
func memory(amount string) func(*resourcev1.DeviceRequest) {
	return func(r *resourcev1.DeviceRequest) {
		r.Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(amount)}}
	}
}

// partitions is a device of 4 slots, and its partitions of as many slots as their names say.
func partitions(slots ...string) []objectOf {
	counters := someDevices("n1")
	counters.Name, counters.Spec.Pool.ResourceSliceCount = "counters", 2
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu", Counters: map[string]resourcev1.Counter{"slots": {Value: resource.MustParse("4")}}}}
	devices := someDevices("n1")
	devices.Spec.Pool.ResourceSliceCount = 2
	for i, n := range slots {
		devices.Spec.Devices = append(devices.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("part-%d", i), ConsumesCounters: []resourcev1.DeviceCounterConsumption{
			{CounterSet: "gpu", Counters: map[string]resourcev1.Counter{"slots": {Value: resource.MustParse(n)}}},
		}})
	}
	return []objectOf{counters, devices}
}

// providing sets the extendedResourceName of a class.
func providing(class *resourcev1.DeviceClass, resource string) *resourcev1.DeviceClass {
	class.Spec.ExtendedResourceName = &resource
	return class
}

// asks makes the pod request an amount of an extended resource.
func asks(name, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		list := corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "asks-" + strings.ToLower(strings.NewReplacer(".", "-", "/", "-").Replace(name)), Image: "minikctl.dev/pause",
			Resources: corev1.ResourceRequirements{Requests: list, Limits: list}})
	}
}

const (
	notHelpful = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	rejectedBy = "0/1 nodes are available: "
)

// TestDynamicResources has the cases of Kubernetes' own test of the plugin, by their names. The cluster has the node n1, and the pod is named
// pod. want is the pod's node, the message of its condition, or of the plugin that keeps it out of the queue.
func TestDynamicResources(t *testing.T) {
	class, slice := someClass(gpus), func() *resourcev1.ResourceSlice { return someDevices("n1", "a0") }
	exhausted := func() *resourcev1.ResourceClaim { return allocatedTo(someClaim("other"), "a0", reservedFor("other")) }
	broken := selects(`device.attributes["gpu.example.com"].missing == "x"`)
	for _, x := range []struct {
		name string
		objs []objectOf
		pod  func(*corev1.Pod)
		want string
		got  string // what the claim "claim" has afterwards; "": is not checked
	}{
		{"empty", nil, func(*corev1.Pod) {}, "n1", ""},
		{"claim-reference", []objectOf{allocatedTo(someClaim("claim"), "a0"), someClaim("other")}, useClaims("claim"), "n1", "req=n1/a0 for pod"},
		{"missing-claim", nil, useClaims("claim"), `could not find ResourceClaim "default/claim"`, ""},
		{"no-resources", []objectOf{class, someClaim("claim")}, useClaims("claim"), rejectedBy + "1 cannot allocate all claims. still not schedulable, " + notHelpful, " for "},
		{"with-resources", []objectOf{class, slice(), someClaim("claim")}, useClaims("claim"), "n1", "req=n1/a0 for pod"},
		{"with-resources-has-finalizer", []objectOf{class, slice(), func() objectOf {
			c := someClaim("claim")
			c.Finalizers = []string{resourcev1.Finalizer}
			return c
		}()}, useClaims("claim"), "n1", "req=n1/a0 for pod"},
		{"exhausted-resources-in-informer-cache", []objectOf{class, slice(), someClaim("claim"), exhausted()}, useClaims("claim"),
			rejectedBy + "1 cannot allocate all claims. still not schedulable, " + notHelpful, " for "},
		{"tainted-device-enabled", []objectOf{class, tainted(slice()), someClaim("claim")}, useClaims("claim"),
			rejectedBy + "1 cannot allocate all claims. still not schedulable, " + notHelpful, " for "},
		{"tainted-device-tolerated", []objectOf{class, tainted(slice()), someClaim("claim", func(r *resourcev1.DeviceRequest) {
			r.Exactly.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
		})}, useClaims("claim"), "n1", "req=n1/a0 for pod"},
		{"request-admin-access-with-DRAAdminAccess-featuregate", []objectOf{class, slice(), someClaim("claim", adminAccess), exhausted()}, useClaims("claim"), "n1", "req=n1/a0 for pod"},
		{"structured-ignore-allocated-admin-access", []objectOf{class, slice(), someClaim("claim"), allocatedTo(someClaim("other", adminAccess), "a0", withAdminAccess)}, useClaims("claim"),
			"n1", "req=n1/a0 for pod"},
		{"claim-parameters-CEL-runtime-error", []objectOf{class, slice(), someClaim("claim", broken)}, useClaims("claim"),
			`running Filter plugin "DynamicResources": claim default/claim: selector #0: CEL runtime error: no such key: missing`, " for "},
		{"class-parameters-CEL-runtime-error", []objectOf{someClass(gpus, `device.attributes["gpu.example.com"].missing == "x"`), slice(), someClaim("claim")}, useClaims("claim"),
			`running Filter plugin "DynamicResources": class gpu.example.com: selector #1: CEL runtime error: no such key: missing`, " for "},
		{"missing-class", []objectOf{someClaim("claim")}, useClaims("claim"),
			rejectedBy + "request req: device class gpu.example.com does not exist. no new claims to deallocate, " + notHelpful, " for "},
		{"wrong-topology", []objectOf{class, slice(), allocatedTo(someClaim("claim"), "a0", onAnother)}, useClaims("claim"), "n1", "req=n1/a0 for pod"}, // deallocated first
		{"wrong-topology, in use", []objectOf{class, slice(), allocatedTo(someClaim("claim"), "a0", onAnother, reservedFor("other"))}, useClaims("claim"),
			rejectedBy + "1 resourceclaim not available on the node. still not schedulable, " + notHelpful, "req=n1/a0 for other"},
		{"good-topology", []objectOf{allocatedTo(someClaim("claim"), "a0")}, useClaims("claim"), "n1", "req=n1/a0 for pod"},
		{"reserved for another pod", []objectOf{allocatedTo(someClaim("claim"), "a0", reservedFor("other"))}, useClaims("claim"), "n1", "req=n1/a0 for other pod"},
		{"claim-with-prioritized-list-unknown-device-class", []objectOf{class, slice(), someClaim("claim", alternatives(gpus, "none"))}, useClaims("claim"),
			rejectedBy + "request req/none: device class none does not exist. no new claims to deallocate, " + notHelpful, " for "},
		{"claim-with-prioritized-list", []objectOf{modelled("x", "x"), modelled("a", "a"), slice(), someClaim("claim", alternatives("x", "a"))}, useClaims("claim"),
			"n1", "req/a=n1/a0 for pod"},
		{"two claims", []objectOf{class, someDevices("n1", "a0", "a1"), someClaim("claim"), someClaim("second")}, useClaims("claim", "second"), "n1", "req=n1/a0 for pod"},
		{"one of two claims", []objectOf{class, slice(), someClaim("claim"), someClaim("second")}, useClaims("claim", "second"),
			rejectedBy + "1 cannot allocate all claims. still not schedulable, " + notHelpful, " for "},
		{"all devices", []objectOf{class, someDevices("n1", "a0", "a1"), someClaim("claim", func(r *resourcev1.DeviceRequest) { r.Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll })},
			useClaims("claim"), "n1", "req=n1/a0 req=n1/a1 for pod"},
		{"count", []objectOf{class, someDevices("n1", "a0", "a1"), someClaim("claim", func(r *resourcev1.DeviceRequest) { r.Exactly.Count = 2 })}, useClaims("claim"), "n1", "req=n1/a0 req=n1/a1 for pod"},
		{"selector", []objectOf{class, someDevices("n1", "a0", "b0"), someClaim("claim", selects(`device.attributes["gpu.example.com"].model == "b"`))}, useClaims("claim"), "n1", "req=n1/b0 for pod"},
		{"consumable capacity", []objectOf{class, shareable(slice(), "16Gi"), someClaim("claim", memory("8Gi")), someClaim("second", memory("8Gi"))}, useClaims("claim", "second"), "n1", "req=n1/a0 for pod"},
		{"consumable capacity, too little", []objectOf{class, shareable(slice(), "16Gi"), someClaim("claim", memory("8Gi")), someClaim("second", memory("9Gi"))}, useClaims("claim", "second"),
			rejectedBy + "1 cannot allocate all claims. still not schedulable, " + notHelpful, " for "},
		{"partitions", append(partitions("3", "3", "1"), class, someClaim("claim"), someClaim("second")), useClaims("claim", "second"), "n1", "req=n1/part-0 for pod"},
		{"partitions, too many", append(partitions("3", "3"), class, someClaim("claim"), someClaim("second")), useClaims("claim", "second"),
			rejectedBy + "1 cannot allocate all claims. still not schedulable, " + notHelpful, " for "},

		{"extended-resource-name-no-resource", []objectOf{providing(someClass(gpus), "example.com/gpu")}, asks("example.com/gpu", "1"),
			rejectedBy + "1 cannot allocate all claims. still not schedulable, " + notHelpful, ""},
		{"extended-resource-name-with-resources", []objectOf{providing(someClass(gpus), "example.com/gpu"), slice()}, asks("example.com/gpu", "1"), "n1", ""},
		{"implicit-extended-resource-name-with-resources", []objectOf{class, slice()}, asks("deviceclass.resource.kubernetes.io/gpu.example.com", "1"), "n1", ""},
		{"extended resource without a class", []objectOf{class, slice()}, asks("example.com/gpu", "1"), rejectedBy + "1 Insufficient example.com/gpu. no new claims to deallocate, " + notHelpful, ""},
		{"extended-resource-one-device-plugin-one-dra", []objectOf{providing(someClass(gpus), "example.com/gpu"), slice()}, func(p *corev1.Pod) {
			asks("example.com/gpu", "1")(p)
			asks("example.com/plugged", "1")(p)
		}, "n1", ""},
		{"extended-resource-name-with-node-resource", []objectOf{providing(someClass(gpus), "example.com/plugged")}, asks("example.com/plugged", "1"), "n1", ""},
		{"non-DRA-extended-resource-name-with-zero-allocatable", []objectOf{providing(someClass(gpus), "example.com/gpu"), slice()}, func(p *corev1.Pod) {
			asks("example.com/gpu", "1")(p)
			asks("example.com/zero", "1")(p)
		}, rejectedBy + "1 Insufficient example.com/zero. still not schedulable, " + notHelpful, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newCluster(t)
			c.node("n1", "4", func(n *corev1.Node) {
				n.Status.Allocatable["example.com/plugged"], n.Status.Allocatable["example.com/zero"] = resource.MustParse("1"), resource.MustParse("0")
			})
			c.label("resource.kubernetes.io/admin-access", "true")
			c.devices(x.objs...)
			c.start(nil)
			c.pod("pod", "1", x.pod)
			c.ends("pod", x.want)
			if x.got == "" {
				return
			}
			if now := got(c.claim("claim")); now != x.got {
				t.Errorf("the claim has %q, want %q", now, x.got)
			}
		})
	}
}

// ends waits until the pod has a node, or is kept from having one with a message.
func (c *cluster) ends(name, want string) {
	c.t.Helper()
	var seen string
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s last had %q", name, seen)
		}
	}()
	c.eventually(want+" for "+name, func() bool {
		p, ok := c.pods.Get(keyOf(name))
		if !ok {
			return false
		}
		seen = p.Spec.NodeName
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
				seen = cond.Message
			}
		}
		if seen != want && p.Spec.NodeName == "" {
			seen = c.gateOf(name)
		}
		return seen == want
	})
}

// gateOf returns why DynamicResources keeps a pod out of the queue, as its latest decision says.
func (c *cluster) gateOf(pod string) (reason string) {
	for _, d := range c.decisions(pod) {
		reason, _ = strings.CutPrefix(d.Message, "waiting for scheduler plugin DynamicResources: ")
	}
	return reason
}

func (c *cluster) label(key, value string) {
	c.t.Helper()
	patch := client.Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, key, value)}
	if _, err := c.client.Patch(context.Background(), client.Target{Resource: client.Namespaces, Name: "default"}, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}
