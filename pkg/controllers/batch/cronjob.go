package batch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/robfig/cron/v3"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var (
	cronJobsResource = batchv1.SchemeGroupVersion.WithResource("cronjobs")
	cronJobKind      = batchv1.SchemeGroupVersion.WithKind("CronJob")
)

// jobsByCronJob lists Jobs by the namespace and name of their CronJob.
var jobsByCronJob = client.NewIndex(func(j *batchv1.Job) []string {
	ref := metav1.GetControllerOfNoCopy(j)
	if ref == nil || ref.Kind != cronJobKind.Kind {
		return nil
	}
	return []string{j.Namespace + "/" + ref.Name}
})

type cronJob struct {
	client   client.Client
	events   *client.Recorder
	clock    clock.Clock
	cronJobs *client.Cache[*batchv1.CronJob]
	jobs     *client.Cache[*batchv1.Job]

	mu        sync.Mutex
	schedules map[objects.Key]string // the schedules and zones of the last syncs
}

// CronJob creates a Job at each time of a CronJob's schedule and deletes the oldest finished ones.
func CronJob(env controller.Env) reconcile.Loop {
	r := &cronJob{
		client: env.Client, events: env.Events, clock: env.Clock,
		cronJobs:  client.CacheOf[*batchv1.CronJob](env.Caches, cronJobsResource),
		jobs:      client.CacheOf[*batchv1.Job](env.Caches, jobsResource),
		schedules: map[objects.Key]string{},
	}
	return reconcile.Loop{
		Name:      "cronjob",
		Sources:   []reconcile.Source{reconcile.Watch(r.cronJobs), reconcile.Owned(r.jobs, cronJobKind.Kind)},
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
}

func (r *cronJob) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	cached, ok := r.cronJobs.Get(key)
	if !ok {
		r.forget(key)
		return 0, nil // deleted; the garbage collector deletes its Jobs
	}
	c := cached.DeepCopy()
	jobs := r.jobs.ByIndex(jobsByCronJob, key.String())
	r.removeOld(ctx, c, jobs)
	again, err := r.sync(ctx, c, jobs)
	if writeErr := r.writeStatus(ctx, cached, c); writeErr != nil {
		return 0, writeErr
	}
	return again, err
}

// sync updates the status of c from its Jobs and starts a Job if one is due. It returns the time until the next start.
func (r *cronJob) sync(ctx context.Context, c *batchv1.CronJob, jobs []*batchv1.Job) (time.Duration, error) {
	if err := r.observeJobs(ctx, c, jobs); err != nil {
		return 0, err
	}
	if err := r.dropMissing(ctx, c, jobs); err != nil {
		return 0, err
	}
	if c.DeletionTimestamp != nil {
		return 0, nil
	}
	changed := r.scheduleChanged(c)
	if zone := c.Spec.TimeZone; zone != nil {
		if _, err := time.LoadLocation(*zone); err != nil {
			r.warn(ctx, c, "UnknownTimeZone", fmt.Sprintf("invalid timeZone: %q: %s", *zone, err))
			return 0, nil
		}
	}
	if c.Spec.Suspend != nil && *c.Spec.Suspend {
		return 0, nil
	}
	if strings.Contains(c.Spec.Schedule, "TZ") {
		r.warn(ctx, c, "UnsupportedSchedule", fmt.Sprintf("CRON_TZ or TZ used in schedule %q is not officially supported, "+
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", c.Spec.Schedule))
	}
	schedule, err := parseSchedule(&c.Spec)
	if err != nil {
		r.warn(ctx, c, "UnparseableSchedule", fmt.Sprintf("unparseable schedule: %q : %s", c.Spec.Schedule, err))
		return 0, nil
	}
	now := r.clock.Now()
	if changed { // starts that the new schedule had in the past are not made up for
		return untilNext(c, schedule, now), nil
	}
	return r.startDue(ctx, c, schedule, now)
}

// startDue starts the Job of the latest start time that is past, unless it was started before, is too late, or the concurrency
// policy forbids it.
func (r *cronJob) startDue(ctx context.Context, c *batchv1.CronJob, schedule cron.Schedule, now time.Time) (time.Duration, error) {
	past, err := pastStarts(c, schedule, now, true)
	if err != nil {
		r.warn(ctx, c, "InvalidSchedule", fmt.Sprintf("invalid schedule: %s : %s", c.Spec.Schedule, err))
		return 0, nil // nothing to do until the schedule changes
	}
	due := past.latest
	if due.IsZero() {
		return untilNext(c, schedule, now), nil
	}
	if past.missed > manyMissed {
		r.warn(ctx, c, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	deadline := c.Spec.StartingDeadlineSeconds
	switch {
	case deadline != nil && due.Add(time.Duration(*deadline)*time.Second).Before(now):
		r.warn(ctx, c, "MissSchedule", "Missed scheduled time to start a job: "+due.UTC().Format(time.RFC1123Z))
	case isStarted(c, due):
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(c.Status.Active) > 0:
		r.note(ctx, c, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
	default:
		if requeue, err := r.start(ctx, c, due); !requeue || err != nil {
			return 0, err
		}
	}
	return untilNext(c, schedule, now), nil
}

// scheduleChanged reports whether the schedule of c is another one than at its last sync.
func (r *cronJob) scheduleChanged(c *batchv1.CronJob) bool {
	now := c.Spec.Schedule
	if c.Spec.TimeZone != nil {
		now = *c.Spec.TimeZone + " " + now
	}
	key := controller.KeyOf(c)
	now = string(c.UID) + " " + now
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.schedules[key]
	r.schedules[key] = now
	return ok && before != now && strings.HasPrefix(before, string(c.UID)+" ")
}

func (r *cronJob) forget(key objects.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.schedules, key)
}

func (r *cronJob) writeStatus(ctx context.Context, cached, c *batchv1.CronJob) error {
	if equality.Semantic.DeepEqual(cached.Status, c.Status) {
		return nil
	}
	t := client.In(cronJobsResource, controller.KeyOf(c)).Sub("status")
	out, err := r.client.Update(ctx, t, c.DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	r.cronJobs.Put(out.(*batchv1.CronJob))
	return nil
}

func (r *cronJob) warn(ctx context.Context, c *batchv1.CronJob, reason, message string) {
	r.events.Event(ctx, c, corev1.EventTypeWarning, reason, message)
}

func (r *cronJob) note(ctx context.Context, c *batchv1.CronJob, reason, message string) {
	r.events.Event(ctx, c, corev1.EventTypeNormal, reason, message)
}
