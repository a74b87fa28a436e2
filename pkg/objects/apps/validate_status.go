package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// replicaCounts are the replica counts in the status of every workload.
type replicaCounts struct {
	replicas, ready, available int32
	part                       int32 // those of the newest template, or with all labels
	partName                   string
}

func (c replicaCounts) validate(at *field.Path) field.ErrorList {
	const more = "cannot be greater than status.replicas"
	var errs field.ErrorList
	if c.part > c.replicas {
		errs = append(errs, field.Invalid(at.Child(c.partName), c.part, more))
	}
	if c.ready > c.replicas {
		errs = append(errs, field.Invalid(at.Child("readyReplicas"), c.ready, more))
	}
	if c.available > c.replicas {
		errs = append(errs, field.Invalid(at.Child("availableReplicas"), c.available, more))
	}
	if c.available > c.ready {
		errs = append(errs, field.Invalid(at.Child("availableReplicas"), c.available, "cannot be greater than readyReplicas"))
	}
	return errs
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	s, at := &d.Status, check.Status
	errs := check.MetaUpdate(d, old)
	errs = append(errs, check.NonNegative(s.ObservedGeneration, at, "observedGeneration")...)
	errs = append(errs, check.NonNegative(s.Replicas, at, "replicas")...)
	errs = append(errs, check.NonNegative(s.UpdatedReplicas, at, "updatedReplicas")...)
	errs = append(errs, check.NonNegative(s.ReadyReplicas, at, "readyReplicas")...)
	errs = append(errs, check.NonNegative(s.AvailableReplicas, at, "availableReplicas")...)
	errs = append(errs, check.NonNegative(s.UnavailableReplicas, at, "unavailableReplicas")...)
	errs = append(errs, check.NonNegative(value(s.TerminatingReplicas), at, "terminatingReplicas")...)
	errs = append(errs, check.NonNegative(value(s.CollisionCount), at, "collisionCount")...)
	counts := replicaCounts{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, "updatedReplicas"}
	errs = append(errs, counts.validate(at)...)
	return append(errs, notDecremented(s.CollisionCount, old.Status.CollisionCount, at.Child("collisionCount"))...)
}

func notDecremented(now, was *int32, at *field.Path) field.ErrorList {
	if was != nil && (now == nil || *now < *was) {
		return field.ErrorList{field.Invalid(at, value(now), "cannot be decremented")}
	}
	return nil
}

func validateReplicaSetStatus(rs, old *appsv1.ReplicaSet) field.ErrorList {
	s, at := &rs.Status, check.Status
	errs := check.MetaUpdate(rs, old)
	errs = append(errs, check.NonNegative(s.Replicas, at, "replicas")...)
	errs = append(errs, check.NonNegative(s.FullyLabeledReplicas, at, "fullyLabeledReplicas")...)
	errs = append(errs, check.NonNegative(s.ReadyReplicas, at, "readyReplicas")...)
	errs = append(errs, check.NonNegative(s.AvailableReplicas, at, "availableReplicas")...)
	errs = append(errs, check.NonNegative(s.ObservedGeneration, at, "observedGeneration")...)
	errs = append(errs, check.NonNegative(value(s.TerminatingReplicas), at, "terminatingReplicas")...)
	counts := replicaCounts{s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.FullyLabeledReplicas, "fullyLabeledReplicas"}
	return append(errs, counts.validate(at)...)
}
