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
	"k8s.io/apimachinery/pkg/types"

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
	schedules map[objects.Key]schedule // as the last syncs saw them
}

// schedule is the schedule that a CronJob has since the controller saw it change.
type schedule struct {
	uid        types.UID
	text, zone string
	since      time.Time // zero if it has not changed
}

// CronJob creates a Job at each time of a CronJob's schedule and deletes the oldest finished ones.
func CronJob(env controller.Env) reconcile.Loop {
	r := &cronJob{
		client: env.Client, events: env.Events, clock: env.Clock,
		cronJobs:  client.CacheOf[*batchv1.CronJob](env.Caches, cronJobsResource),
		jobs:      client.CacheOf[*batchv1.Job](env.Caches, jobsResource),
		schedules: map[objects.Key]schedule{},
	}
	return reconcile.Loop{
		Name:       "cronjob",
		Sources:    []reconcile.Source{reconcile.Watch(r.cronJobs), reconcile.Owned(r.jobs, cronJobKind.Kind)},
		MaxBackoff: controller.MaxBackoff,
		Reconcile:  r.reconcile,
		Workers:    controller.Workers,
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
	now := r.clock.Now()
	since := r.scheduleSince(c, now)
	if zone := c.Spec.TimeZone; zone != nil {
		if _, err := location(*zone); err != nil {
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
	times, err := parseSchedule(&c.Spec)
	if err != nil {
		r.warn(ctx, c, "UnparseableSchedule", fmt.Sprintf("unparseable schedule: %q : %s", c.Spec.Schedule, err))
		return 0, nil
	}
	past, err := pastStarts(c, times, now, true)
	if err != nil {
		r.warn(ctx, c, "InvalidSchedule", fmt.Sprintf("invalid schedule: %s : %s", c.Spec.Schedule, err))
		return 0, nil // nothing to do until the schedule changes
	}
	if past.latest.After(since) {
		if err := r.startDue(ctx, c, past); err != nil {
			return 0, err
		}
	}
	return untilNext(c, times, now), nil
}

// startDue starts the Job of the latest start time that is past, unless it was started before or the concurrency policy
// forbids it.
func (r *cronJob) startDue(ctx context.Context, c *batchv1.CronJob, past starts) error {
	due := past.latest
	if past.missed > manyMissed {
		r.warn(ctx, c, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	switch {
	case isStarted(c, due):
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(c.Status.Active) > 0:
		r.note(ctx, c, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
	default:
		return r.start(ctx, c, due)
	}
	return nil
}

// scheduleSince returns when the schedule of c was changed, as far as the controller saw it. The starts that a new schedule would have
// had before are not made up for.
func (r *cronJob) scheduleSince(c *batchv1.CronJob, now time.Time) time.Time {
	current := schedule{uid: c.UID, text: c.Spec.Schedule}
	if c.Spec.TimeZone != nil {
		current.zone = *c.Spec.TimeZone
	}
	key := controller.KeyOf(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.schedules[key]
	if ok && before.uid == c.UID {
		current.since = before.since
		if before.text != current.text || before.zone != current.zone {
			current.since = now
		}
	}
	r.schedules[key] = current
	return current.since
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
