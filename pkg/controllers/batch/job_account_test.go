package batch

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestAddUncounted: which pods are counted, and which lose their finalizer.
func TestAddUncounted(t *testing.T) {
	ending := func(kind batchv1.JobConditionType) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		}
	}
	counted := func(uids ...types.UID) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: uids}
		}
	}
	deleted := func(j *batchv1.Job) { j.DeletionTimestamp = new(at(0)) }
	for _, c := range []struct {
		name, pods string
		job        *batchv1.Job
		want       string // succeeded, failed, the pods that are released, completed and failed indexes
	}{
		{"ended pods", "a:Succeeded b:Failed c:Running", testJob(3, 3), "[a] [b] a b"},
		{"in the status already", "a:Succeeded b:Succeeded", testJob(3, 3, counted("a")), "[a b] [] a b"},
		{"without finalizer", "a:Succeeded- b:Failed-", testJob(3, 3), "[] [] "},
		{"deleted", "a:Running!", testJob(3, 3), "[] [a] a"},
		{"deleted, to be replaced when failed", "a:Running! b:Failed!", testJob(3, 3, onlyFailed), "[] [b] b"},
		{"failing", "a:Succeeded b:Running c:Pending", testJob(3, 3, ending(batchv1.JobFailureTarget)), "[a] [b c] a b c"},
		{"succeeding", "a:Succeeded b:Running c:Failed", testJob(3, 3, ending(batchv1.JobSuccessCriteriaMet)), "[a] [c] a b c"},
		{"the Job is deleted", "a:Succeeded b:Running", testJob(3, 3, deleted), "[a] [] a b"},
		{"indexed", "a:Succeeded/4 b:Succeeded/0 c:Failed/1 d:Succeeded/9 e:Succeeded", testJob(5, 5, indexed), "[] [c] e b c a d 0,4"},
		{"replaced by another pod", "a:Failed/0 b:Running/0", testJob(1, 1, indexed, perIndex(3)), "[] [a] a  failed "},
		{"not replaced yet", "a:Failed/0", testJob(1, 1, indexed, perIndex(3)), "[] []   failed "},
		{"the index fails", "a:Failed/0", testJob(2, 1, indexed, perIndex(0)), "[] [a] a  failed 0"},
	} {
		s := newJobSync(c.job, jobPods(c.pods), backoff{}, at(21).Time)
		s.decideEnd()
		release, all := s.addUncounted()
		u, status := c.job.Status.UncountedTerminatedPods, &c.job.Status
		got := fmt.Sprintf("%v %v %s", u.Succeeded, u.Failed, names(release))
		if isIndexed(c.job) {
			got += " " + status.CompletedIndexes
		}
		if status.FailedIndexes != nil {
			got += " failed " + *status.FailedIndexes
		}
		if got != c.want || !all {
			t.Errorf("%s: got %q (all: %v), want %q", c.name, got, all, c.want)
		}
	}
}

// TestUncountedLimit: one sync adds no more than 500 pods to the status.
func TestUncountedLimit(t *testing.T) {
	text := ""
	for i := range 600 {
		text += fmt.Sprintf(" p%d:Succeeded", i)
	}
	s := newJobSync(testJob(600, 600), jobPods(text), backoff{}, noon)
	s.decideEnd()
	release, all := s.addUncounted()
	if len(release) != maxUncounted || all || len(s.job.Status.UncountedTerminatedPods.Succeeded) != maxUncounted {
		t.Errorf("releases %d, all: %v", len(release), all)
	}
}

// TestFinish: a Job ends when all its pods are counted and none terminates.
func TestFinish(t *testing.T) {
	for _, c := range []struct {
		name, pods string
		uncounted  []types.UID
		want       bool
	}{
		{"all counted", "a:Succeeded-", nil, true},
		{"one is not counted", "a:Succeeded", []types.UID{"a"}, false},
		{"one terminates", "a:Running!-", nil, false},
	} {
		j := testJob(1, 1)
		s := newJobSync(j, jobPods(c.pods), backoff{}, noon)
		j.Status.UncountedTerminatedPods.Succeeded = c.uncounted
		s.end = s.condition(batchv1.JobSuccessCriteriaMet, "R", "m")
		s.announceEnd()
		if got := s.finish(); got != c.want || isFinished(j) != c.want || (j.Status.CompletionTime != nil) != c.want {
			t.Errorf("%s: finished %v: %+v", c.name, got, j.Status)
		}
		if jobCondition(j, batchv1.JobSuccessCriteriaMet) == nil {
			t.Errorf("%s: the end is not announced", c.name)
		}
	}
}

func TestCountUntracked(t *testing.T) {
	j := testJob(9, 9)
	j.Status.Succeeded = 2
	j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a", "b"}, Failed: []types.UID{"c"}}
	s := newJobSync(j, nil, backoff{}, noon)
	s.countUntracked(sets.New[types.UID]("b"))
	if got := fmt.Sprint(j.Status.Succeeded, j.Status.Failed, *j.Status.UncountedTerminatedPods, s.changed); got != "3 1 {[b] []} true" {
		t.Errorf("got %s", got)
	}
}
