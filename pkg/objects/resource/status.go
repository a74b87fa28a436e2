package resource

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	resourcev1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// allocated returns the devices of an allocation.
func allocated(a *resourcev1.AllocationResult) map[schedulerapi.SharedDeviceID]bool {
	if a == nil {
		return nil
	}
	out := map[schedulerapi.SharedDeviceID]bool{}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		out[schedulerapi.MakeSharedDeviceID(schedulerapi.MakeDeviceID(r.Driver, r.Pool, r.Device), r.ShareID)] = true
	}
	return out
}

func idOf(d *resourcev1.AllocatedDeviceStatus) schedulerapi.SharedDeviceID {
	return schedulerapi.MakeSharedDeviceID(schedulerapi.MakeDeviceID(d.Driver, d.Pool, d.Device), (*types.UID)(d.ShareID))
}

func validateClaimStatus(c, old *resourcev1.ResourceClaim) field.ErrorList {
	at := check.Status
	s, was := &c.Status, &old.Status
	known := namesOf(&c.Spec.Devices)
	errs := check.MetaUpdate(c, old)
	errs = append(errs, set(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, at.Child("reservedFor"),
		func(r *resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID }, consumer)...)
	has := allocated(s.Allocation)
	errs = append(errs, set(s.Devices, unlimited, at.Child("devices"), idOf,
		func(d *resourcev1.AllocatedDeviceStatus, at *field.Path) field.ErrorList {
			return deviceStatus(d, has, at)
		})...)
	if len(s.ReservedFor) > 0 && s.Allocation == nil {
		errs = append(errs, field.Forbidden(at.Child("reservedFor"), "may not be specified when `allocated` is not set"))
	} else if c.DeletionTimestamp != nil && slices.ContainsFunc(s.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return !slices.Contains(was.ReservedFor, r) }) {
		errs = append(errs, field.Forbidden(at.Child("reservedFor"), "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	switch {
	case s.Allocation == nil:
	case was.Allocation != nil:
		errs = append(errs, check.ImmutableShown(s.Allocation, was.Allocation, at.Child("allocation"))...)
	default:
		errs = append(errs, known.allocation(s.Allocation, at.Child("allocation"))...)
	}
	return errs
}

func consumer(r *resourcev1.ResourceClaimConsumerReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, value string }{{"resource", r.Resource}, {"name", r.Name}, {"uid", string(r.UID)}} {
		if f.value == "" {
			errs = append(errs, field.Required(at.Child(f.name), ""))
		}
	}
	return errs
}

func (n names) allocation(a *resourcev1.AllocationResult, at *field.Path) field.ErrorList {
	devices := at.Child("devices")
	errs := items(a.Devices.Results, resourcev1.AllocationResultsMaxSize, devices.Child("results"), n.result)
	// The claim and the class may each add the maximum number.
	errs = append(errs, items(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, devices.Child("config"), n.resultConfig)...)
	if a.NodeSelector != nil {
		errs = append(errs, podspec.NodeSelector(a.NodeSelector, at.Child("nodeSelector"))...)
	}
	return errs
}

func (n names) result(r *resourcev1.DeviceRequestAllocationResult, at *field.Path) field.ErrorList {
	errs := n.ref(&r.Request, at.Child("request"))
	errs = append(errs, volume.ValidateDriver(r.Driver, at.Child("driver"))...)
	errs = append(errs, poolName(r.Pool, at.Child("pool"))...)
	errs = append(errs, check.Label(r.Device, at, "device")...)
	errs = append(errs, bindingConditions(r.BindingConditions, r.BindingFailureConditions, at)...)
	if r.ShareID != nil {
		errs = append(errs, shareID(string(*r.ShareID), at.Child("shareID"))...)
	}
	return errs
}

var sources = []resourcev1.AllocationConfigSource{resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass}

func (n names) resultConfig(c *resourcev1.DeviceAllocationConfiguration, at *field.Path) field.ErrorList {
	errs := check.Named(c.Source, sources, at, "source")
	errs = append(errs, n.refs(c.Requests, at.Child("requests"))...)
	return append(errs, configuration(&c.DeviceConfiguration, false, at)...)
}

func shareID(id string, at *field.Path) field.ErrorList {
	if err := uuid.Validate(id); err != nil {
		return field.ErrorList{field.Invalid(at, id, fmt.Sprintf("error validating uid: %v", err))}
	}
	if len(id) != 36 || id != strings.ToLower(id) {
		return field.ErrorList{field.Invalid(at, id, "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")}
	}
	return nil
}

func deviceStatus(d *resourcev1.AllocatedDeviceStatus, has map[schedulerapi.SharedDeviceID]bool, at *field.Path) field.ErrorList {
	errs := volume.ValidateDriver(d.Driver, at.Child("driver"))
	errs = append(errs, poolName(d.Pool, at.Child("pool"))...)
	errs = append(errs, check.Label(d.Device, at, "device")...)
	if d.ShareID != nil {
		errs = append(errs, shareID(*d.ShareID, at.Child("shareID"))...)
	}
	if id := idOf(d); !has[id] {
		errs = append(errs, field.Invalid(at, id, "must be an allocated device in the claim"))
	}
	conditions := at.Child("conditions")
	if len(d.Conditions) > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(conditions, len(d.Conditions), resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metav1validation.ValidateConditions(d.Conditions, conditions)...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, rawObject(d.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, at.Child("data"))...)
	}
	return append(errs, networkData(d.NetworkData, at.Child("networkData"))...)
}

func networkData(n *resourcev1.NetworkDeviceData, at *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	var errs field.ErrorList
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(at.Child("interfaceName"), "", resourcev1.NetworkDeviceDataInterfaceNameMaxLength))
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(at.Child("hardwareAddress"), "", resourcev1.NetworkDeviceDataHardwareAddressMaxLength))
	}
	return append(errs, set(n.IPs, resourcev1.NetworkDeviceDataMaxIPs, at.Child("ips"), itself,
		func(ip *string, at *field.Path) field.ErrorList {
			return utilvalidation.IsValidInterfaceAddress(at, *ip)
		})...)
}
