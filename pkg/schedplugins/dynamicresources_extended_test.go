package schedplugins

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// extendedClaims lists the claims that were made for extended resources.
func (c *cluster) extendedClaims() (out []*resourcev1.ResourceClaim) {
	c.t.Helper()
	list, err := c.client.List(context.Background(), client.Target{Resource: resourceClaims, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, obj := range list.Items {
		if claim := obj.(*resourcev1.ResourceClaim); claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
			out = append(out, claim)
		}
	}
	return out
}

// TestExtendedResources: a pod that requests a resource for which a class stands gets a claim of its own, which its status names, and the devices
// are not given to another pod.
func TestExtendedResources(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "8")
	c.devices(providing(someClass(gpus), "example.com/gpu"), someDevices("n1", "a0", "a1", "a2"), someClaim("claim"))
	c.start(nil)
	c.pod("pod", "1", asks("example.com/gpu", "2"))
	c.bound("pod")
	claims := c.extendedClaims()
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	claim := claims[0]
	if now := got(claim); now != "container-1-request-0=n1/a0 container-1-request-0=n1/a1 for pod" || !strings.HasPrefix(claim.Name, "pod-extended-resources-") ||
		!slices.Contains(claim.Finalizers, resourcev1.Finalizer) || len(claim.OwnerReferences) != 1 {
		t.Errorf("the claim has %s: %+v", now, claim)
	}
	pod := c.until("pod", "with its claim", func(p *corev1.Pod) bool { return p.Status.ExtendedResourceClaimStatus != nil })
	want := corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name, RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "asks-example-com-gpu", ResourceName: "example.com/gpu", RequestName: "container-1-request-0"},
	}}
	if now := pod.Status.ExtendedResourceClaimStatus; fmt.Sprint(*now) != fmt.Sprint(want) {
		t.Errorf("the pod's status has %+v, want %+v", now, want)
	}
	c.pod("large", "1", asks("example.com/gpu", "2"))
	c.unschedulable("large", rejectedBy+"1 cannot allocate all claims. still not schedulable, "+notHelpful)
	c.pod("claims", "1", useClaims("claim"))
	c.bound("claims")
	if now := got(c.claim("claim")); now != "req=n1/a2 for claims" {
		t.Errorf("the other claim has %s", now)
	}
}

// TestExtendedClaimIsRemoved: the claim of a pod that is not bound after all is deleted, and that of an earlier scheduler, too.
func TestExtendedClaimIsRemoved(t *testing.T) {
	v := newVirtualCluster(t, 1)
	v.node("n1", "8")
	v.devices(providing(someClass(gpus), "example.com/gpu"), someDevices("n1", "a0"))
	c := &stumbling{Client: v.env.Client("kube-scheduler")}
	v.pod("pod", "1", asks("example.com/gpu", "1"))
	p := v.allPods()["pod"]
	stale := allocatedTo(someClaim("stale"), "a0")
	stale.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	stale.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: p.UID, Controller: new(true)}}
	v.devices(stale)
	c.left.Store(1)
	v.start(func(cfg *scheduler.Config) { cfg.Client = c })
	v.says("pod", "1 cannot schedule extended resource claim. deletion of ResourceClaim completed")
	v.says("pod", "Internal error occurred: stumbled")
	v.advance(time.Minute)
	if v.boundPods("pod") == 0 || len(v.extendedClaims()) != 1 {
		t.Errorf("%d claims: %q", len(v.extendedClaims()), v.messages("pod"))
	}
}

// classOf resolves resources to classes of their names.
type classOf []corev1.ResourceName

func (r classOf) GetDeviceClass(name corev1.ResourceName) *resourcev1.DeviceClass {
	if !slices.Contains(r, name) {
		return nil
	}
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "class-of-" + strings.TrimPrefix(string(name), "example.com/")}}
}

