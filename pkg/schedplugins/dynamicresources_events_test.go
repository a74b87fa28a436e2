package schedplugins

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// knownClaims is a manager that only knows claims.
type knownClaims struct {
	framework.SharedDRAManager
	framework.ResourceClaimTracker
	claims []*resourcev1.ResourceClaim
}

func (k knownClaims) ResourceClaims() framework.ResourceClaimTracker { return k }

func (k knownClaims) Get(_, name string) (*resourcev1.ResourceClaim, error) {
	for _, claim := range k.claims {
		if claim.Name == name {
			return claim, nil
		}
	}
	return nil, errors.New("unknown")
}

// TestDeviceHints has the cases of Kubernetes' tests of the hints, by their names.
func TestDeviceHints(t *testing.T) {
	claim := func(name string, change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := someClaim(name)
		c.UID = types.UID("uid-of-" + name)
		for _, f := range change {
			f(c)
		}
		return c
	}
	protected := func(c *resourcev1.ResourceClaim) { c.Finalizers = []string{"x"} }
	allocated := func(c *resourcev1.ResourceClaim) { allocatedTo(c, "a0") }
	owned := func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{UID: "uid-of-p", Controller: new(true)}}
	}
	uses := somePod("p", "", useClaims("claim"), func(p *corev1.Pod) { p.UID = "uid-of-p" })
	for _, x := range []struct {
		name     string
		known    []*resourcev1.ResourceClaim
		old, now any
		want     framework.QueueingHint
	}{
		{"backoff-wrong-new-object", nil, nil, "not-a-claim", framework.Queue},
		{"skip-wrong-claim", nil, nil, claim("other"), framework.QueueSkip}, // the pod's own is still missing
		{"skip-unrelated-claim", []*resourcev1.ResourceClaim{claim("claim")}, nil, claim("other"), framework.QueueSkip},
		{"queue-on-add", []*resourcev1.ResourceClaim{claim("claim")}, nil, claim("claim"), framework.Queue},
		{"skip-adding-finalizer", []*resourcev1.ResourceClaim{claim("claim", protected)}, claim("claim"), claim("claim", protected), framework.QueueSkip},
		{"queue-on-status-change", []*resourcev1.ResourceClaim{claim("claim", allocated)}, claim("claim"), claim("claim", allocated), framework.Queue},
		{"claim-deallocate", []*resourcev1.ResourceClaim{claim("claim")}, claim("other", allocated), claim("other"), framework.Queue},
		{"deallocated while a claim is missing", nil, claim("other", allocated), claim("other"), framework.QueueSkip},
		{"claim of extended resources", []*resourcev1.ResourceClaim{claim("claim")}, claim("made", owned), claim("made", owned, protected), framework.Queue},
	} {
		d := &dynamicResources{devices: knownClaims{claims: x.known}}
		if got, err := d.afterClaim(klog.Background(), uses, x.old, x.now); err != nil || got != x.want {
			t.Errorf("%s: got %v, %v, want %v", x.name, got, err, x.want)
		}
	}
	named := func(name string) *corev1.Pod {
		p := somePod("p", "", func(p *corev1.Pod) {
			p.UID = "uid-of-p"
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")}}
		})
		if name != "" {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
		}
		return p
	}
	another := named("made")
	another.UID = "another"
	for _, x := range []struct {
		name string
		now  any
		want framework.QueueingHint
	}{
		{"backoff-wrong-new-object", "not-a-pod", framework.Queue},
		{"complete", named("made"), framework.Queue},
		{"wrong-pod", another, framework.QueueSkip},
		{"missing-claim", named("unknown"), framework.QueueSkip},
		{"incomplete", named(""), framework.QueueSkip},
	} {
		d := &dynamicResources{devices: knownClaims{claims: []*resourcev1.ResourceClaim{claim("made", owned)}}}
		if got, err := d.afterPod(klog.Background(), named(""), nil, x.now); err != nil || got != x.want {
			t.Errorf("pod, %s: got %v, %v, want %v", x.name, got, err, x.want)
		}
	}
}

// TestClassHints: a class wakes the pods that request the resource for which it now stands.
func TestClassHints(t *testing.T) {
	const implicit = "deviceclass.resource.kubernetes.io/gpu.example.com"
	plain, standing := someClass(gpus), providing(someClass(gpus), "example.com/gpu")
	for _, x := range []struct {
		name     string
		resource string
		old, now any
		want     framework.QueueingHint
	}{
		{"added", "example.com/gpu", nil, standing, framework.Queue},
		{"added, implicit", implicit, nil, plain, framework.Queue},
		{"added for another resource", "example.com/other", nil, standing, framework.QueueSkip},
		{"resource added", "example.com/gpu", plain, standing, framework.Queue},
		{"resource removed", "example.com/gpu", standing, plain, framework.QueueSkip},
		{"same resource", "example.com/gpu", standing, standing, framework.QueueSkip},
		{"updated, implicit", implicit, plain, standing, framework.QueueSkip},
		{"no class", "example.com/gpu", nil, "x", framework.Queue},
	} {
		if got, err := afterClass(klog.Background(), somePod("p", "", asks(x.resource, "1")), x.old, x.now); err != nil || got != x.want {
			t.Errorf("%s: got %v, %v, want %v", x.name, got, err, x.want)
		}
	}
}

// TestGangSharesDevice: the pods of a gang share a claim that the first of them allocates, also on the one node that has the device.
func TestGangSharesDevice(t *testing.T) {
	c := newCluster(t, withFeatures(feature.All))
	c.node("n1", "8")
	c.node("n2", "8")
	c.devices(someClass(gpus), someDevices("n2", "a0"), someClaim("claim"))
	c.start(func(cfg *scheduler.Config) { cfg.Features = feature.All })
	c.podGroup("g", 3)
	for _, name := range []string{"x", "y", "z"} {
		c.pod(name, "1", inGroup("g"), useClaims("claim"))
	}
	for _, name := range []string{"x", "y", "z"} {
		if on := c.bound(name); on != "n2" {
			t.Errorf("%s is on %s", name, on)
		}
		for _, d := range c.decisions(name) {
			if d.Outcome == "Error" {
				t.Errorf("%s was not bound at once: %s", name, d.Message)
			}
		}
	}
	if now := got(c.claim("claim")); now != "req=n2/a0 for x y z" {
		t.Errorf("the claim has %s", now)
	}
}

// TestGangWithoutDevices: when the devices are not enough for a gang, none of its pods keeps one.
func TestGangWithoutDevices(t *testing.T) {
	v := newVirtualCluster(t, 1, withFeatures(feature.All))
	v.node("n1", "8")
	v.devices(someClass(gpus), someDevices("n1", "a0", "a1"), someClaim("one"), someClaim("two"), someClaim("three"), someClaim("other"))
	v.start(func(cfg *scheduler.Config) { cfg.Features = feature.All })
	v.podGroup("g", 3)
	for _, name := range []string{"one", "two", "three"} {
		v.pod(name, "1", inGroup("g"), useClaims(name))
	}
	v.advance(time.Second)
	v.says("one", "pod group is unschedulable")
	v.pod("other", "1", useClaims("other"))
	v.advance(time.Second)
	if now := got(v.claim("other")); now != "req=n1/a0 for other" {
		t.Errorf("the gang keeps a device: %s", now)
	}
	if v.boundPods("one", "two", "three") > 0 {
		t.Error("a part of the gang is bound")
	}
}
