package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// messages returns the messages of a pod's decisions and Events.
func (c *cluster) messages(pod string) (out []string) {
	for _, d := range c.decisions(pod) {
		out = append(out, d.Message)
	}
	for _, e := range c.events() {
		if e.InvolvedObject.Name == pod {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}

// says waits for a decision or an Event of a pod whose text has a part.
func (c *cluster) says(pod, part string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s has %q", pod, c.messages(pod))
		}
	}()
	c.eventually(fmt.Sprintf("%q of %s", part, pod), func() bool {
		return slices.ContainsFunc(c.messages(pod), func(m string) bool { return strings.Contains(m, part) })
	})
}

// attachable gives the first device of a slice conditions that its driver has to set before a pod is bound.
func attachable(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	d := &s.Spec.Devices[0]
	d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = new(true), []string{"attached"}, []string{"broken"}
	return s
}

// drive sets a condition of the device that the claim has, as its driver does.
func (c *cluster) drive(claim, condition string) {
	c.t.Helper()
	c.setClaim(claim, func(now *resourcev1.ResourceClaim) {
		r := now.Status.Allocation.Devices.Results[0]
		now.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{
			{Type: condition, Status: metav1.ConditionTrue, Reason: "Driver", Message: "says the driver", LastTransitionTime: metav1.NewTime(virtualBegan)},
		}}}
	})
}

// TestBindingConditions: a pod is bound once the driver has attached its device. A device that is broken, or not attached in time, is deallocated
// so that the pod may get another one.
func TestBindingConditions(t *testing.T) {
	v := newVirtualCluster(t, 1)
	v.node("n1", "8")
	v.devices(someClass(gpus), attachable(someDevices("n1", "a0")), someClaim("claim"))
	v.start(nil)
	v.pod("pod", "1", useClaims("claim"))
	v.advance(time.Second)
	v.says("pod", "BindingConditionsPending: waiting for binding conditions for device on node n1")
	if v.boundPods("pod") > 0 || got(v.claim("claim")) != "req=n1/a0 for pod" {
		t.Errorf("bound before the device is attached, with %s", got(v.claim("claim")))
	}
	v.drive("claim", "broken")
	v.advance(time.Minute)
	v.says("pod", `device binding failed: claim=claim, reason=Driver, message="says the driver"`)
	v.says("pod", "1 resourceclaim not available on the node. deallocation of ResourceClaim completed")
	if status := v.claim("claim").Status; len(status.Devices) > 0 || got(v.claim("claim")) != "req=n1/a0 for pod" {
		t.Errorf("not allocated again: %+v", status)
	}
	v.advance(20 * time.Minute) // the timeout is 10 minutes
	v.says("pod", "device binding timeout")
	v.drive("claim", "attached")
	v.advance(time.Minute)
	if v.boundPods("pod") == 0 {
		t.Errorf("not bound: %q", v.messages("pod"))
	}
}

// stumbling is a client whose first writes of claims' statuses fail.
type stumbling struct {
	client.Client
	left atomic.Int32
}

func (s *stumbling) Update(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error) {
	if t.Resource == resourceClaims && t.Subresource == "status" && s.left.Add(-1) >= 0 {
		return nil, apierrors.NewInternalError(errors.New("stumbled"))
	}
	return s.Client.Update(ctx, t, obj, opts)
}

// TestClaimNotWritten: when the second of two claims can't be written, the reservation of the first is removed and the devices of the second are
// free. The pod is tried again.
func TestClaimNotWritten(t *testing.T) {
	v := newVirtualCluster(t, 1)
	v.node("n1", "8")
	v.devices(someClass(gpus), someDevices("n1", "a0", "a1"), someClaim("first"), someClaim("second"), someClaim("other"))
	c := &stumbling{Client: v.env.Client("kube-scheduler")}
	v.start(func(cfg *scheduler.Config) { cfg.Client = c })
	c.left.Store(-1)
	v.pod("other", "1", useClaims("other"))
	v.advance(time.Second)
	c.left.Store(1)
	v.pod("pod", "1", useClaims("first"))
	v.advance(0)
	v.says("pod", "add allocation and reservation to claim default/first: Internal error occurred: stumbled")
	v.pod("late", "1", useClaims("second"))
	v.advance(0)
	if now := got(v.claim("second")); now != "req=n1/a1 for late" {
		t.Errorf("the device is not free after the failure: %s", now)
	}
	v.deleteNow(client.In(client.Pods, keyOf("late")))
	v.setClaim("second", func(now *resourcev1.ResourceClaim) { now.Status = resourcev1.ResourceClaimStatus{} })
	v.advance(time.Minute)
	if now := got(v.claim("first")); now != "req=n1/a1 for pod" || v.boundPods("pod") == 0 {
		t.Errorf("not tried again: %s", now)
	}
}

