package batch_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var (
	jobs     = batchv1.SchemeGroupVersion.WithResource("jobs")
	cronJobs = batchv1.SchemeGroupVersion.WithResource("cronjobs")
)

// job returns a Job.
func job(name string, completions, parallelism int32, change ...func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	j.Spec.Completions, j.Spec.Parallelism = &completions, &parallelism
	j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}
	for _, f := range change {
		f(&j.Spec)
	}
	return j
}

func indexed(s *batchv1.JobSpec) { s.CompletionMode = new(batchv1.IndexedCompletion) }

// podsOf returns the pods of a Job that match.
func podsOf(c *controllertest.Cluster, name string, matches func(*corev1.Pod) bool) []*corev1.Pod {
	c.Helper()
	return slices.DeleteFunc(controllertest.List[*corev1.Pod](c, client.Pods), func(p *corev1.Pod) bool {
		return p.Labels["job-name"] != name || !matches(p)
	})
}

func unfinished(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && p.DeletionTimestamp == nil
}

// waitForPods waits until a Job has n unfinished pods and returns them.
func waitForPods(c *controllertest.Cluster, name string, n int) []*corev1.Pod {
	c.Helper()
	var pods []*corev1.Pod
	c.Until(fmt.Sprintf("%d unfinished pods of %s", n, name), func() bool {
		pods = podsOf(c, name, unfinished)
		return len(pods) == n
	})
	return pods
}

