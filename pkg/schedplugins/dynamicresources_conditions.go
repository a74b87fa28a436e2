package schedplugins

import (
	"context"
	"errors"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// Devices may have conditions that their driver sets in the claim's status before a pod can be bound, as when a device has to be attached to
// the node first.

var (
	errBindingTimeout = errors.New("device binding timeout")
	errBindingFailed  = errors.New("device binding failed")
)

// conditional reports whether a device of the claims has binding conditions.
func (s *podDevices) conditional() bool {
	for i := range s.claims {
		if a := s.claims[i].Status.Allocation; a != nil && conditional(a) {
			return true
		}
	}
	return false
}

func conditional(a *resourcev1.AllocationResult) bool {
	for i := range a.Devices.Results {
		if len(a.Devices.Results[i].BindingConditions) > 0 {
			return true
		}
	}
	return false
}

// ready reports whether all binding conditions of a claim are true, and returns an error if one says that binding has failed.
func ready(claim *resourcev1.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		status := statusOf(claim, r)
		if status == nil {
			return false, nil
		}
		for _, name := range r.BindingFailureConditions {
			if c := meta.FindStatusCondition(status.Conditions, name); c != nil && c.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", errBindingFailed, claim.Name, c.Reason, c.Message)
			}
		}
		for _, name := range r.BindingConditions {
			if !meta.IsStatusConditionTrue(status.Conditions, name) {
				return false, nil
			}
		}
	}
	return true, nil
}

// statusOf returns the status of an allocated device, nil if its driver has set none.
func statusOf(claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult) *resourcev1.AllocatedDeviceStatus {
	for i := range claim.Status.Devices {
		if d := &claim.Status.Devices[i]; d.Device == r.Device && d.Driver == r.Driver && d.Pool == r.Pool {
			return d
		}
	}
	return nil
}

// late reports whether the devices of a claim have had the time to become ready.
func (d *dynamicResources) late(claim *resourcev1.ResourceClaim) bool {
	a := claim.Status.Allocation
	if a == nil || a.AllocationTimestamp == nil || !conditional(a) {
		return false
	}
	api, err := d.api()
	return err == nil && a.AllocationTimestamp.Add(d.bindingTimeout).Before(api.Clock().Now())
}

// stuck reports whether the devices of an allocated claim can't be bound: one has failed, or they are not ready in time.
func (d *dynamicResources) stuck(claim *resourcev1.ResourceClaim) bool {
	ok, err := ready(claim)
	return err != nil || !ok && d.late(claim)
}

// awaitConditions waits until all binding conditions of the pod's claims are true, or until the plugin's timeout has passed on the cluster's
// clock. It returns an error if they will not be.
func (d *dynamicResources) awaitConditions(ctx context.Context, s *podDevices, namespace string) error {
	api, err := d.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer api.Clock().AfterFunc(d.bindingTimeout, func() { cancel(fmt.Errorf("%w: %w", errBindingTimeout, context.DeadlineExceeded)) }).Stop()
	at := client.Target{Resource: resourceClaims, Namespace: namespace}
	for {
		done, err := watchClaims(ctx, api.Client(), at, func(now map[string]*resourcev1.ResourceClaim) (bool, error) { return d.allReady(s, now) })
		switch {
		case ctx.Err() != nil && !done:
			return context.Cause(ctx)
		case done || err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return err
		}
	}
}

// allReady reports whether all binding conditions of the pod's claims are true now.
func (d *dynamicResources) allReady(s *podDevices, now map[string]*resourcev1.ResourceClaim) (bool, error) {
	for i := range s.claims {
		c := &s.claims[i]
		claim := now[c.Name]
		if claim == nil || claim.UID != c.UID {
			return false, apierrors.NewNotFound(resourceClaims.GroupResource(), c.Name)
		}
		c.ResourceClaim = claim
		ok, err := ready(claim)
		if err == nil && !ok && d.late(claim) {
			err = fmt.Errorf("%w: claim=%s", errBindingTimeout, claim.Name)
		}
		if !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}
