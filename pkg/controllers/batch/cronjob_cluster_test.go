package batch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
	"github.com/minikctl/minikctl/pkg/objects"
)

// hourly is a cluster on a clock of its own, with a CronJob called "c" that starts a Job each hour.
type hourly struct {
	*controllertest.Cluster
	clock *testclock.FakeClock
	hour  time.Time // the last full hour
}

func startHourly(t *testing.T, change func(*batchv1.CronJobSpec)) *hourly {
	t.Helper()
	now := time.Now() //nolint:forbidigo // near the server's
	clk := testclock.NewFakeClock(now)
	h := &hourly{Cluster: controllertest.Start(t, clk), clock: clk, hour: now.Truncate(time.Hour)}
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
	cj.Spec.Schedule, cj.Spec.TimeZone = "0 * * * *", new("Etc/UTC")
	cj.Spec.JobTemplate.Spec = job("", 1, 1).Spec
	change(&cj.Spec)
	controllertest.Create(h.Cluster, cronJobs, cj)
	return h
}

// nextHour moves the clock to one second after the next full hour, and returns the name of that hour's Job.
func (h *hourly) nextHour(hours int) string {
	h.hour = h.hour.Add(time.Duration(hours) * time.Hour)
	h.clock.SetTime(h.hour.Add(time.Second))
	return fmt.Sprintf("c-%d", h.hour.Unix()/60)
}

// until waits until a condition holds, while the clock goes on in small steps: a timer may be set after the clock was moved.
func (h *hourly) until(what string, holds func() bool) {
	h.Helper()
	h.Until(what, func() bool {
		h.clock.Step(100 * time.Millisecond)
		return holds()
	})
}

func (h *hourly) cronJob() *batchv1.CronJob {
	h.Helper()
	cj, _ := controllertest.Get[*batchv1.CronJob](h.Cluster, cronJobs, "c")
	return cj
}

// jobs returns the names of the Jobs, with a mark for those that status.active has.
func (h *hourly) jobs() string {
	h.Helper()
	active := h.cronJob().Status.Active
	var out []string
	for _, j := range controllertest.List[*batchv1.Job](h.Cluster, jobs) {
		name := j.Name
		if slices.ContainsFunc(active, func(ref corev1.ObjectReference) bool { return ref.UID == j.UID }) {
			name += "*"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (h *hourly) untilJobs(want string) {
	h.Helper()
	h.until("jobs are "+want, func() bool { return h.jobs() == want })
}

// finish makes the pod of a Job end.
func (h *hourly) finish(name string, code int) {
	h.Helper()
	var pods []*corev1.Pod
	h.until("a pod of "+name, func() bool {
		pods = podsOf(h.Cluster, name, unfinished)
		return len(pods) == 1
	})
	end(h.Cluster, pods[0], code, wellBefore(h.Cluster))
}

func (h *hourly) untilEvent(want string) {
	h.Helper()
	h.until("event "+want, func() bool { return slices.Contains(h.EventsOf("c"), want) })
}

// TestCronJob: a CronJob starts Jobs on time, follows them, and keeps as many as its history limits say.
func TestCronJob(t *testing.T) {
	t.Parallel()
	h := startHourly(t, func(s *batchv1.CronJobSpec) {
		s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = new(int32(1)), new(int32(0))
		s.JobTemplate.Spec.BackoffLimit = new(int32(0))
	})
	first := h.nextHour(1)
	h.untilJobs(first + "*")
	cj, due := h.cronJob(), h.hour
	controllertest.Want(h.Cluster, "last schedule", cj.Status.LastScheduleTime.UTC(), due.UTC())
	controllertest.Want(h.Cluster, "reference", cj.Status.Active[0].Kind+" "+cj.Status.Active[0].APIVersion+" "+cj.Status.Active[0].Name, "Job batch/v1 "+first)
	j, _ := controllertest.Get[*batchv1.Job](h.Cluster, jobs, first)
	controllertest.Want(h.Cluster, "annotation", j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], due.UTC().Format(time.RFC3339))
	h.untilEvent("SuccessfulCreate: Created job " + first)
	h.finish(first, 0)
	h.untilJobs(first)
	h.untilEvent("SawCompletedJob: Saw completed job: " + first + ", condition: Complete")
	j, _ = controllertest.Get[*batchv1.Job](h.Cluster, jobs, first)
	controllertest.Want(h.Cluster, "last success", h.cronJob().Status.LastSuccessfulTime, j.Status.CompletionTime)

	second := h.nextHour(1)
	h.untilJobs(first + " " + second + "*")
	h.finish(second, 0)
	h.untilJobs(second)
	h.untilEvent("SuccessfulDelete: Deleted job " + first)
	third := h.nextHour(1)
	h.untilJobs(second + " " + third + "*")
	h.finish(third, 1)
	h.untilJobs(second)
	h.untilEvent("SuccessfulDelete: Deleted job " + third)
}

// TestConcurrencyPolicies: what happens to a Job that still runs when the next one is due.
func TestConcurrencyPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy batchv1.ConcurrencyPolicy
		want   func(first, second string) string
		event  func(first string) string
	}{
		{batchv1.AllowConcurrent, func(first, second string) string { return first + "* " + second + "*" }, func(first string) string {
			return "SuccessfulCreate: Created job " + first
		}},
		{batchv1.ForbidConcurrent, func(first, _ string) string { return first + "*" }, func(string) string {
			return "JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid"
		}},
		{batchv1.ReplaceConcurrent, func(_, second string) string { return second + "*" }, func(first string) string {
			return "SuccessfulDelete: Deleted job " + first
		}},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			t.Parallel()
			h := startHourly(t, func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = c.policy })
			first := h.nextHour(1)
			h.untilJobs(first + "*")
			second := h.nextHour(1)
			h.untilEvent(c.event(first))
			h.untilJobs(c.want(first, second))
		})
	}
}

