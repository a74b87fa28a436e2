package batch

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// jobSync is one sync of a Job: the state that it has found and the decisions that it has taken.
type jobSync struct {
	job  *batchv1.Job  // a copy, whose status is changed and then written
	pods []*corev1.Pod // all that the Job controls
	now  time.Time

	activePods []*corev1.Pod
	uncounted  uncounted

	// The numbers of pods. succeeded and failed include those that the status does not count yet.
	active, ready, terminating, succeeded, failed int32

	countedIndexes   indexes // of the status
	succeededIndexes indexes // with those that the status does not have yet
	failedIndexes    indexes // likewise; nil without backoffLimitPerIndex
	lastFailed       map[int]*corev1.Pod

	backoff backoff
	again   time.Duration         // when to sync again; 0: after the next change
	end     *batchv1.JobCondition // the condition with which the Job ends now, nil if it does not end
	changed bool                  // the status must be written
}

// uncounted holds the UIDs of status.uncountedTerminatedPods at the begin of a sync.
type uncounted struct{ succeeded, failed sets.Set[types.UID] }

// newJobSync returns the sync of a Job that has pods. The Job is changed by the sync.
func newJobSync(j *batchv1.Job, pods []*corev1.Pod, before backoff, now time.Time) *jobSync {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }) // not in the order of a map
	if j.Status.UncountedTerminatedPods == nil {
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	u := j.Status.UncountedTerminatedPods
	s := &jobSync{job: j, pods: pods, now: now, uncounted: uncounted{sets.New(u.Succeeded...), sets.New(u.Failed...)}}
	for _, p := range pods {
		switch {
		case controller.IsPodActive(p):
			s.activePods = append(s.activePods, p)
			s.active++
			if controller.IsPodReady(p) {
				s.ready++
			}
		case controller.IsPodTerminating(p):
			s.terminating++
		}
	}
	s.countEnded(before)
	if j.Status.StartTime == nil && !isSuspended(j) {
		at := controller.WholeSeconds(now)
		j.Status.StartTime = &at
	}
	return s
}

// countEnded adds the pods that ended since the last sync to the counts and to the backoff.
func (s *jobSync) countEnded(before backoff) {
	var succeeded, failed []*corev1.Pod
	s.succeeded = s.job.Status.Succeeded + int32(len(s.uncounted.succeeded))
	s.failed = s.job.Status.Failed + int32(len(s.uncounted.failed))
	for _, p := range s.pods {
		if !s.countable(p) {
			continue
		}
		if p.Status.Phase == corev1.PodSucceeded && !s.uncounted.succeeded.Has(p.UID) {
			succeeded = append(succeeded, p)
			s.succeeded++
		}
		if s.hasFailed(p) && !s.uncounted.failed.Has(p.UID) {
			failed = append(failed, p)
			if countsFailure(s.job.Spec.PodFailurePolicy, p) {
				s.failed++
			}
		}
	}
	s.backoff = before.next(succeeded, failed)
}

func isTracked(p *corev1.Pod) bool {
	return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
}

// countable reports whether a pod is not counted yet and can be: in an Indexed Job it must have a valid index.
func (s *jobSync) countable(p *corev1.Pod) bool {
	if !isTracked(p) {
		return false
	}
	_, ok := s.index(p)
	return ok || !isIndexed(s.job)
}

// index returns the completion index of a pod, false if it has none or one beyond the Job's completions.
func (s *jobSync) index(p *corev1.Pod) (int, bool) {
	i := completionIndex(p)
	return i, i != noIndex && s.job.Spec.Completions != nil && i < int(*s.job.Spec.Completions)
}

// hasFailed reports whether a pod is failed for its Job. A pod that is deleted before it ends is, unless the Job waits until
// its phase is Failed.
func (s *jobSync) hasFailed(p *corev1.Pod) bool {
	switch {
	case p.Status.Phase == corev1.PodFailed:
		return true
	case replacesOnlyFailed(s.job):
		return false
	}
	return p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded
}

// requeueIn makes the next sync begin after d at the latest.
func (s *jobSync) requeueIn(d time.Duration) {
	if s.again == 0 || d < s.again {
		s.again = max(d, time.Millisecond)
	}
}

func (s *jobSync) condition(kind batchv1.JobConditionType, reason, message string) *batchv1.JobCondition {
	return newJobCondition(kind, corev1.ConditionTrue, reason, message, s.now)
}

func newJobCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) *batchv1.JobCondition {
	at := controller.WholeSeconds(now)
	return &batchv1.JobCondition{Type: kind, Status: status, LastProbeTime: at, LastTransitionTime: at, Reason: reason, Message: message}
}

func jobCondition(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if j.Status.Conditions[i].Type == kind {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// setCondition adds or replaces a condition, and reports whether that changed it. It does not add one that is false.
func (s *jobSync) setCondition(c *batchv1.JobCondition) bool {
	old := jobCondition(s.job, c.Type)
	switch {
	case old == nil && c.Status == corev1.ConditionFalse:
		return false
	case old == nil:
		s.job.Status.Conditions = append(s.job.Status.Conditions, *c)
		return true
	case old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message:
		return false
	}
	*old = *c
	return true
}
