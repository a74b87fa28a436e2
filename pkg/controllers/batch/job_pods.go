package batch

import (
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// burst bounds how many pods one sync of a Job creates or deletes.
const burst = 500

// podPlan is what one sync changes of a Job's pods: it deletes some, or creates some, or waits.
type podPlan struct {
	remove  []*corev1.Pod
	create  int
	indexes []int         // of the pods to create, in an Indexed Job
	wait    time.Duration // until the backoff allows a pod
}

// planPods decides how many pods to create and which to delete.
func (s *jobSync) planPods() podPlan {
	if isSuspended(s.job) {
		return podPlan{remove: s.surplus(len(s.activePods))}
	}
	wanted := s.wantedPods()
	if remove := s.surplus(max(0, len(s.activePods)-wanted)); len(remove) > 0 {
		return podPlan{remove: remove[:min(len(remove), burst)]}
	}
	missing := wanted - len(s.activePods)
	if replacesOnlyFailed(s.job) {
		missing -= int(s.terminating)
	}
	if missing <= 0 {
		return podPlan{}
	}
	perIndex := s.job.Spec.BackoffLimitPerIndex != nil
	if wait := s.backoff.wait(s.now); wait > 0 && !perIndex {
		return podPlan{wait: wait}
	}
	plan := podPlan{create: min(missing, burst)}
	if isIndexed(s.job) {
		plan.indexes = s.pendingIndexes(plan.create)
		if perIndex {
			plan.indexes, plan.wait = s.dueIndexes(plan.indexes)
		}
		plan.create = len(plan.indexes)
	}
	return plan
}

// wantedPods returns how many pods should be active.
func (s *jobSync) wantedPods() int {
	parallelism := *s.job.Spec.Parallelism
	switch {
	case s.job.Spec.Completions != nil:
		return int(max(0, min(*s.job.Spec.Completions-s.succeeded, parallelism)))
	case s.succeeded > 0:
		return len(s.activePods) // after the first success no pod is replaced
	}
	return int(parallelism)
}

// surplus returns at least n active pods to delete: in an Indexed Job first those without a valid index, and all but one of those
// with the same index, then those that RankActive sorts first.
func (s *jobSync) surplus(n int) []*corev1.Pod {
	rest := slices.Clone(s.activePods)
	var out []*corev1.Pod
	if isIndexed(s.job) {
		out, rest = s.splitDuplicates(rest)
	}
	if len(out) < n {
		controller.RankActive(rest)
		out = append(out, rest[:n-len(out)]...)
	}
	return out
}

// splitDuplicates splits pods of an Indexed Job into those that are not needed and one pod for each index.
func (s *jobSync) splitDuplicates(pods []*corev1.Pod) (extra, rest []*corev1.Pod) {
	byIndex := map[int][]*corev1.Pod{}
	for _, p := range pods {
		if i, ok := s.index(p); ok {
			byIndex[i] = append(byIndex[i], p)
		} else {
			extra = append(extra, p)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(byIndex)) {
		same := byIndex[i]
		controller.RankActive(same)
		extra = append(extra, same[:len(same)-1]...)
		rest = append(rest, same[len(same)-1])
	}
	return extra, rest
}

func (s *jobSync) terminatingPods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range s.pods {
		if controller.IsPodTerminating(p) {
			out = append(out, p)
		}
	}
	return out
}

// indexVariable is the environment variable with the completion index.
const indexVariable = "JOB_COMPLETION_INDEX"

// newPod returns a pod of the Job to create. index is noIndex in a Job that is not Indexed.
func (s *jobSync) newPod(index int) *corev1.Pod {
	p := controller.NewPod(&s.job.Spec.Template, s.job, jobKind)
	if !isTracked(p) {
		p.Finalizers = append(p.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if index == noIndex {
		return p
	}
	text := strconv.Itoa(index)
	p.GenerateName = indexedPrefix(s.job.Name, text)
	p.Spec.Hostname = s.job.Name + "-" + text
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[batchv1.JobCompletionIndexAnnotation] = text
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[batchv1.JobCompletionIndexAnnotation] = text
	if s.job.Spec.BackoffLimitPerIndex != nil {
		maps.Copy(p.Annotations, s.indexFailures(index))
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			addIndexVariable(&list[i])
		}
	}
	return p
}

// maxPrefix is the length of the longest prefix that a generated name keeps.
const maxPrefix = 58

// indexedPrefix returns the prefix of a pod's name. A long name of the Job is cut, so that the index stays.
func indexedPrefix(job, index string) string {
	suffix := "-" + index + "-"
	return job[:min(len(job), max(0, maxPrefix-len(suffix)))] + suffix
}

func addIndexVariable(c *corev1.Container) {
	if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
		return
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
	}})
}