// TestForbiddenStart: a start that was forbidden is made up for as soon as the earlier Job has ended.
func TestForbiddenStart(t *testing.T) {
	t.Parallel()
	h := startHourly(t, func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = batchv1.ForbidConcurrent })
	first := h.nextHour(1)
	h.untilJobs(first + "*")
	second := h.nextHour(1)
	h.untilEvent("JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid")
	h.finish(first, 0)
	h.untilJobs(first + " " + second + "*")
}

// TestMissedStarts: after a pause only the latest start is made up for, if it is not too late.
func TestMissedStarts(t *testing.T) {
	t.Parallel()
	h := startHourly(t, func(s *batchv1.CronJobSpec) {
		s.Suspend, s.StartingDeadlineSeconds = new(true), new(int64(600))
	})
	h.nextHour(3)
	h.Merge(controllertest.At(cronJobs, "c"), `{"spec":{"suspend":false}}`)
	h.untilJobs(h.nextHour(0) + "*")
	running := h.jobs()
	h.Merge(controllertest.At(cronJobs, "c"), `{"spec":{"suspend":true}}`)
	h.until("suspended", func() bool { return *h.cronJob().Spec.Suspend })
	h.hour = h.hour.Add(30 * time.Minute)
	h.nextHour(4)
	h.Merge(controllertest.At(cronJobs, "c"), `{"spec":{"suspend":false}}`)
	name := h.nextHour(0)
	h.hour = h.hour.Add(30 * time.Minute)
	next := h.nextHour(0)
	h.untilJobs(running + " " + next + "*")
	if strings.Contains(h.jobs(), name) {
		t.Errorf("started half an hour late: %s", h.jobs())
	}
}