// TestExtendedRequests has the cases of Kubernetes' test of the same requests: NAME COUNT of each, and after a colon CONTAINER=REQUEST for each
// request that a container uses.
func TestExtendedRequests(t *testing.T) {
	container := func(name string, amounts ...string) corev1.Container {
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
		for i := 0; i < len(amounts); i += 2 {
			c.Resources.Requests[corev1.ResourceName("example.com/"+amounts[i])] = resource.MustParse(amounts[i+1])
		}
		return c
	}
	sidecar := func(c corev1.Container) corev1.Container {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		return c
	}
	type list = []corev1.Container
	both := classOf{"example.com/a", "example.com/b"}
	for _, x := range []struct {
		name       string
		inits, run list
		classes    classOf
		want       string
	}{
		{"one resource match", nil, list{container("c", "a", "1", "b", "2")}, classOf{"example.com/a"}, "container-0-request-0 1: c=container-0-request-0"},
		{"two resources match", nil, list{container("c", "a", "1", "b", "2")}, both,
			"container-0-request-0 1, container-0-request-1 2: c=container-0-request-0 c=container-0-request-1"},
		{"two containers match", nil, list{container("c", "a", "1"), container("d", "b", "2")}, both,
			"container-0-request-0 1, container-1-request-0 2: c=container-0-request-0 d=container-1-request-0"},
		{"one init container, one regular container", list{container("i", "b", "2")}, list{container("c", "a", "1")}, both,
			"container-0-request-0 2, container-1-request-0 1: c=container-1-request-0 i=container-0-request-0"},
		{"two init containers, one regular container", list{container("i", "b", "1"), container("j", "b", "2")}, list{container("c", "a", "1")}, both,
			"container-1-request-0 2, container-2-request-0 1: c=container-2-request-0 i=container-1-request-0 j=container-1-request-0"},
		{"three init containers, one sidecar, one regular container",
			list{container("i", "b", "1"), sidecar(container("s", "b", "1")), container("j", "b", "2")}, list{container("c", "a", "1")}, both,
			"container-1-request-0 1, container-2-request-0 2, container-3-request-0 1: c=container-3-request-0 s=container-1-request-0 i=container-1-request-0 j=container-2-request-0"},
		{"an init container uses the devices of the containers after it", list{container("i", "a", "3")}, list{container("c", "a", "1"), container("d", "a", "1")}, both,
			"container-0-request-0 1, container-1-request-0 1, container-2-request-0 1: " +
				"c=container-1-request-0 d=container-2-request-0 i=container-1-request-0 i=container-2-request-0 i=container-0-request-0"},
	} {
		t.Run(x.name, func(t *testing.T) {
			pod := somePod("p", "", func(p *corev1.Pod) { p.Spec.InitContainers, p.Spec.Containers = x.inits, x.run })
			d := &dynamicResources{devices: managerOf{classes: x.classes}}
			extended := &extendedDevices{}
			for _, name := range x.classes {
				extended.amounts = append(extended.amounts, amount{name, 1})
			}
			info := infosOf(t, []*corev1.Node{someNode("n")}, nil)[0]
			got, status := d.extendedOn(&podDevices{extended: extended}, pod, info)
			if status != nil {
				t.Fatal(status)
			}
			var requests, uses []string
			for _, r := range got.claim.Spec.Devices.Requests {
				requests = append(requests, fmt.Sprint(r.Name, " ", r.Exactly.Count))
			}
			for _, m := range got.mappings {
				uses = append(uses, m.ContainerName+"="+m.RequestName)
			}
			slices.Sort(uses)
			want, wantUses, _ := strings.Cut(x.want, ": ")
			sorted := strings.Fields(wantUses)
			slices.Sort(sorted)
			if now := strings.Join(requests, ", "); now != want || !slices.Equal(uses, sorted) {
				t.Errorf("got  %s: %s\nwant %s: %s", now, uses, want, sorted)
			}
		})
	}
}

// managerOf is a manager that only knows classes.
type managerOf struct {
	framework.SharedDRAManager
	classes classOf
}

func (m managerOf) DeviceClassResolver() framework.DeviceClassResolver { return m.classes }
