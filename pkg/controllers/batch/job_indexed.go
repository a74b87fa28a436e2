package batch

import (
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// countIndexes sets the indexes that have succeeded and failed, and the pods that the failure counts of indexes are read from.
func (s *jobSync) countIndexes() {
	completions := int(*s.job.Spec.Completions)
	s.countedIndexes = parseIndexes(s.job.Status.CompletedIndexes, completions)
	s.succeededIndexes = s.countedIndexes.union(s.indexesWhere(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded }))
	s.succeeded = int32(s.succeededIndexes.count())
	if s.job.Spec.BackoffLimitPerIndex == nil {
		return
	}
	if s.job.Status.FailedIndexes != nil {
		s.failedIndexes = parseIndexes(*s.job.Status.FailedIndexes, completions)
	}
	s.failedIndexes = s.failedIndexes.union(s.indexesWhere(s.failsIndex))
	s.findLastFailed()
}

// indexesWhere returns the indexes of the uncounted pods that match.
func (s *jobSync) indexesWhere(matches func(*corev1.Pod) bool) indexes {
	var list []int
	for _, p := range s.pods {
		if i, ok := s.index(p); ok && isTracked(p) && matches(p) {
			list = append(list, i)
		}
	}
	return indexesOf(list...)
}

// failsIndex reports whether the index of a pod has failed with it.
func (s *jobSync) failsIndex(p *corev1.Pod) bool {
	if !s.hasFailed(p) {
		return false
	}
	action, _ := matchFailurePolicy(s.job.Spec.PodFailurePolicy, p)
	switch action {
	case batchv1.PodFailurePolicyActionFailIndex:
		return true
	case batchv1.PodFailurePolicyActionIgnore:
		return false
	}
	return failureCount(p, batchv1.JobIndexFailureCountAnnotation) >= *s.job.Spec.BackoffLimitPerIndex
}

// findLastFailed sets, for each index that will be tried again, its failed pod with the most failures. That pod keeps its
// finalizer until the next pod of the index exists, which takes over the count of failures.
func (s *jobSync) findLastFailed() {
	busy := s.succeededIndexes.union(s.failedIndexes).union(podIndexes(s.activePods))
	s.lastFailed = map[int]*corev1.Pod{}
	for _, p := range s.pods {
		i, ok := s.index(p)
		if !ok || !isTracked(p) || !s.hasFailed(p) || busy.has(i) {
			continue
		}
		last := s.lastFailed[i]
		if last == nil || allFailures(last) <= allFailures(p) && !finishTime(p).Before(finishTime(last)) {
			s.lastFailed[i] = p
		}
	}
}

// failureCount returns the count that an annotation of a pod holds, 0 if it is missing or invalid.
func failureCount(p *corev1.Pod, annotation string) int32 {
	n, err := strconv.ParseInt(p.Annotations[annotation], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

// allFailures returns how many pods of an index had failed when p was created, with those that the failure policy ignores.
func allFailures(p *corev1.Pod) int32 {
	return failureCount(p, batchv1.JobIndexFailureCountAnnotation) + failureCount(p, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// indexFailures returns the annotations of a new pod with the failures of its index so far.
func (s *jobSync) indexFailures(index int) map[string]string {
	var failed, ignored int32
	if last := s.lastFailed[index]; last != nil {
		failed = failureCount(last, batchv1.JobIndexFailureCountAnnotation)
		ignored = failureCount(last, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if countsFailure(s.job.Spec.PodFailurePolicy, last) {
			failed++
		} else {
			ignored++
		}
	}
	out := map[string]string{batchv1.JobIndexFailureCountAnnotation: strconv.Itoa(int(failed))}
	if ignored > 0 {
		out[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(int(ignored))
	}
	return out
}

// pendingIndexes returns the lowest n indexes that need a pod.
func (s *jobSync) pendingIndexes(n int) []int {
	busy := s.succeededIndexes.union(s.failedIndexes).union(podIndexes(s.activePods))
	if replacesOnlyFailed(s.job) {
		busy = busy.union(podIndexes(s.terminatingPods()))
	}
	return busy.missing(n, int(*s.job.Spec.Completions))
}

// dueIndexes returns those of the indexes that may get a pod now. If none may, it returns how long to wait for the first.
func (s *jobSync) dueIndexes(list []int) (due []int, wait time.Duration) {
	for _, i := range list {
		var pause time.Duration
		if last := s.lastFailed[i]; last != nil {
			pause = backoff{failures: int(allFailures(last)) + 1, last: finishTime(last)}.wait(s.now)
		}
		switch {
		case pause == 0:
			due = append(due, i)
		case wait == 0 || pause < wait:
			wait = pause
		}
	}
	if len(due) > 0 {
		return due, 0
	}
	return nil, wait
}
