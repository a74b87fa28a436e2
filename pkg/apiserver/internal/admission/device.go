package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// deviceTaints sets the time at which a device taint was added.
type deviceTaints struct{ clk clock.Clock }

func (deviceTaints) Name() string { return "DeviceTaints" }

func (p deviceTaints) Mutate(_ context.Context, a *stage.Admission) error {
	s, ok := a.Object.(*resourcev1.ResourceSlice)
	if !ok {
		return nil
	}
	now := metav1.NewTime(p.clk.Now().Truncate(time.Second))
	for i := range s.Spec.Devices {
		taints := s.Spec.Devices[i].Taints
		for j := range taints {
			if taints[j].TimeAdded == nil {
				taints[j].TimeAdded = &now
			}
		}
	}
	return nil
}

// deviceAccess authorizes writes to ResourceClaims: admin access requires a label on the namespace, a change of the allocation
// requires the right to bind claims, and a change of device statuses the right to write for the devices' driver.
type deviceAccess struct {
	reader      stage.Reader
	authorizers []stage.Authorizer
}

func (deviceAccess) Name() string { return "DeviceAccess" }

func (p deviceAccess) Validate(ctx context.Context, a *stage.Admission) error {
	var errs field.ErrorList
	switch obj := a.Object.(type) {
	case *resourcev1.ResourceClaim:
		switch {
		case a.Operation == stage.Create:
			errs = p.admin(ctx, a.Namespace, adminRequest(obj.Spec.Devices.Requests))
		case a.Operation == stage.Update && a.Subresource == "status":
			if old, ok := a.Old.(*resourcev1.ResourceClaim); ok {
				errs = p.status(ctx, a, &obj.Status, &old.Status)
			}
		}
	case *resourcev1.ResourceClaimTemplate:
		if a.Operation == stage.Create {
			errs = p.admin(ctx, a.Namespace, adminRequest(obj.Spec.Spec.Devices.Requests))
		}
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(a.Resource.Names.GVK().GroupKind(), a.Object.GetName(), errs)
	}
	return nil
}

// adminRequest returns the path of the first request with admin access, or nil.
func adminRequest(requests []resourcev1.DeviceRequest) *field.Path {
	for i := range requests {
		if e := requests[i].Exactly; e != nil && e.AdminAccess != nil && *e.AdminAccess {
			return field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess")
		}
	}
	return nil
}

// adminResult returns the path of the first allocation result with admin access, or nil.
func adminResult(allocation *resourcev1.AllocationResult) *field.Path {
	if allocation == nil {
		return nil
	}
	for i, r := range allocation.Devices.Results {
		if r.AdminAccess != nil && *r.AdminAccess {
			return field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
		}
	}
	return nil
}

// admin returns an error at the path unless the namespace allows admin access.
func (p deviceAccess) admin(ctx context.Context, namespace string, at *field.Path) field.ErrorList {
	if at == nil {
		return nil
	}
	ns, err := p.reader.Get(ctx, namespaces, objects.Key{Name: namespace})
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	}
	const label = resourcev1.DRAAdminNamespaceLabelKey
	if ns.GetLabels()[label] != "true" {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", label))}
	}
	return nil
}

func (p deviceAccess) status(ctx context.Context, a *stage.Admission, now, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	var errs field.ErrorList
	if adminResult(old.Allocation) == nil {
		errs = p.admin(ctx, a.Namespace, adminResult(now.Allocation))
	}
	if !equality.Semantic.DeepEqual(now.Allocation, old.Allocation) || !equality.Semantic.DeepEqual(now.ReservedFor, old.ReservedFor) {
		if err := p.may(ctx, a, resourcev1.SubresourceBinding, "", "", a.Verb); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "allocation"),
				fmt.Sprintf(`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, a.Verb, err)))
		}
	}
	if now.Allocation == nil {
		return errs // removing the allocation removes the device statuses without a further right
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + a.Verb}
	if isOnNode(a.User, nodeOf(now.Allocation)) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + a.Verb, verbs[0]}
	}
	for _, driver := range changedDrivers(now, old) {
		if err := p.may(ctx, a, resourcev1.SubresourceDriver, a.Namespace, driver, verbs...); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "devices"),
				fmt.Sprintf(`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, err)))
		}
	}
	return errs
}

// may returns nil if the user has one of the verbs, and otherwise the error for the first verb.
func (p deviceAccess) may(ctx context.Context, a *stage.Admission, subresource, namespace, name string, verbs ...string) error {
	var first error
	for _, verb := range verbs {
		err := authz.Check(ctx, p.authorizers, &stage.Attributes{
			User: a.User, Verb: verb, GVR: a.GVR, Subresource: subresource, Namespace: namespace, Name: name, Warn: func(string) {},
		})
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// changedDrivers returns the drivers of devices whose status has changed, sorted.
func changedDrivers(now, old *resourcev1.ResourceClaimStatus) []string {
	type key struct{ driver, pool, device, share string }
	keyOf := func(d *resourcev1.AllocatedDeviceStatus) key {
		k := key{driver: d.Driver, pool: d.Pool, device: d.Device}
		if d.ShareID != nil {
			k.share = *d.ShareID
		}
		return k
	}
	was := map[key]*resourcev1.AllocatedDeviceStatus{}
	for i := range old.Devices {
		was[keyOf(&old.Devices[i])] = &old.Devices[i]
	}
	drivers := map[string]bool{}
	for i := range now.Devices {
		d := &now.Devices[i]
		k := keyOf(d)
		if o, ok := was[k]; !ok || !equality.Semantic.DeepEqual(o, d) {
			drivers[d.Driver] = true
		}
		delete(was, k)
	}
	for k := range was {
		drivers[k.driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

// nodeOf returns the only node on which the allocation can be used, or "" if there are several.
func nodeOf(allocation *resourcev1.AllocationResult) string {
	s := allocation.NodeSelector
	if s == nil || len(s.NodeSelectorTerms) != 1 {
		return ""
	}
	t := &s.NodeSelectorTerms[0]
	if len(t.MatchExpressions) != 0 || len(t.MatchFields) != 1 {
		return ""
	}
	f := &t.MatchFields[0]
	if f.Key != metav1.ObjectNameField || f.Operator != "In" || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// isOnNode reports whether the token of the user, a ServiceAccount, is bound to a pod on the node.
func isOnNode(info user.Info, node string) bool {
	if node == "" || info == nil || !strings.HasPrefix(info.GetName(), serviceaccount.ServiceAccountUsernamePrefix) {
		return false
	}
	names := info.GetExtra()[serviceaccount.NodeNameKey]
	return len(names) == 1 && names[0] == node && len(validation.NameIsDNSSubdomain(node, false)) == 0
}
