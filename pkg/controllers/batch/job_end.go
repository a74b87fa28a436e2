package batch

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// decideEnd sets s.end if the Job succeeds or fails for another reason than the number of its completions. The decision of an earlier sync,
// which the conditions FailureTarget and SuccessCriteriaMet record, stays.
func (s *jobSync) decideEnd() {
	s.end = s.earlierEnd()
	if s.end == nil {
		s.end = s.policyFailure()
	}
	if s.end == nil {
		s.end = s.limitFailure()
	}
	if !isIndexed(s.job) {
		return
	}
	s.countIndexes()
	if s.end == nil {
		s.end = s.indexFailure()
	}
	if s.end == nil {
		if message := matchSuccessPolicy(s.job.Spec.SuccessPolicy, int(*s.job.Spec.Completions), s.succeededIndexes); message != "" {
			s.end = s.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, message)
		}
	}
}

// earlierEnd returns the end that an earlier sync decided on, nil if there is none.
func (s *jobSync) earlierEnd() *batchv1.JobCondition {
	if c := jobCondition(s.job, batchv1.JobSuccessCriteriaMet); c != nil && c.Status == corev1.ConditionTrue {
		met := *c
		return &met
	}
	if c := jobCondition(s.job, batchv1.JobFailureTarget); c != nil && c.Status == corev1.ConditionTrue {
		return s.condition(batchv1.JobFailed, c.Reason, c.Message)
	}
	return nil
}

// policyFailure returns the end if a failed pod matches a rule with the action FailJob.
func (s *jobSync) policyFailure() *batchv1.JobCondition {
	if s.job.Spec.PodFailurePolicy == nil {
		return nil
	}
	for _, p := range s.pods {
		if !s.hasFailed(p) {
			continue
		}
		if action, message := matchFailurePolicy(s.job.Spec.PodFailurePolicy, p); action == batchv1.PodFailurePolicyActionFailJob {
			return s.condition(batchv1.JobFailureTarget, batchv1.JobReasonPodFailurePolicy, message)
		}
	}
	return nil
}

// limitFailure returns the end if the Job is beyond its backoff limit or its deadline.
func (s *jobSync) limitFailure() *batchv1.JobCondition {
	spec := &s.job.Spec
	if s.failed > *spec.BackoffLimit || s.restartsExceeded() {
		return s.condition(batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	if spec.ActiveDeadlineSeconds == nil || isSuspended(s.job) {
		return nil
	}
	left := time.Duration(*spec.ActiveDeadlineSeconds)*time.Second - s.now.Sub(s.job.Status.StartTime.Time)
	if left <= 0 {
		return s.condition(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	s.requeueIn(left)
	return nil
}

// restartsExceeded reports whether the containers of running pods have been restarted as often as the backoff limit allows. Pods
// are restarted in place only with the restart policy OnFailure.
func (s *jobSync) restartsExceeded() bool {
	if s.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var restarts int32
	for _, p := range s.pods {
		if p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodPending {
			continue
		}
		for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for _, c := range list {
				restarts += c.RestartCount
			}
		}
	}
	return restarts >= max(*s.job.Spec.BackoffLimit, 1)
}

// indexFailure returns the end if too many indexes have failed, or if some have and no index is left to run.
func (s *jobSync) indexFailure() *batchv1.JobCondition {
	spec := &s.job.Spec
	failed := s.failedIndexes.count()
	switch {
	case spec.BackoffLimitPerIndex == nil:
		return nil
	case spec.MaxFailedIndexes != nil && failed > int(*spec.MaxFailedIndexes):
		return s.condition(batchv1.JobFailureTarget, batchv1.JobReasonMaxFailedIndexesExceeded,
			"Job has exceeded the specified maximal number of failed indexes")
	case failed > 0 && failed+s.succeededIndexes.count() >= int(*spec.Completions):
		return s.condition(batchv1.JobFailureTarget, batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}

// complete returns the end if enough pods have succeeded and none is active.
func (s *jobSync) complete() *batchv1.JobCondition {
	wanted := int32(1) // without completions one success is enough, after which the remaining pods end by themselves
	if s.job.Spec.Completions != nil {
		wanted = *s.job.Spec.Completions
	}
	if s.succeeded < wanted || s.active > 0 {
		return nil
	}
	return s.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
}
