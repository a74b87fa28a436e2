// Package coordination holds the rows of the group coordination.k8s.io.
package coordination

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// Leases is the row of Lease.
var Leases = objects.Def[*coordinationv1.Lease]{
	Names:    objects.Names{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease", Plural: "leases"},
	Versions: oldLeases,
	New:      func() *coordinationv1.Lease { return &coordinationv1.Lease{} },
	NewList:  func() runtime.Object { return &coordinationv1.LeaseList{} },
	Prepare: func(l, _ *coordinationv1.Lease) { // the feature gate of coordinated leader election is off
		l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil
	},
	Validate:     validateLease,
	NeedsVersion: true,
	Columns: []objects.Column[*coordinationv1.Lease]{
		objects.NameColumn[*coordinationv1.Lease](),
		{Name: "Holder", Description: coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"],
			Cell: func(l *coordinationv1.Lease, _ time.Time) any {
				if l.Spec.HolderIdentity == nil {
					return ""
				}
				return *l.Spec.HolderIdentity
			}},
		objects.AgeColumn[*coordinationv1.Lease](),
	},
	CreateOnUpdate: true,
	Undecoded:      true,
}

func validateLease(l, old *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		errs = check.OpenMeta(l, true, validation.NameIsDNSSubdomain)
	} else {
		errs = check.OpenMetaUpdate(l, old)
	}
	return append(errs, validateLeaseSpec(&l.Spec, field.NewPath("spec"))...)
}

func validateLeaseSpec(s *coordinationv1.LeaseSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.LeaseDurationSeconds != nil && *s.LeaseDurationSeconds <= 0 {
		errs = append(errs, field.Invalid(at.Child("leaseDurationSeconds"), *s.LeaseDurationSeconds, "must be greater than 0"))
	}
	if s.LeaseTransitions != nil && *s.LeaseTransitions < 0 {
		errs = append(errs, field.Invalid(at.Child("leaseTransitions"), *s.LeaseTransitions, "must be greater than or equal to 0"))
	}
	return errs
}
