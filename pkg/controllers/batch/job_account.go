package batch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// maxUncounted bounds the UIDs in status.uncountedTerminatedPods, and so the finalizers that one sync removes.
const maxUncounted = 500

// account counts the pods that have ended: it writes them to the status, removes their finalizers, and writes the status again with
// the counts and, once no pod is left, the end of the Job.
func (r *job) account(ctx context.Context, s *jobSync) error {
	s.setCounts()
	tracked := sets.New[types.UID]()
	for _, p := range s.pods {
		if isTracked(p) {
			tracked.Insert(p.UID)
		}
	}
	s.countUntracked(tracked)
	release, all := s.addUncounted()
	if !all {
		s.requeueIn(time.Millisecond)
	}
	s.announceEnd()
	if s.changed {
		if err := r.writeStatus(ctx, s); err != nil {
			return err
		}
		r.backoffs.set(controller.KeyOf(s.job), s.job.UID, s.backoff)
	}
	releaseErr := r.untrackAll(ctx, release, tracked)
	s.countUntracked(tracked)
	finished := releaseErr == nil && all && s.finish()
	if s.changed {
		if err := r.writeStatus(ctx, s); err != nil {
			return err
		}
	}
	if finished {
		r.recordEnd(ctx, s)
	}
	return releaseErr
}

// setCounts sets the status's numbers of active, ready and terminating pods.
func (s *jobSync) setCounts() {
	status := &s.job.Status
	same := status.Active == s.active && status.Ready != nil && *status.Ready == s.ready &&
		status.Terminating != nil && *status.Terminating == s.terminating
	if !same {
		s.changed = true
	}
	ready, terminating := s.ready, s.terminating
	status.Active, status.Ready, status.Terminating = s.active, &ready, &terminating
}

// countUntracked moves the pods that have no finalizer any more from the uncounted ones to the counts.
func (s *jobSync) countUntracked(tracked sets.Set[types.UID]) {
	status := &s.job.Status
	move := func(list []types.UID, count *int32) []types.UID {
		rest := slices.DeleteFunc(slices.Clone(list), func(uid types.UID) bool { return !tracked.Has(uid) })
		if len(rest) == len(list) {
			return list
		}
		*count += int32(len(list) - len(rest))
		s.changed = true
		if len(rest) == 0 {
			return nil
		}
		return rest
	}
	u := status.UncountedTerminatedPods
	u.Succeeded = move(u.Succeeded, &status.Succeeded)
	u.Failed = move(u.Failed, &status.Failed)
}

// addUncounted adds the pods that have ended to the uncounted ones, and returns the pods whose finalizers are to be removed. all is
// false if some are left to the next sync.
func (s *jobSync) addUncounted() (release []*corev1.Pod, all bool) {
	pods := slices.Clone(s.pods)
	if isIndexed(s.job) {
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(completionIndex(a), completionIndex(b)) })
	}
	u := s.job.Status.UncountedTerminatedPods
	newIndexes := 0
	all = true
	for _, p := range pods {
		if !isTracked(p) || !s.releasable(p) {
			continue
		}
		release = append(release, p)
		switch {
		case p.Status.Phase == corev1.PodSucceeded && !s.uncounted.failed.Has(p.UID):
			if i, ok := s.index(p); isIndexed(s.job) {
				if ok && !s.countedIndexes.has(i) {
					newIndexes++
				}
			} else if !s.uncounted.succeeded.Has(p.UID) {
				u.Succeeded = append(u.Succeeded, p.UID)
				s.changed = true
			}
		case s.isFailure(p):
			u.Failed = append(u.Failed, p.UID)
			s.changed = true
		}
		if newIndexes+len(u.Succeeded)+len(u.Failed) >= maxUncounted {
			all = false
			break
		}
	}
	s.setIndexes()
	return release, all
}

// releasable reports whether the finalizer of a pod can be removed: the pod or the Job has ended, and no new pod needs the pod's
// count of failures.
func (s *jobSync) releasable(p *corev1.Pod) bool {
	switch {
	case s.job.DeletionTimestamp != nil, s.end != nil, p.Status.Phase == corev1.PodSucceeded:
		return true
	case !s.hasFailed(p):
		return false
	}
	last := s.lastFailed[completionIndex(p)]
	return last == nil || last.UID != p.UID
}