// end makes a pod end with an exit code at a time.
func end(c *controllertest.Cluster, p *corev1.Pod, code int, finished time.Time) {
	c.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":%q,"containerStatuses":[{"name":"main","image":"busybox","imageID":"","ready":false,"restartCount":0,
		"state":{"terminated":{"exitCode":%d,"finishedAt":%q}}}]}}`, p.UID, phase, code, finished.UTC().Format(time.RFC3339))
	_, err := c.Patch(c.Context(), controllertest.At(client.Pods, p.Name).Sub("status"), client.Patch{Type: types.StrategicMergePatchType, Data: []byte(patch)}, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.Fatal(err)
	}
}

// wellBefore is a time after which no backoff is left.
func wellBefore(c *controllertest.Cluster) time.Time {
	return time.Now().Add(-time.Hour) //nolint:forbidigo // the server's clock is the real one
}

// waitFor waits until a Job has a condition, and returns the Job.
func waitFor(c *controllertest.Cluster, name string, condition batchv1.JobConditionType) *batchv1.Job {
	c.Helper()
	var j *batchv1.Job
	c.Until(fmt.Sprintf("job %s is %s", name, condition), func() bool {
		j, _ = controllertest.Get[*batchv1.Job](c, jobs, name)
		return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == condition && c.Status == corev1.ConditionTrue })
	})
	return j
}

// conditions returns the conditions of a Job in their order.
func conditions(j *batchv1.Job) []string {
	var out []string
	for _, c := range j.Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}

// counts returns the numbers of a Job's status.
func counts(j *batchv1.Job) string {
	s := j.Status
	if s.Ready == nil {
		return "no status yet"
	}
	text := fmt.Sprintf("active %d ready %d terminating %d succeeded %d failed %d", s.Active, *s.Ready, *s.Terminating, s.Succeeded, s.Failed)
	if s.CompletedIndexes != "" {
		text += " completed " + s.CompletedIndexes
	}
	if s.FailedIndexes != nil {
		text += " failedIndexes " + *s.FailedIndexes
	}
	return text
}

var reached = []string{
	"SuccessCriteriaMet True CompletionsReached: Reached expected number of succeeded pods",
	"Complete True CompletionsReached: Reached expected number of succeeded pods",
}

// TestJob runs a Job of three pods, two at a time, of which one fails, and deletes it.
func TestJob(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 3, 2))
		pods := waitForPods(c, "j", 2)
		c.MakePodsReady()
		c.Until("ready pods", func() bool {
			j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
			return j.Status.Ready != nil && *j.Status.Ready == 2 && j.Status.Active == 2
		})
		end(c, pods[0], 1, wellBefore(c))
		end(c, pods[1], 0, wellBefore(c))
		for i := range 2 {
			for _, p := range waitForPods(c, "j", 2-i) {
				if end(c, p, 0, wellBefore(c)); i == 0 {
					break
				}
			}
		}
		j := waitFor(c, "j", batchv1.JobComplete)
		controllertest.Want(c, "counts", counts(j), "active 0 ready 0 terminating 0 succeeded 3 failed 1")
		controllertest.Want(c, "conditions", conditions(j), reached)
		if j.Status.StartTime == nil || j.Status.CompletionTime == nil || len(j.Status.UncountedTerminatedPods.Succeeded) > 0 {
			t.Errorf("status %+v", j.Status)
		}
		all := podsOf(c, "j", func(*corev1.Pod) bool { return true })
		controllertest.Want(c, "pods", len(all), 4)
		for _, p := range all {
			if len(p.Finalizers) > 0 {
				t.Errorf("pod %s still has %v", p.Name, p.Finalizers)
			}
		}
		c.Until("events", func() bool { return len(c.EventsOf("j")) >= 5 })
		controllertest.Want(c, "events", c.EventsOf("j")[0], "Completed: Job completed")
		c.Remove(jobs, "j", metav1.DeletePropagationBackground)
		c.Until("no pods", func() bool { return len(controllertest.List[*corev1.Pod](c, client.Pods)) == 0 })
	})
}

// TestIndexedJob: each index succeeds once, also the one whose first pod fails.
func TestIndexedJob(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 5, 5, indexed))
		for _, p := range waitForPods(c, "j", 5) {
			code := 0
			if p.Labels[batchv1.JobCompletionIndexAnnotation] == "3" {
				code = 1
			}
			end(c, p, code, wellBefore(c))
		}
		again := waitForPods(c, "j", 1)[0]
		controllertest.Want(c, "index", again.Annotations[batchv1.JobCompletionIndexAnnotation]+" "+again.Spec.Hostname+" "+again.GenerateName, "3 j-3 j-3-")
		c.Until("the completed indexes", func() bool {
			j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
			return j.Status.CompletedIndexes == "0-2,4"
		})
		end(c, again, 0, wellBefore(c))
		j := waitFor(c, "j", batchv1.JobComplete)
		controllertest.Want(c, "counts", counts(j), "active 0 ready 0 terminating 0 succeeded 5 failed 1 completed 0-4")
	})
}

// TestWithoutCompletions: a Job without completions is complete when one pod has succeeded and the others have ended.
func TestWithoutCompletions(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 1, 2, func(s *batchv1.JobSpec) { s.Completions = nil }))
		pods := waitForPods(c, "j", 2)
		end(c, pods[0], 0, wellBefore(c))
		c.Until("one success", func() bool {
			j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
			return j.Status.Succeeded == 1
		})
		j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
		controllertest.Want(c, "conditions", len(j.Status.Conditions), 0)
		end(c, pods[1], 1, wellBefore(c))
		j = waitFor(c, "j", batchv1.JobComplete)
		controllertest.Want(c, "counts", counts(j), "active 0 ready 0 terminating 0 succeeded 1 failed 1")
		controllertest.Want(c, "pods", len(podsOf(c, "j", func(*corev1.Pod) bool { return true })), 2)
	})
}

// TestSuccessPolicy: pods that end together are counted together, before a satisfied policy has the others deleted.
func TestSuccessPolicy(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 4, 4, indexed, func(s *batchv1.JobSpec) {
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: new("1-2"), SucceededCount: new(int32(1))}}}
		}))
		for _, p := range waitForPods(c, "j", 4) {
			if i := p.Labels[batchv1.JobCompletionIndexAnnotation]; i == "0" || i == "2" {
				end(c, p, 0, wellBefore(c))
			}
		}
		j := waitFor(c, "j", batchv1.JobComplete)
		controllertest.Want(c, "completed", j.Status.CompletedIndexes, "0,2")
		controllertest.Want(c, "conditions", conditions(j), []string{
			"SuccessCriteriaMet True SuccessPolicy: Matched rules at index 0", "Complete True SuccessPolicy: Matched rules at index 0",
		})
		controllertest.Want(c, "pods", len(podsOf(c, "j", func(*corev1.Pod) bool { return true })), 2)
	})
}

// TestFailedJob: a Job beyond its backoff limit deletes the pods that still run, and fails when they are gone.
func TestFailedJob(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 9, 3, func(s *batchv1.JobSpec) { s.BackoffLimit = new(int32(1)) }))
		pods := waitForPods(c, "j", 3)
		end(c, pods[0], 1, wellBefore(c))
		pods = waitForPods(c, "j", 3)
		end(c, pods[2], 1, wellBefore(c))
		j := waitFor(c, "j", batchv1.JobFailed)
		controllertest.Want(c, "conditions", conditions(j), []string{
			"FailureTarget True BackoffLimitExceeded: Job has reached the specified backoff limit",
			"Failed True BackoffLimitExceeded: Job has reached the specified backoff limit",
		})
		controllertest.Want(c, "counts", counts(j), "active 0 ready 0 terminating 0 succeeded 0 failed 4")
		if j.Status.CompletionTime != nil {
			t.Error("a failed Job has a completion time")
		}
		c.Until("event", func() bool {
			return slices.Contains(c.EventsOf("j"), "BackoffLimitExceeded: Job has reached the specified backoff limit")
		})
	})
}

// TestBackoffLimitPerIndex: an index fails after its own limit, the others go on, and the Job fails at the end.
func TestBackoffLimitPerIndex(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 2, 2, indexed, func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = new(int32(1)) }))
		of := func(index string) *corev1.Pod {
			pods := waitForPods(c, "j", 2)
			return pods[slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.Labels[batchv1.JobCompletionIndexAnnotation] == index })]
		}
		first := of("1")
		controllertest.Want(c, "failures of the first pod", first.Annotations[batchv1.JobIndexFailureCountAnnotation], "0")
		end(c, first, 1, wellBefore(c))
		c.Until("another pod", func() bool { return of("1").UID != first.UID })
		second := of("1")
		controllertest.Want(c, "failures of the second pod", second.Annotations[batchv1.JobIndexFailureCountAnnotation], "1")
		end(c, second, 1, wellBefore(c))
		rest := waitForPods(c, "j", 1)
		c.Until("the failed index", func() bool {
			j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
			return j.Status.FailedIndexes != nil && *j.Status.FailedIndexes == "1"
		})
		end(c, rest[0], 0, wellBefore(c))
		j := waitFor(c, "j", batchv1.JobFailed)
		controllertest.Want(c, "counts", counts(j), "active 0 ready 0 terminating 0 succeeded 1 failed 2 completed 0 failedIndexes 1")
		controllertest.Want(c, "condition", conditions(j)[1], "Failed True FailedIndexes: Job has failed indexes")
	})
}

// TestSuspend: a Job that is created suspended has no pods until it is resumed, and none after it is suspended again.
func TestSuspend(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 2, 2, func(s *batchv1.JobSpec) { s.Suspend = new(true) }))
		j := waitFor(c, "j", batchv1.JobSuspended)
		controllertest.Want(c, "conditions", conditions(j), []string{"Suspended True JobSuspended: Job suspended"})
		controllertest.Want(c, "has started", j.Status.StartTime != nil, false)
		controllertest.Want(c, "pods", len(podsOf(c, "j", unfinished)), 0)
		c.Merge(controllertest.At(jobs, "j"), `{"spec":{"suspend":false}}`)
		waitForPods(c, "j", 2)
		c.Until("resumed", func() bool {
			j, _ = controllertest.Get[*batchv1.Job](c, jobs, "j")
			return j.Status.StartTime != nil && slices.Equal(conditions(j), []string{"Suspended False JobResumed: Job resumed"})
		})
		c.Merge(controllertest.At(jobs, "j"), `{"spec":{"suspend":true}}`)
		waitFor(c, "j", batchv1.JobSuspended)
		waitForPods(c, "j", 0)
		c.Until("no failure is counted", func() bool {
			j, _ = controllertest.Get[*batchv1.Job](c, jobs, "j")
			return counts(j) == "active 0 ready 0 terminating 0 succeeded 0 failed 0"
		})
		controllertest.Want(c, "start time of a suspended Job", j.Status.StartTime, nil)
		c.Until("events", func() bool { return len(c.EventsOf("j")) >= 6 })
		events := c.EventsOf("j")
		for _, e := range []string{"Suspended: Job suspended", "Resumed: Job resumed"} {
			if !slices.Contains(events, e) {
				t.Errorf("no event %q in %q", e, events)
			}
		}
	})
}

// TestJobsOfOthers: the controller leaves a Job to the controller that it names, and takes the finalizer only from pods without a Job.
func TestJobsOfOthers(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("theirs", 1, 1, func(s *batchv1.JobSpec) { s.ManagedBy = new("example.com/controller") }))
		orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Namespace: "default", Finalizers: []string{batchv1.JobTrackingFinalizer}}}
		orphan.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		theirs, _ := controllertest.Get[*batchv1.Job](c, jobs, "theirs")
		owned := orphan.DeepCopy()
		owned.Name = "owned"
		owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(theirs, batchv1.SchemeGroupVersion.WithKind("Job"))}
		controllertest.Create(c, client.Pods, owned)
		controllertest.Create(c, client.Pods, orphan.DeepCopy())
		c.Until("no finalizer", func() bool {
			p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "orphan")
			return len(p.Finalizers) == 0
		})
		theirs, _ = controllertest.Get[*batchv1.Job](c, jobs, "theirs")
		controllertest.Want(c, "status", theirs.Status, batchv1.JobStatus{})
		finish := `{"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:00Z","conditions":[
			{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`
		c.Merge(controllertest.At(jobs, "theirs").Sub("status"), finish)
		controllertest.Create(c, client.Pods, func() *corev1.Pod {
			orphan.Name = "another"
			return orphan
		}())
		c.Until("no finalizer of the other", func() bool {
			p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "another")
			return len(p.Finalizers) == 0
		})
		p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "owned")
		controllertest.Want(c, "finalizers of a pod of another controller", p.Finalizers, []string{batchv1.JobTrackingFinalizer})
	})
}

// TestAdoption: a Job with a selector of its own adopts an orphan and counts it, and releases a pod that no longer matches.
func TestAdoption(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		labels := map[string]string{"job-name": "j", "mine": "yes"}
		orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Namespace: "default", Labels: labels}}
		orphan.Spec.Containers = []corev1.Container{{Name: "main", Image: "i"}}
		controllertest.Create(c, client.Pods, orphan.DeepCopy())
		controllertest.Create(c, jobs, func() *batchv1.Job {
			j := job("j", 2, 2, func(s *batchv1.JobSpec) {
				s.ManualSelector, s.Selector = new(true), &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}}
			})
			j.Spec.Template.Labels = labels
			return j
		}())
		waitForPods(c, "j", 2)
		c.Until("adopted", func() bool {
			p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "orphan")
			return metav1.GetControllerOfNoCopy(p) != nil && slices.Equal(p.Finalizers, []string{batchv1.JobTrackingFinalizer})
		})
		c.Merge(controllertest.At(client.Pods, "orphan"), `{"metadata":{"labels":{"mine":"no"}}}`)
		c.Until("released", func() bool {
			p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "orphan")
			return metav1.GetControllerOfNoCopy(p) == nil && len(p.Finalizers) == 0
		})
		waitForPods(c, "j", 3) // two of the Job and the released one
	})
}

// TestReadoption: a Job adopts a pod again that has lost its owner, and counts it.
func TestReadoption(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		for i := range 10 {
			name := fmt.Sprintf("j%d", i)
			controllertest.Create(c, jobs, job(name, 1, 1))
			p := waitForPods(c, name, 1)[0]
			c.Merge(controllertest.At(client.Pods, p.Name), `{"metadata":{"ownerReferences":[{"$patch":"replace"}]}}`)
			c.Until("adopted", func() bool {
				p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, p.Name)
				return metav1.GetControllerOfNoCopy(p) != nil && len(p.Finalizers) == 1
			})
			end(c, p, 0, wellBefore(c))
			j := waitFor(c, name, batchv1.JobComplete)
			controllertest.Want(c, "counts", counts(j), "active 0 ready 0 terminating 0 succeeded 1 failed 0")
			controllertest.Want(c, "pods", len(podsOf(c, name, func(*corev1.Pod) bool { return true })), 1)
		}
	})
}

// TestNoExtraPods: syncs that follow each other at once create no pod twice.
func TestNoExtraPods(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 5, 5))
		for i := range 20 {
			c.Merge(controllertest.At(jobs, "j"), fmt.Sprintf(`{"spec":{"activeDeadlineSeconds":%d}}`, 1000+i))
		}
		for _, p := range waitForPods(c, "j", 5) {
			end(c, p, 0, wellBefore(c))
		}
		waitFor(c, "j", batchv1.JobComplete)
		controllertest.Want(c, "pods", len(podsOf(c, "j", func(*corev1.Pod) bool { return true })), 5)
	})
}

// TestFailedJobWaitsForPods: a Job that fails is not Failed before its pods have ended.
func TestFailedJobWaitsForPods(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 2, 2, func(s *batchv1.JobSpec) {
			s.BackoffLimit, s.Template.Spec.NodeName = new(int32(0)), "somewhere" // so that pods get a grace period
		}))
		pods := waitForPods(c, "j", 2)
		end(c, pods[0], 1, wellBefore(c))
		waitFor(c, "j", batchv1.JobFailureTarget)
		c.Until("the other pod is counted", func() bool {
			j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
			return counts(j) == "active 0 ready 0 terminating 1 succeeded 0 failed 2"
		})
		j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
		controllertest.Want(c, "conditions", len(j.Status.Conditions), 1)
		now := int64(0)
		if _, err := c.Delete(c.Context(), controllertest.At(client.Pods, pods[1].Name), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			c.Fatal(err)
		}
		j = waitFor(c, "j", batchv1.JobFailed)
		controllertest.Want(c, "counts", counts(j), "active 0 ready 0 terminating 0 succeeded 0 failed 2")
	})
}

// TestRefusedPods: pods that are not admitted are an event, and are tried again.
func TestRefusedPods(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, jobs, job("j", 3, 3, func(s *batchv1.JobSpec) { s.Template.Spec.ServiceAccountName = "later" }))
		refused := `FailedCreate: Error creating: pods "j-" is forbidden: error looking up service account default/later: serviceaccount "later" not found`
		c.Until("event", func() bool { return slices.Contains(c.EventsOf("j"), refused) })
		c.Until("status", func() bool {
			j, _ := controllertest.Get[*batchv1.Job](c, jobs, "j")
			return counts(j) == "active 0 ready 0 terminating 0 succeeded 0 failed 0"
		})
		controllertest.Create(c, client.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "later", Namespace: "default"}})
		waitForPods(c, "j", 3)
	})
}
