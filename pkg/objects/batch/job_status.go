package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// statusWrite is a write of a Job's status. Most rules apply only to changed fields, so that a controller can
// correct a status that a change of the spec has made invalid.
type statusWrite struct {
	j, old   *batchv1.Job
	at       *field.Path
	errs     field.ErrorList
	finished bool // the Job is finished now

	endChanged, completeChanged, failedChanged, startChanged, completionChanged bool
}

// validateJobStatus checks the counts, and that a finished Job stays finished.
func validateJobStatus(j, old *batchv1.Job) field.ErrorList {
	complete, failed := has(j, batchv1.JobComplete), has(j, batchv1.JobFailed)
	wasComplete, wasFailed := has(old, batchv1.JobComplete), has(old, batchv1.JobFailed)
	w := statusWrite{
		j: j, old: old, at: check.Status, finished: complete || failed, errs: check.MetaUpdate(j, old),
		endChanged:        (complete || failed) != (wasComplete || wasFailed),
		completeChanged:   complete != wasComplete,
		failedChanged:     failed != wasFailed,
		startChanged:      !sameTime(j.Status.StartTime, old.Status.StartTime),
		completionChanged: !sameTime(j.Status.CompletionTime, old.Status.CompletionTime),
	}
	w.counts()
	w.uncounted()
	w.ends()
	w.leftovers()
	w.indexes()
	w.pods()
	w.success()
	w.changes()
	return w.errs
}

func sameTime(a, b *metav1.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func (w *statusWrite) add(errs ...*field.Error) { w.errs = append(w.errs, errs...) }

func (w *statusWrite) invalid(name string, value any, detail string) {
	w.add(field.Invalid(w.at.Child(name), value, detail))
}

func (w *statusWrite) condition(detail string) {
	w.invalid("conditions", field.OmitValueType{}, detail)
}

func (w *statusWrite) counts() {
	s := &w.j.Status
	w.add(check.NonNegative(s.Active, w.at, "active")...)
	w.add(check.NonNegative(s.Succeeded, w.at, "succeeded")...)
	w.add(check.NonNegative(s.Failed, w.at, "failed")...)
	w.add(nonNegative(s.Ready, w.at, "ready")...)
	w.add(nonNegative(s.Terminating, w.at, "terminating")...)
}

// uncounted rejects a UID that is in uncountedTerminatedPods twice.
func (w *statusWrite) uncounted() {
	u := w.j.Status.UncountedTerminatedPods
	if u == nil {
		return
	}
	seen := map[types.UID]bool{}
	for _, list := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", u.Succeeded}, {"failed", u.Failed}} {
		for i, uid := range list.uids {
			at := w.at.Child("uncountedTerminatedPods", list.name).Index(i)
			switch {
			case uid == "":
				w.add(field.Invalid(at, uid, "must not be empty"))
			case seen[uid]:
				w.add(field.Duplicate(at, uid))
			}
			seen[uid] = true
		}
	}
}