// TestUnreserve: a pod that is not bound after all gives its reservation of a claim up, and keeps that of others.
func TestUnreserve(t *testing.T) {
	v := newVirtualCluster(t, 1)
	v.node("n1", "8")
	v.devices(someClass(gpus), attachable(someDevices("n1", "a0")), allocatedTo(someClaim("shared"), "a1", reservedFor("other")), someClaim("claim"))
	v.start(nil)
	v.pod("pod", "1", useClaims("shared", "claim"))
	v.advance(time.Second)
	if now := got(v.claim("shared")); now != "req=n1/a1 for other pod" {
		t.Errorf("the shared claim has %s", now)
	}
	v.drive("claim", "broken")
	v.advance(0)
	v.says("pod", "device binding failed")
	if now := got(v.claim("shared")); now != "req=n1/a1 for other" {
		t.Errorf("after the failure, the shared claim has %s", now)
	}
}

// TestFilterTimeout: an allocation that takes too long is an error, so that the pod is tried again.
func TestFilterTimeout(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "8")
	c.devices(someClass(gpus), someDevices("n1", "a0"), someClaim("claim"))
	conf := &configv1.KubeSchedulerConfiguration{}
	const args = "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 1ns}}]}]"
	if err := plug.Decode([]byte(header+args), conf); err != nil {
		t.Fatal(err)
	}
	c.start(func(cfg *scheduler.Config) { cfg.Config = conf })
	c.pod("pod", "1", useClaims("claim"))
	c.says("pod", `running Filter plugin "DynamicResources": node n1: timed out trying to allocate devices`)
}

// TestArguments: timeouts that make no sense are refused.
func TestDynamicResourcesArguments(t *testing.T) {
	for args, want := range map[string]string{
		"filterTimeout: -1s":     "filterTimeout: Invalid value: \"-1s\": must be zero or positive",
		"bindingTimeout: 500ms":  "bindingTimeout: Invalid value: \"500ms\": must be at least 1 second",
		"bindingTimeout: 1s":     "",
		"filterTimeout: 0s":      "",
		"filterTimeouts: 1s":     "unknown field",
		"bindingTimeout: 10m0s ": "",
	} {
		conf := &configv1.KubeSchedulerConfiguration{}
		if err := plug.Decode([]byte(header+"profiles: [{pluginConfig: [{name: DynamicResources, args: {"+args+"}}]}]"), conf); err != nil {
			t.Fatal(err)
		}
		_, err := scheduler.Inspect(t.Context(), Registry, conf)
		if err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

// TestAlternatives: of two nodes, a pod gets that with the alternative that stands first in its request.
func TestAlternatives(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "8")
	c.node("n2", "8")
	c.devices(modelled("a", "a"), modelled("b", "b"), someDevices("n1", "a0"), someDevices("n2", "b0"), someClaim("claim", alternatives("b", "a")), someClaim("second", alternatives("b", "a")))
	c.start(nil)
	c.pod("pod", "1", useClaims("claim"))
	if on := c.bound("pod"); on != "n2" || got(c.claim("claim")) != "req/b=n2/b0 for pod" {
		t.Errorf("on %s, with %s", on, got(c.claim("claim")))
	}
	d := c.decision("pod", "Scheduled")
	var scores []string
	for _, s := range d.Scores {
		for _, p := range s.Plugins {
			if p.Plugin == "DynamicResources" {
				scores = append(scores, fmt.Sprint(s.Nodes[0], " ", p.Raw, " ", p.Score))
			}
		}
	}
	if want := []string{"n2 8 200", "n1 7 174"}; !slices.Equal(scores, want) {
		t.Errorf("scores %q, want %q", scores, want)
	}
	c.pod("late", "1", useClaims("second"))
	if on := c.bound("late"); on != "n1" {
		t.Errorf("the second one is on %s", on)
	}
}

// TestMadeClaims: a pod with a template waits until its status names a claim that was made for it.
func TestMadeClaims(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "8")
	c.devices(someClass(gpus), someDevices("n1", "a0"), someClaim("foreign"))
	templated := func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("template")}}
	}
	c.pod("wrong", "1", templated)
	c.name("wrong", "foreign")
	c.start(nil)
	c.ends("wrong", "ResourceClaim default/foreign was not created for Pod default/wrong (Pod is not owner)")
	c.pod("pod", "1", templated)
	c.ends("pod", `pod "default/pod": ResourceClaim not created yet`)
	pod := c.until("pod", "in the cache", func(*corev1.Pod) bool { return true })
	made := someClaim("made")
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: pod.UID, Controller: new(true)}}
	c.devices(made)
	c.name("pod", "made")
	c.bound("pod")
	if now := got(c.claim("made")); now != "req=n1/a0 for pod" {
		t.Errorf("the claim has %s", now)
	}
}

