package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// validateJobStatus checks the counts, and that a Job that has ended stays so.
func validateJobStatus(j, old *batchv1.Job) field.ErrorList {
	s, at := &j.Status, check.Status
	errs := check.MetaUpdate(j, old)
	errs = append(errs, check.NonNegative(s.Active, at, "active")...)
	errs = append(errs, check.NonNegative(s.Succeeded, at, "succeeded")...)
	errs = append(errs, check.NonNegative(s.Failed, at, "failed")...)
	errs = append(errs, nonNegative(s.Ready, at, "ready")...)
	errs = append(errs, nonNegative(s.Terminating, at, "terminating")...)
	if s.Ready != nil && *s.Ready > s.Active {
		errs = append(errs, field.Invalid(at.Child("ready"), *s.Ready, "cannot set more ready pods than active"))
	}
	if has(j, batchv1.JobComplete) && has(j, batchv1.JobFailed) {
		errs = append(errs, field.Invalid(at.Child("conditions"), field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions"))
	}
	errs = append(errs, validateTimes(j, old)...)
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet, batchv1.JobFailed, batchv1.JobComplete} {
		if has(old, t) && !has(j, t) {
			errs = append(errs, field.Invalid(at.Child("conditions"), field.OmitValueType{}, fmt.Sprintf("cannot disable %s=True condition", t)))
		}
	}
	return errs
}

func validateTimes(j, old *batchv1.Job) field.ErrorList {
	s, at := &j.Status, check.Status
	var errs field.ErrorList
	if s.CompletionTime != nil && !has(j, batchv1.JobComplete) {
		errs = append(errs, field.Invalid(at.Child("completionTime"), s.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
	}
	if s.CompletionTime == nil && has(j, batchv1.JobComplete) {
		errs = append(errs, field.Required(at.Child("completionTime"), "completionTime is required for Complete jobs"))
	}
	if s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(at.Child("completionTime"), s.CompletionTime, "completionTime cannot be set before startTime"))
	}
	if was := old.Status.CompletionTime; was != nil && s.CompletionTime != nil && !was.Equal(s.CompletionTime) {
		errs = append(errs, field.Invalid(at.Child("completionTime"), s.CompletionTime, "completionTime cannot be mutated"))
	}
	return errs
}