// isFailure reports whether a pod whose finalizer is removed counts as failed. In a Job that fails all pods are that have
// not succeeded.
func (s *jobSync) isFailure(p *corev1.Pod) bool {
	failing := s.end != nil && s.end.Type != batchv1.JobSuccessCriteriaMet
	return (failing || s.hasFailed(p)) && !s.uncounted.failed.Has(p.UID) && s.countable(p) && countsFailure(s.job.Spec.PodFailurePolicy, p)
}

// setIndexes sets the indexes of an Indexed Job in the status. Their set is enough to count no pod twice, so they need no UIDs.
func (s *jobSync) setIndexes() {
	if !isIndexed(s.job) {
		return
	}
	status := &s.job.Status
	text, count := s.succeededIndexes.String(), int32(s.succeededIndexes.count())
	if text != status.CompletedIndexes || count != status.Succeeded {
		s.changed = true
	}
	status.CompletedIndexes, status.Succeeded = text, count
	if s.job.Spec.BackoffLimitPerIndex == nil {
		if status.FailedIndexes != nil {
			status.FailedIndexes, s.changed = nil, true
		}
		return
	}
	if failed := s.failedIndexes.String(); status.FailedIndexes == nil || *status.FailedIndexes != failed {
		status.FailedIndexes, s.changed = &failed, true
	}
}

// announceEnd adds the interim condition of the end, FailureTarget or SuccessCriteriaMet. s.end becomes the final condition, Failed or
// Complete.
func (s *jobSync) announceEnd() {
	if s.end == nil {
		return
	}
	final := batchv1.JobFailed
	switch s.end.Type {
	case batchv1.JobSuccessCriteriaMet:
		final = batchv1.JobComplete
	case batchv1.JobFailed:
		return // announced by an earlier sync
	}
	if old := jobCondition(s.job, s.end.Type); old == nil || old.Status != corev1.ConditionTrue {
		s.changed = s.setCondition(s.end) || s.changed
	}
	s.end = s.condition(final, s.end.Reason, s.end.Message)
}

// finish adds the final condition, unless pods are still to be counted or to terminate. It reports whether the Job is finished.
func (s *jobSync) finish() bool {
	u := s.job.Status.UncountedTerminatedPods
	if s.end == nil || len(u.Succeeded)+len(u.Failed) > 0 || s.terminating > 0 {
		return false
	}
	s.setCondition(s.end)
	if s.end.Type == batchv1.JobComplete {
		at := s.end.LastTransitionTime
		s.job.Status.CompletionTime = &at
	}
	s.changed = true
	return true
}

// untrackAll removes the finalizers of pods, and those pods from tracked. It returns the first error.
func (r *job) untrackAll(ctx context.Context, pods []*corev1.Pod, tracked sets.Set[types.UID]) error {
	var first error
	for i, err := range controller.InParallel(ctx, len(pods), func(i int) error { return r.untrack(ctx, pods[i]) }) {
		if err == nil {
			tracked.Delete(pods[i].UID)
		} else if first == nil {
			first = err
		}
	}
	return first
}

func (r *job) writeStatus(ctx context.Context, s *jobSync) error {
	t := client.In(jobsResource, controller.KeyOf(s.job)).Sub("status")
	out, err := r.client.Update(ctx, t, s.job.DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	written := out.(*batchv1.Job)
	r.jobs.Put(written)
	s.job = written.DeepCopy()
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.changed = false
	return nil
}

func (r *job) recordEnd(ctx context.Context, s *jobSync) {
	if s.end.Type != batchv1.JobComplete {
		r.events.Event(ctx, s.job, corev1.EventTypeWarning, s.end.Reason, s.end.Message)
		return
	}
	if want := s.job.Spec.Completions; want != nil && s.job.Status.Succeeded > *want {
		r.events.Event(ctx, s.job, corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	r.events.Event(ctx, s.job, corev1.EventTypeNormal, "Completed", "Job completed")
}