// ends checks the conditions and times of a finished Job.
func (w *statusWrite) ends() {
	j, s := w.j, &w.j.Status
	complete, failed := has(j, batchv1.JobComplete), has(j, batchv1.JobFailed)
	changed := func(t batchv1.JobConditionType) bool { return has(j, t) != has(w.old, t) }
	if (w.completeChanged || w.failedChanged) && complete && failed {
		w.condition("cannot set Complete=True and Failed=true conditions")
	}
	if (w.completeChanged || changed(batchv1.JobFailureTarget)) && complete && has(j, batchv1.JobFailureTarget) {
		w.condition("cannot set Complete=True and FailureTarget=true conditions")
	}
	if (w.completeChanged || w.completionChanged) && s.CompletionTime != nil && !complete {
		w.invalid("completionTime", s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
	}
	if (w.completeChanged || w.completionChanged) && s.CompletionTime == nil && complete {
		w.add(field.Required(w.at.Child("completionTime"), "completionTime is required for Complete jobs"))
	}
	if (w.startChanged || w.completionChanged) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		w.invalid("completionTime", s.CompletionTime, "must be equal to or after `startTime`")
	}
	if (w.failedChanged || w.failedIndexesChanged()) && failed && !has(j, batchv1.JobFailureTarget) {
		w.condition("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if (w.completeChanged || changed(batchv1.JobSuccessCriteriaMet)) && complete && !has(j, batchv1.JobSuccessCriteriaMet) {
		w.condition("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
}

// leftovers checks that a finished Job has no active, terminating or uncounted pods.
func (w *statusWrite) leftovers() {
	s, was, spec := &w.j.Status, &w.old.Status, &w.j.Spec
	if !w.finished {
		return
	}
	if (w.endChanged || s.Active != was.Active) && s.Active > 0 {
		w.invalid("active", s.Active, "active>0 is invalid for finished job")
	}
	nothing := spec.Suspend != nil && *spec.Suspend && spec.Completions != nil && *spec.Completions == 0
	if (w.endChanged || w.startChanged) && !nothing && s.StartTime == nil {
		w.add(field.Required(w.at.Child("startTime"), "startTime is required for finished job"))
	}
	u := s.UncountedTerminatedPods
	if (w.endChanged || !equality.Semantic.DeepEqual(u, was.UncountedTerminatedPods)) && u != nil && len(u.Failed)+len(u.Succeeded) > 0 {
		w.invalid("uncountedTerminatedPods", check.Shown(u), "must be empty for finished job")
	}
}

func (w *statusWrite) failedIndexesChanged() bool {
	return !same(w.j.Status.FailedIndexes, w.old.Status.FailedIndexes)
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// indexes checks completedIndexes and failedIndexes.
func (w *statusWrite) indexes() {
	s, spec := &w.j.Status, &w.j.Spec
	completed, failed := s.CompletedIndexes != w.old.Status.CompletedIndexes, w.failedIndexesChanged()
	if completed && spec.Completions != nil {
		if _, err := countIndexes(s.CompletedIndexes, spec.Completions); err != nil {
			w.invalid("completedIndexes", s.CompletedIndexes, fmt.Sprintf("error parsing completedIndexes: %s", err))
		}
	}
	if failed && spec.Completions != nil && spec.BackoffLimitPerIndex != nil && s.FailedIndexes != nil {
		if _, err := countIndexes(*s.FailedIndexes, spec.Completions); err != nil {
			w.invalid("failedIndexes", s.FailedIndexes, fmt.Sprintf("error parsing failedIndexes: %s", err))
		}
	}
	if completed && s.CompletedIndexes != "" && !isIndexed(spec) {
		w.invalid("completedIndexes", s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failed && spec.BackoffLimitPerIndex == nil && s.FailedIndexes != nil {
		w.invalid("failedIndexes", *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if (completed || failed) && spec.Completions != nil && s.FailedIndexes != nil {
		if err := overlap(s.CompletedIndexes, *s.FailedIndexes, spec.Completions); err != nil {
			w.invalid("failedIndexes", *s.FailedIndexes, err.Error())
		}
	}
}

func (w *statusWrite) pods() {
	s, was := &w.j.Status, &w.old.Status
	if (w.endChanged || !same(s.Terminating, was.Terminating)) && w.finished && s.Terminating != nil && *s.Terminating > 0 {
		w.invalid("terminating", s.Terminating, "terminating>0 is invalid for finished job")
	}
	if (!same(s.Ready, was.Ready) || s.Active != was.Active) && s.Ready != nil && *s.Ready > s.Active {
		w.invalid("ready", *s.Ready, "cannot set more ready pods than active")
	}
}

// success checks the condition SuccessCriteriaMet.
func (w *statusWrite) success() {
	met := has(w.j, batchv1.JobSuccessCriteriaMet)
	if met && has(w.j, batchv1.JobFailed) {
		w.condition("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if met && has(w.j, batchv1.JobFailureTarget) {
		w.condition("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if w.j.Spec.SuccessPolicy != nil && !met && has(w.j, batchv1.JobComplete) {
		w.condition("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
}

// changes checks the fields that may not decrease or be unset.
func (w *statusWrite) changes() {
	s, was, spec := &w.j.Status, &w.old.Status, &w.j.Spec
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if has(w.old, t) && !has(w.j, t) {
			w.condition(fmt.Sprintf("cannot disable the terminal %s=True condition", t))
		}
	}
	if s.Failed < was.Failed {
		w.invalid("failed", s.Failed, "cannot decrease the failed counter")
	}
	if (!isIndexed(spec) || !same(spec.Completions, spec.Parallelism)) && s.Succeeded < was.Succeeded {
		w.invalid("succeeded", s.Succeeded, "cannot decrease the succeeded counter")
	}
	if s.CompletionTime != nil && was.CompletionTime != nil && w.completionChanged {
		w.invalid("completionTime", s.CompletionTime, "field is immutable")
	}
	suspended := spec.Suspend != nil && *spec.Suspend
	if w.startChanged && !w.resumed() && was.StartTime != nil && !suspended {
		w.invalid("startTime", s.StartTime, "field is immutable for unsuspended job once set")
	}
	met, wasMet := has(w.j, batchv1.JobSuccessCriteriaMet), has(w.old, batchv1.JobSuccessCriteriaMet)
	if wasMet && !met {
		w.condition("cannot disable the SuccessCriteriaMet=True condition")
	}
	if has(w.old, batchv1.JobComplete) && !wasMet && met {
		w.condition("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}

// resumed reports whether the write ends the suspension of the Job.
func (w *statusWrite) resumed() bool {
	if !has(w.old, batchv1.JobSuspended) {
		return false
	}
	for i := range w.j.Status.Conditions {
		if c := &w.j.Status.Conditions[i]; c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionFalse {
			return true
		}
	}
	return false
}