// TestManyMissedStarts: a warning says that more than a hundred starts were missed.
func TestManyMissedStarts(t *testing.T) {
	t.Parallel()
	h := startHourly(t, func(s *batchv1.CronJobSpec) {})
	h.untilJobs(h.nextHour(101) + "*")
	h.untilEvent("TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
}

// TestScheduleChange: a new schedule has no starts in the past.
func TestScheduleChange(t *testing.T) {
	t.Parallel()
	h := startHourly(t, func(*batchv1.CronJobSpec) {})
	first := h.nextHour(1)
	h.untilJobs(first + "*")
	h.clock.SetTime(h.hour.Add(45 * time.Minute))
	h.Merge(controllertest.At(cronJobs, "c"), `{"spec":{"schedule":"30 * * * *"}}`)
	h.Until("the controller has the new schedule", func() bool {
		cj, _ := client.CacheOf[*batchv1.CronJob](h.Caches, cronJobs).Get(objects.Key{Namespace: "default", Name: "c"})
		return cj.Spec.Schedule == "30 * * * *"
	})
	h.Remove(jobs, first, metav1.DeletePropagationBackground)
	h.Until("a sync", func() bool { return len(h.cronJob().Status.Active) == 0 })
	h.hour = h.hour.Add(30 * time.Minute)
	h.untilJobs(h.nextHour(1) + "*")
}

// TestActiveJobs: Jobs that a client creates or deletes.
func TestActiveJobs(t *testing.T) {
	t.Parallel()
	h := startHourly(t, func(s *batchv1.CronJobSpec) {})
	manual := job("manual", 1, 1)
	manual.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: h.cronJob().UID, Controller: new(true)}}
	controllertest.Create(h.Cluster, jobs, manual)
	h.untilEvent("UnexpectedJob: Saw a job that the controller did not create or forgot: manual")
	name := h.nextHour(1)
	h.untilJobs(name + "* manual")
	h.Remove(jobs, name, metav1.DeletePropagationBackground)
	h.untilJobs("manual")
	h.untilEvent("MissingJob: Active job went missing: " + name)
}

// TestTTLAfterFinished: a finished Job is deleted with its pods after its time, which can be changed until then.
func TestTTLAfterFinished(t *testing.T) {
	t.Parallel()
	h := &hourly{clock: testclock.NewFakeClock(time.Now())} //nolint:forbidigo // near the server's
	h.Cluster = controllertest.Start(t, h.clock)
	for name, ttl := range map[string]int32{"soon": 1000, "later": 1000, "at-once": 0} {
		controllertest.Create(h.Cluster, jobs, job(name, 1, 1, func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = &ttl }))
		h.finish(name, 0)
	}
	controllertest.Create(h.Cluster, jobs, job("runs", 1, 1, func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = new(int32(0)) }))
	h.Until("one is gone", func() bool { return !h.Exists(jobs, "at-once") })
	waitFor(h.Cluster, "soon", batchv1.JobComplete)
	waitFor(h.Cluster, "later", batchv1.JobComplete)
	h.Merge(controllertest.At(jobs, "later"), `{"spec":{"ttlSecondsAfterFinished":100000}}`)
	h.clock.Step(990 * time.Second)
	h.until("another is gone", func() bool { return !h.Exists(jobs, "soon") })
	h.until("its pods too", func() bool { return len(podsOf(h.Cluster, "soon", func(*corev1.Pod) bool { return true })) == 0 })
	if !h.Exists(jobs, "later") || !h.Exists(jobs, "runs") {
		t.Error("a Job is deleted before its time")
	}
}

// TestCronJobOverHTTP runs a CronJob with controllers that reach the server over HTTP.
func TestCronJobOverHTTP(t *testing.T) {
	t.Parallel()
	controllertest.Both(t, func(c *controllertest.Cluster) {
		cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
		cj.Spec.Schedule = "@every 1s"
		cj.Spec.JobTemplate.Spec = job("", 1, 1).Spec
		controllertest.Create(c, cronJobs, cj)
		c.Until("a job", func() bool { return len(controllertest.List[*batchv1.Job](c, jobs)) >= 1 })
		c.Until("the status", func() bool {
			cj, _ := controllertest.Get[*batchv1.CronJob](c, cronJobs, "c")
			return len(cj.Status.Active) >= 1 && cj.Status.LastScheduleTime != nil
		})
		c.Remove(cronJobs, "c", metav1.DeletePropagationBackground)
		c.Until("nothing left", func() bool {
			return len(controllertest.List[*batchv1.Job](c, jobs))+len(controllertest.List[*corev1.Pod](c, client.Pods)) == 0
		})
	})
}
