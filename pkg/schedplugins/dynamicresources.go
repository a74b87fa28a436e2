package schedplugins

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// dynamicResources allocates devices to the ResourceClaims of pods. PreFilter looks at the claims, Filter tries to allocate them on each node,
// Reserve keeps what was found for the chosen node, and PreBind writes it to the claims. Which devices are taken, the scheduler's
// SharedDRAManager knows.
type dynamicResources struct {
	cooperative
	local
	handle         framework.Handle
	devices        framework.SharedDRAManager
	filterTimeout  time.Duration // zero: none
	bindingTimeout time.Duration
	selectors      func() *cel.Cache // of compiled CEL expressions
	kept           *keptAllocations
}

func defaultDynamicResources() configv1.DynamicResourcesArgs {
	return configv1.DynamicResourcesArgs{
		FilterTimeout:  &metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault},
		BindingTimeout: &metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault},
	}
}

func newDynamicResources(args configv1.DynamicResourcesArgs, h framework.Handle) (framework.Plugin, error) {
	d := &dynamicResources{handle: h, devices: h.SharedDRAManager(), bindingTimeout: configv1.DynamicResourcesBindingTimeoutDefault, selectors: sync.OnceValue(newSelectors), kept: &keptAllocations{}}
	if t := args.FilterTimeout; t != nil {
		if d.filterTimeout = t.Duration; t.Duration < 0 {
			return nil, field.Invalid(field.NewPath("filterTimeout"), t, "must be zero or positive")
		}
	}
	if t := args.BindingTimeout; t != nil {
		if d.bindingTimeout = t.Duration; t.Duration < time.Second {
			return nil, field.Invalid(field.NewPath("bindingTimeout"), t, "must be at least 1 second")
		}
	}
	return d, nil
}

// newSelectors returns the cache of the expressions that were used last.
func newSelectors() *cel.Cache {
	const expressions = 10
	return cel.NewCache(expressions, cel.Features{EnableConsumableCapacity: true})
}

// deviceFeatures are what Kubernetes 1.36 allocates by default.
var deviceFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, DeviceBindingAndStatus: true, ConsumableCapacity: true,
}

func (*dynamicResources) Name() string { return "DynamicResources" }

// SkipsBinding implements scheduler.SkipsBinding: pods without claims have nothing to bind.
func (*dynamicResources) SkipsBinding() {}

const dynamicResourcesState framework.StateKey = "DynamicResources"

// podDevices is what one scheduling cycle knows of a pod's claims. Filter may be called for several nodes at the same time.
type podDevices struct {
	claims     []podClaim                  // of the pod's spec; from Reserve on followed by that of its extended resources, if it needs one on the node
	extended   *extendedDevices            // nil: the pod requests no extended resource of a class
	allocating bool                        // a claim is not allocated
	wanted     []*resourcev1.ResourceClaim // the claims of the pod's spec for which Filter allocates devices
	specs      string                      // of these
	sharing    bool                        // another pod of the group has allocated a claim of the pod

	mu          sync.Mutex
	taken       structured.AllocatedState
	takenAt     uint64        // the device revision whose allocations are in taken
	unavailable sets.Set[int] // the allocated claims that are not available on at least one node
	nodes       map[string]nodeDevices
}

// podClaim is a claim of a pod. The claim is that of the cycle's begin, or that which PreBind has written.
type podClaim struct {
	*resourcev1.ResourceClaim
	nodes      *nodeaffinity.NodeSelector   // on which the allocated devices are available; nil: on all
	shared     *resourcev1.AllocationResult // that another pod of the group is about to write; nil: none
	allocation *resourcev1.AllocationResult // that PreBind is to write; nil: none
	pending    types.UID                    // under which the allocation is among the manager's pending ones for this pod; "": it is not
	extended   *extendedClaim               // the claim is that of the pod's extended resources
}

// nodeDevices is what the claims that are not allocated get on one node, in their order, and then that of the extended resources if the pod
// needs devices for them there.
type nodeDevices struct {
	results  []resourcev1.AllocationResult
	extended *extendedClaim // nil: none
}

// noClaims is the state of pods without claims. It never changes.
var noClaims = &podDevices{}

// Clone implements framework.StateData. The data of a pod does not depend on other pods.
func (s *podDevices) Clone() framework.StateData { return s }

func podDevicesOf(state framework.CycleState) (*podDevices, error) {
	data, err := state.Read(dynamicResourcesState)
	if err != nil {
		return nil, err
	}
	return data.(*podDevices), nil
}

// unallocated returns the claims that have no allocation yet.
func (s *podDevices) unallocated() []*podClaim {
	var out []*podClaim
	for i := range s.claims {
		if c := &s.claims[i]; c.Status.Allocation == nil {
			out = append(out, c)
		}
	}
	return out
}

// claimsOf returns the claims of a pod, and an error if one does not exist or the pod can't use it. It leaves out those that the pod does not
// need after all.
func (d *dynamicResources) claimsOf(pod *corev1.Pod) ([]podClaim, error) {
	var out []podClaim
	for i := range pod.Spec.ResourceClaims {
		name, mustOwn, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim, err := d.devices.ResourceClaims().Get(pod.Namespace, *name)
		switch {
		case err != nil:
			return nil, err
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
		case mustOwn:
			if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
				return nil, err
			}
		}
		out = append(out, podClaim{ResourceClaim: claim})
	}
	return out, nil
}

func unresolvable(reason string) *framework.Status {
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)
}

// PreEnqueue keeps pods out of the queue until all of their claims exist.
func (d *dynamicResources) PreEnqueue(_ context.Context, pod *corev1.Pod) *framework.Status {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	if _, err := d.claimsOf(pod); err != nil {
		return unresolvable(err.Error())
	}
	return nil
}

func (d *dynamicResources) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if len(pod.Spec.ResourceClaims) > 0 {
		return nil, framework.NewStatus(framework.Unschedulable, "pods with dra resource claims are not signable")
	}
	if delegated(pod, d.devices.DeviceClassResolver()) {
		return nil, unsignedDevices()
	}
	return signature(framework.DynamicResourcesSignerName, nil)
}
