package whatif

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/resource"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// Devices is the devices of a cluster, and the claims that get them. Of several objects of the same name the last claim counts, which is that of the
// cluster, with its allocation; of others the first, which is that of a file.
type Devices struct {
	DeviceClaims   []*resourcev1.ResourceClaim
	ClaimTemplates []*resourcev1.ResourceClaimTemplate
	DeviceSlices   []*resourcev1.ResourceSlice
	DeviceClasses  []*resourcev1.DeviceClass
}

// append adds the devices of another cluster.
func (d *Devices) append(other *Devices) {
	d.DeviceClaims, d.ClaimTemplates = append(d.DeviceClaims, other.DeviceClaims...), append(d.ClaimTemplates, other.ClaimTemplates...)
	d.DeviceSlices, d.DeviceClasses = append(d.DeviceSlices, other.DeviceSlices...), append(d.DeviceClasses, other.DeviceClasses...)
}

// addTo adds the devices to the objects that plugins find.
func (d *Devices) addTo(out map[framework.EventResource][]objects.Object) {
	for _, claim := range d.DeviceClaims {
		out[framework.ResourceClaim] = append(out[framework.ResourceClaim], claim)
	}
	for _, t := range slices.Backward(d.ClaimTemplates) {
		out[scheduler.ResourceClaimTemplates] = append(out[scheduler.ResourceClaimTemplates], t)
	}
	for _, s := range slices.Backward(d.DeviceSlices) {
		out[framework.ResourceSlice] = append(out[framework.ResourceSlice], s)
	}
	for _, c := range slices.Backward(d.DeviceClasses) {
		out[framework.DeviceClass] = append(out[framework.DeviceClass], c)
	}
}

// addOfDevices adds an object of the group resource.k8s.io.
func (d *Devices) addOfDevices(u *unstructured.Unstructured, namespace string) (known bool, err error) {
	switch u.GetKind() {
	case "ResourceClaim":
		claim, err := ofDevices(u, objects.Row(resource.ResourceClaims), namespace, &d.DeviceClaims)
		if err == nil && claim.UID == "" {
			claim.UID = types.UID(claim.Namespace + "/" + claim.Name)
		}
		return true, err
	case "ResourceClaimTemplate":
		_, err = ofDevices(u, objects.Row(resource.ResourceClaimTemplates), namespace, &d.ClaimTemplates)
	case "ResourceSlice":
		_, err = ofDevices(u, objects.Row(resource.ResourceSlices), "", &d.DeviceSlices)
	case "DeviceClass":
		_, err = ofDevices(u, objects.Row(resource.DeviceClasses), "", &d.DeviceClasses)
	default:
		return false, nil
	}
	return true, err
}

// ofDevices converts an object, sets its defaults and validates it as the API server does, and appends it to a list.
func ofDevices[T any, P interface {
	*T
	objects.Object
}](u *unstructured.Unstructured, row objects.Resource, namespace string, list *[]*T) (*T, error) {
	if u.GroupVersionKind().Version != resourcev1.SchemeGroupVersion.Version {
		return nil, unknownVersion(u)
	}
	obj, err := converted[T](u)
	if err != nil {
		return nil, err
	}
	P(obj).SetNamespace(namespace)
	row.Default(P(obj))
	if errs := row.Validate(P(obj), nil); len(errs) > 0 {
		return nil, apierrors.NewInvalid(u.GroupVersionKind().GroupKind(), u.GetName(), errs)
	}
	*list = append(*list, obj)
	return obj, nil
}

// free takes the pods off their nodes, as far as claims are concerned: a claim that nothing else uses is deallocated, and those that were made for one of
// the pods are gone.
func (d *Devices) free(gone map[types.UID]bool) {
	var left []*resourcev1.ResourceClaim
	for _, claim := range d.DeviceClaims {
		if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && gone[owner.UID] {
			continue
		}
		remaining := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourcev1.ResourceClaimConsumerReference) bool { return gone[r.UID] })
		if len(remaining) < len(claim.Status.ReservedFor) {
			claim = claim.DeepCopy()
			resource.SetReserved(claim, remaining)
		}
		left = append(left, claim)
	}
	d.DeviceClaims = left
}
