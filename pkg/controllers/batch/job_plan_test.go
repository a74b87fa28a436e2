package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// testJob returns a Job with defaults.
func testJob(completions, parallelism int32, change ...func(*batchv1.Job)) *batchv1.Job {
	started := metav1.NewTime(noon)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "job"}}
	j.Spec = batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, BackoffLimit: new(int32(6)), Suspend: new(false)}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Status.StartTime = &started
	for _, f := range change {
		f(j)
	}
	return j
}

func indexed(j *batchv1.Job)   { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }
func suspended(j *batchv1.Job) { j.Spec.Suspend = new(true) }
func onlyFailed(j *batchv1.Job) {
	j.Spec.PodReplacementPolicy = new(batchv1.Failed)
}
func perIndex(limit int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = &limit }
}

// jobPods returns pods from a text such as "a:Running b:Succeeded/2 c:Failed/0!": NAME:PHASE, the completion index after a slash, and a
// mark: ! for a pod that is being deleted, - for one without the finalizer. Failed pods ended 20 s after noon.
func jobPods(text string) []*corev1.Pod {
	var out []*corev1.Pod
	for word := range strings.FieldsSeq(text) {
		name, rest, _ := strings.Cut(word, ":")
		deleted, untracked := strings.Contains(rest, "!"), strings.Contains(rest, "-")
		phase, index, isIndexed := strings.Cut(strings.TrimRight(rest, "!-"), "/")
		p := endedAt(20)
		p.Name, p.Namespace, p.UID, p.Status.Phase = name, "ns", types.UID(name), corev1.PodPhase(phase)
		if !untracked {
			p.Finalizers = []string{batchv1.JobTrackingFinalizer}
		}
		if isIndexed {
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: index}
		}
		if deleted {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		out = append(out, p)
	}
	return out
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestPlanPods(t *testing.T) {
	endless := func(j *batchv1.Job) { j.Spec.Completions = nil }
	for _, c := range []struct {
		name   string
		job    *batchv1.Job
		pods   string
		now    int // seconds after noon
		remove string
		want   podPlan
	}{
		{"new", testJob(3, 2), "", 0, "", podPlan{create: 2}},
		{"one left", testJob(3, 2), "a:Succeeded b:Succeeded", 0, "", podPlan{create: 1}},
		{"enough active", testJob(3, 2), "a:Running b:Pending", 0, "", podPlan{}},
		{"too many active", testJob(3, 1), "a:Running b:Pending", 0, "b", podPlan{}},
		{"completed with one active", testJob(1, 1), "a:Succeeded b:Running", 0, "b", podPlan{}},
		{"suspended", testJob(3, 2, suspended), "a:Running b:Pending", 0, "b a", podPlan{}},
		{"without completions", testJob(0, 3, endless), "a:Running", 0, "", podPlan{create: 2}},
		{"without completions, one succeeded", testJob(0, 3, endless), "a:Running b:Succeeded", 0, "", podPlan{}},
		{"many", testJob(1000, 900), "", 0, "", podPlan{create: 500}},
		{"just failed", testJob(3, 2), "a:Failed", 22, "", podPlan{wait: 8 * time.Second}},
		{"failed long ago", testJob(3, 2), "a:Failed", 31, "", podPlan{create: 2}},
		{"failed, with another active", testJob(3, 2), "a:Failed b:Running c:Running", 22, "", podPlan{}},
		{"deleted by a client", testJob(3, 1), "a:Running!", 60, "", podPlan{create: 1}},
		{"not replaced before it fails", testJob(3, 1, onlyFailed), "a:Running!", 60, "", podPlan{}},
		{"indexed", testJob(5, 3, indexed), "a:Succeeded/1 b:Running/3", 0, "", podPlan{create: 2, indexes: []int{0, 2}}},
		{"a lost index is run again", testJob(3, 3, indexed), "a:Running/2 b:Succeeded/0 c:Failed/1", 60, "", podPlan{create: 1, indexes: []int{1}}},
		{"twice the same index", testJob(3, 3, indexed), "a:Running/1 b:Running/0 c:Pending/1", 0, "c", podPlan{}},
		{"an index beyond the completions, and none", testJob(3, 3, indexed), "a:Running/7 b:Running c:Running/0", 0, "a b", podPlan{}},
		{"indexed, not replaced before it fails", testJob(3, 3, indexed, onlyFailed), "a:Running/0! b:Running/1", 0, "", podPlan{create: 1, indexes: []int{2}}},
		{"per index", testJob(3, 3, indexed, perIndex(1)), "a:Failed/0 b:Running/1", 22, "", podPlan{create: 1, indexes: []int{2}}},
		{"per index, waiting", testJob(2, 2, indexed, perIndex(1)), "a:Failed/0 b:Running/1", 22, "", podPlan{wait: 8 * time.Second}},
		{"per index, after the wait", testJob(2, 2, indexed, perIndex(1)), "a:Failed/0 b:Running/1", 30, "", podPlan{create: 1, indexes: []int{0}}},
		{"per index, no more tries", testJob(2, 2, indexed, perIndex(0)), "a:Failed/0 b:Running/1", 30, "", podPlan{}},
	} {
		s := newJobSync(c.job, jobPods(c.pods), backoff{}, at(c.now).Time)
		s.decideEnd()
		got := s.planPods()
		if names(got.remove) != c.remove || got.create != c.want.create || got.wait != c.want.wait || !slices.Equal(got.indexes, c.want.indexes) {
			t.Errorf("%s: got %q %+v, want %q %+v", c.name, names(got.remove), got, c.remove, c.want)
		}
	}
}

func TestDecideEnd(t *testing.T) {
	with := func(kind batchv1.JobConditionType) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "R", Message: "m"})
		}
	}
	limit := func(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n } }
	deadline := func(s int64) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &s } }
	maxFailed := func(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = &n } }
	failedBefore := func(n int32) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Status.Failed = n } }
	ignoring := func(action batchv1.PodFailurePolicyAction) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: action,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{9}}}}}
		}
	}
	anyOne := func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(1))}}}
	}
	exit9 := func(pods []*corev1.Pod) []*corev1.Pod {
		for _, p := range pods {
			p.Status.ContainerStatuses[0].Name, p.Status.ContainerStatuses[0].State.Terminated.ExitCode = "c", 9
		}
		return pods
	}
	restarted := func(n int32) []*corev1.Pod {
		pods := jobPods("a:Running b:Failed")
		pods[0].Status.ContainerStatuses[0].RestartCount = n
		pods[1].Status.ContainerStatuses[0].RestartCount = 9
		return pods
	}
	onFailure := func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want string
	}{
		{"runs", testJob(2, 2), jobPods("a:Running b:Failed"), ""},
		{"within the back-off limit", testJob(9, 9, limit(2)), jobPods("a:Failed b:Failed"), ""},
		{"beyond the back-off limit", testJob(9, 9, limit(1)), jobPods("a:Failed b:Failed"), "FailureTarget BackoffLimitExceeded Job has reached the specified backoff limit"},
		{"with earlier failures", testJob(9, 9, limit(1), failedBefore(1)), jobPods("b:Failed c:Failed-"), "FailureTarget BackoffLimitExceeded Job has reached the specified backoff limit"},
		{"no finalizer: counted before", testJob(9, 9, limit(1), failedBefore(1)), jobPods("c:Failed-"), ""},
		{"restarts", testJob(9, 9, limit(2), onFailure), restarted(1), ""},
		{"too many restarts", testJob(9, 9, limit(2), onFailure), restarted(2), "FailureTarget BackoffLimitExceeded Job has reached the specified backoff limit"},
		{"restarts with the limit 0", testJob(9, 9, limit(0), onFailure), restarted(0)[:1], ""},
		{"one restart with the limit 0", testJob(9, 9, limit(0), onFailure), restarted(1)[:1], "FailureTarget BackoffLimitExceeded Job has reached the specified backoff limit"},
		{"before the deadline", testJob(1, 1, deadline(61)), nil, ""},
		{"at the deadline", testJob(1, 1, deadline(60)), nil, "FailureTarget DeadlineExceeded Job was active longer than specified deadline"},
		{"suspended at the deadline", testJob(1, 1, deadline(60), suspended), nil, ""},
		{"FailJob", testJob(3, 3, ignoring("FailJob")), exit9(jobPods("a:Failed")), "FailureTarget PodFailurePolicy Container c for pod ns/a failed with exit code 9 matching FailJob rule at index 0"},
		{"FailJob, not failed yet", testJob(3, 3, ignoring("FailJob")), exit9(jobPods("a:Running!")), ""},
		{"Ignore", testJob(3, 3, ignoring("Ignore"), limit(0)), exit9(jobPods("a:Failed")), ""},
		{"Count", testJob(3, 3, ignoring("Count"), limit(0)), exit9(jobPods("a:Failed")), "FailureTarget BackoffLimitExceeded Job has reached the specified backoff limit"},
		{"failure decided before", testJob(1, 1, with(batchv1.JobFailureTarget)), jobPods("a:Succeeded"), "Failed R m"},
		{"success decided before", testJob(1, 1, with(batchv1.JobSuccessCriteriaMet), limit(0)), jobPods("a:Failed"), "SuccessCriteriaMet R m"},
		{"success policy", testJob(3, 3, indexed, anyOne), jobPods("a:Succeeded/2 b:Running/0"), "SuccessCriteriaMet SuccessPolicy Matched rules at index 0"},
		{"all indexes ended, one failed", testJob(2, 2, indexed, perIndex(0)), jobPods("a:Succeeded/1 b:Failed/0"), "FailureTarget FailedIndexes Job has failed indexes"},
		{"an index failed, another runs", testJob(2, 2, indexed, perIndex(0)), jobPods("a:Running/1 b:Failed/0"), ""},
		{"too many failed indexes", testJob(9, 9, indexed, perIndex(0), maxFailed(1)), jobPods("a:Failed/1 b:Failed/0"), "FailureTarget MaxFailedIndexesExceeded Job has exceeded the specified maximal number of failed indexes"},
		{"FailIndex", testJob(1, 1, indexed, perIndex(5), ignoring("FailIndex")), exit9(jobPods("a:Failed/0")), "FailureTarget FailedIndexes Job has failed indexes"},
	} {
		s := newJobSync(c.job, c.pods, backoff{}, at(60).Time)
		got := ""
		if s.decideEnd(); s.end != nil {
			got = fmt.Sprintf("%s %s %s", s.end.Type, s.end.Reason, s.end.Message)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	s := newJobSync(testJob(1, 1, deadline(90)), nil, backoff{}, at(60).Time)
	if s.decideEnd(); s.again != 30*time.Second {
		t.Errorf("looks at the deadline again after %v", s.again)
	}
}

// TestNewPodOfIndex: the index is in the pod's name, host name, label, annotation and environment, and it takes over the failures of its
// index.
func TestNewPodOfIndex(t *testing.T) {
	j := testJob(2, 2, indexed, perIndex(5))
	j.Spec.Template.Labels = map[string]string{"app": "a"}
	j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "i", Env: []corev1.EnvVar{{Name: indexVariable, Value: "own"}}}}
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	pods := jobPods("a:Failed/1 b:Failed/1")
	pods[1].Annotations[batchv1.JobIndexFailureCountAnnotation] = "2"
	pods[1].Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = "1"
	s := newJobSync(j, pods, backoff{}, at(60).Time)
	s.decideEnd()
	p := s.newPod(1)
	if p.GenerateName != "j-1-" || p.Spec.Hostname != "j-1" || p.Labels[batchv1.JobCompletionIndexAnnotation] != "1" || p.Labels["app"] != "a" ||
		p.Annotations[batchv1.JobCompletionIndexAnnotation] != "1" || !isTracked(p) || !metav1.IsControlledBy(p, j) {
		t.Errorf("got %+v", p)
	}
	if p.Annotations[batchv1.JobIndexFailureCountAnnotation] != "3" || p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] != "1" {
		t.Errorf("failures: %v", p.Annotations)
	}
	if env := p.Spec.InitContainers[0].Env; len(env) != 1 || env[0].Value != "own" {
		t.Errorf("a variable of the template is replaced: %v", env)
	}
	if env := p.Spec.Containers[0].Env; len(env) != 1 || env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
		t.Errorf("environment: %v", env)
	}
	if j.Spec.Template.Spec.Containers[0].Env != nil {
		t.Error("the template is changed")
	}
}
