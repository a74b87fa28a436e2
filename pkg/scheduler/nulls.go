package scheduler

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"
)

// The types below are the empty parts of a Handle: CSI nodes, and the devices of a simulation.

type noDevices struct{}

func (noDevices) ResourceClaims() framework.ResourceClaimTracker             { return noClaims{} }
func (noDevices) ResourceSlices() framework.ResourceSliceLister              { return noDevices{} }
func (noDevices) DeviceClasses() framework.DeviceClassLister                 { return noClasses{} }
func (noDevices) DeviceClassResolver() framework.DeviceClassResolver         { return noDevices{} }
func (noDevices) PodGroups() framework.PodGroupLister                        { return noGroups{} }
func (noDevices) GetDeviceClass(corev1.ResourceName) *resourcev1.DeviceClass { return nil }
func (noDevices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return nil, nil
}

type noGroups struct{}

func (noGroups) Get(_, name string) (*schedulingv1alpha2.PodGroup, error) {
	return nil, apierrors.NewNotFound(schedulingv1alpha2.Resource("podgroups"), name)
}

type noClasses struct{}

func (noClasses) List() ([]*resourcev1.DeviceClass, error) { return nil, nil }
func (noClasses) Get(name string) (*resourcev1.DeviceClass, error) {
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}

var errNoClaims = errors.New("a simulation does not allocate resource claims")

type noClaims struct{}

func (noClaims) List() ([]*resourcev1.ResourceClaim, error) { return nil, nil }
func (noClaims) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	return nil, unknownClaim(namespace, name)
}
func (noClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return sets.New[structured.DeviceID](), nil
}
func (noClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return &structured.AllocatedState{}, nil
}
func (noClaims) SignalClaimPendingAllocation(types.UID, *resourcev1.ResourceClaim) error {
	return errNoClaims
}
func (noClaims) GetPendingAllocation(types.UID) *resourcev1.AllocationResult { return nil }
func (noClaims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool      { return false }
func (noClaims) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error     { return errNoClaims }
func (noClaims) AssumedClaimRestore(_, _ string)                             {}

type noCSI struct{}

func (noCSI) CSINodes() framework.CSINodeLister   { return noCSI{} }
func (noCSI) List() ([]*storagev1.CSINode, error) { return nil, nil }
func (noCSI) Get(name string) (*storagev1.CSINode, error) {
	return nil, apierrors.NewNotFound(storagev1.Resource("csinodes"), name)
}