// name writes the name of the claim of a template to a pod's status.
func (c *cluster) name(pod, claim string) {
	c.t.Helper()
	p, err := c.client.Get(context.Background(), client.In(client.Pods, keyOf(pod)), getOptions)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := scheduler.PatchPodStatus(context.Background(), c.client, p.(*corev1.Pod), map[string]any{"resourceClaimStatuses": []map[string]any{{"name": "gpu", "resourceClaimName": claim}}}); err != nil {
		c.t.Fatal(err)
	}
}

// TestDeletedClaim: a claim that is being deleted is not used.
func TestDeletedClaim(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "8")
	claim := someClaim("claim")
	claim.Finalizers = []string{"example.com/stays"}
	c.devices(someClass(gpus), someDevices("n1", "a0"), claim)
	if _, err := c.client.Delete(context.Background(), client.In(resourceClaims, keyOf("claim")), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.start(nil)
	c.pod("pod", "1", useClaims("claim"))
	c.ends("pod", `resourceclaim "claim" is being deleted`)
}

// holding is a client that holds writes of claims' statuses back until it is released.
type holding struct {
	client.Client
	held     atomic.Bool
	released chan struct{}
}

func (h *holding) Update(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error) {
	if t.Resource == resourceClaims && t.Subresource == "status" {
		h.held.Store(true)
		select {
		case <-h.released:
		case <-ctx.Done():
		}
	}
	return h.Client.Update(ctx, t, obj, opts)
}

// TestInFlight has Kubernetes' case exhausted-resources-in-flight-claim: a device whose allocation is not written yet is not given to another claim, and
// the claim to no other pod.
func TestInFlight(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "8")
	c.devices(someClass(gpus), someDevices("n1", "a0"), someClaim("claim"), someClaim("second"))
	h := &holding{Client: c.env.Client("kube-scheduler"), released: make(chan struct{})}
	release := sync.OnceFunc(func() { close(h.released) })
	defer release()
	c.start(func(cfg *scheduler.Config) { cfg.Client = h })
	c.pod("pod", "1", useClaims("claim"))
	c.eventually("allocation in flight", h.held.Load)
	c.pod("late", "1", useClaims("second"))
	c.unschedulable("late", rejectedBy+"1 cannot allocate all claims. still not schedulable, "+notHelpful)
	c.pod("sharer", "1", useClaims("claim"))
	c.unschedulable("sharer", rejectedBy+"resource claim default/claim is in the process of being allocated. no new claims to deallocate, "+notHelpful)
	release()
	c.bound("pod")
	c.bound("sharer")
	if now := got(c.claim("claim")); now != "req=n1/a0 for pod sharer" {
		t.Errorf("the claim has %s", now)
	}
}
