package batch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// observeJobs removes finished Jobs from status.active and sets the time of the last success.
func (r *cronJob) observeJobs(ctx context.Context, c *batchv1.CronJob, jobs []*batchv1.Job) error {
	for _, j := range jobs {
		end := finishedCondition(j)
		if end == "" {
			if err := r.reportUnexpected(ctx, c, j); err != nil {
				return err
			}
			continue
		}
		if isActive(c, j.UID) {
			dropActive(c, j.UID)
			r.note(ctx, c, "SawCompletedJob", fmt.Sprintf("Saw completed job: %s, condition: %s", j.Name, end))
		}
		last := c.Status.LastSuccessfulTime
		if at := j.Status.CompletionTime; end == batchv1.JobComplete && at != nil && (last == nil || at.After(last.Time)) {
			c.Status.LastSuccessfulTime = at.DeepCopy()
		}
	}
	return nil
}

// reportUnexpected records an event about an unfinished Job that is not in status.active: a client has created it, or the controller
// ended before it wrote the status.
func (r *cronJob) reportUnexpected(ctx context.Context, c *batchv1.CronJob, j *batchv1.Job) error {
	if isActive(c, j.UID) {
		return nil
	}
	fresh, err := r.client.Get(ctx, client.In(cronJobsResource, controller.KeyOf(c)), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !isActive(fresh.(*batchv1.CronJob), j.UID) {
		r.warn(ctx, c, "UnexpectedJob", "Saw a job that the controller did not create or forgot: "+j.Name)
	}
	return nil
}

// dropMissing removes Jobs that no longer exist from status.active.
func (r *cronJob) dropMissing(ctx context.Context, c *batchv1.CronJob, jobs []*batchv1.Job) error {
	for _, ref := range slices.Clone(c.Status.Active) {
		if slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID }) {
			continue
		}
		_, err := r.getJob(ctx, ref.Namespace, ref.Name) // the cache may not have it yet
		switch {
		case apierrors.IsNotFound(err):
			r.note(ctx, c, "MissingJob", "Active job went missing: "+ref.Name)
			dropActive(c, ref.UID)
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *cronJob) getJob(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	obj, err := r.client.Get(ctx, client.In(jobsResource, objects.Key{Namespace: namespace, Name: name}), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*batchv1.Job), nil
}

// start creates the Job of a start time and adds it to the status.
func (r *cronJob) start(ctx context.Context, c *batchv1.CronJob, due time.Time) error {
	if c.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent {
		if err := r.replaceActive(ctx, c); err != nil {
			return err
		}
	}
	fresh, err := newJob(c, due)
	if err != nil {
		return err
	}
	name := fresh.Name
	out, err := r.client.Create(ctx, client.Target{Resource: jobsResource, Namespace: c.Namespace}, fresh, metav1.CreateOptions{})
	var created *batchv1.Job
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case apierrors.IsAlreadyExists(err):
		// The controller may have ended before it wrote the status. A Job of another owner is not followed.
		if created, err = r.getJob(ctx, c.Namespace, name); err != nil {
			return err
		}
		if !metav1.IsControlledBy(created, c) || isActive(c, created.UID) {
			return nil
		}
	case err != nil:
		r.warn(ctx, c, "FailedCreate", fmt.Sprintf("Error creating job: %v", err))
		return err
	default:
		created = out.(*batchv1.Job)
		r.note(ctx, c, "SuccessfulCreate", "Created job "+created.Name)
	}
	r.jobs.Put(created) // or the next sync would not find it
	c.Status.Active = append(c.Status.Active, corev1.ObjectReference{
		Kind: jobKind.Kind, APIVersion: batchv1.SchemeGroupVersion.String(),
		Namespace: created.Namespace, Name: created.Name, UID: created.UID, ResourceVersion: created.ResourceVersion,
	})
	c.Status.LastScheduleTime = &metav1.Time{Time: due}
	return nil
}

// replaceActive deletes the active Jobs.
func (r *cronJob) replaceActive(ctx context.Context, c *batchv1.CronJob) error {
	for _, ref := range slices.Clone(c.Status.Active) {
		j, err := r.getJob(ctx, ref.Namespace, ref.Name)
		if err != nil {
			r.warn(ctx, c, "FailedGet", fmt.Sprintf("Get job: %v", err))
			return err
		}
		if !r.removeJob(ctx, c, j) {
			return fmt.Errorf("could not replace job %s/%s", j.Namespace, j.Name)
		}
	}
	return nil
}

// removeOld deletes the oldest finished Jobs beyond the history limits.
func (r *cronJob) removeOld(ctx context.Context, c *batchv1.CronJob, jobs []*batchv1.Job) {
	for _, history := range []struct {
		end   batchv1.JobConditionType
		limit *int32
	}{{batchv1.JobComplete, c.Spec.SuccessfulJobsHistoryLimit}, {batchv1.JobFailed, c.Spec.FailedJobsHistoryLimit}} {
		if history.limit == nil {
			continue
		}
		for _, j := range oldJobs(jobs, history.end, int(*history.limit)) {
			r.removeJob(ctx, c, j)
		}
	}
}

// oldJobs returns the Jobs with an end that are to be deleted so that only the newest ones are kept.
func oldJobs(jobs []*batchv1.Job, end batchv1.JobConditionType, keep int) []*batchv1.Job {
	var ended []*batchv1.Job
	for _, j := range jobs {
		if finishedCondition(j) == end && j.DeletionTimestamp == nil {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, func(a, b *batchv1.Job) int {
		return cmp.Or(compareStart(a.Status.StartTime, b.Status.StartTime), cmp.Compare(a.Name, b.Name))
	})
	return ended[:max(0, len(ended)-keep)]
}

// compareStart orders start times, with those that are missing last.
func compareStart(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(b.Time)
}

// removeJob deletes a Job with its pods and removes it from status.active. It reports whether it could.
func (r *cronJob) removeJob(ctx context.Context, c *batchv1.CronJob, j *batchv1.Job) bool {
	background := metav1.DeletePropagationBackground
	out, err := r.client.Delete(ctx, client.In(jobsResource, controller.KeyOf(j)), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		r.warn(ctx, c, "FailedDelete", fmt.Sprintf("Deleted job: %v", err))
		return false
	}
	if kept, ok := out.(*batchv1.Job); ok {
		r.jobs.Put(kept) // it has finalizers
	} else {
		r.jobs.Drop(j)
	}
	dropActive(c, j.UID)
	r.note(ctx, c, "SuccessfulDelete", "Deleted job "+j.Name)
	return true
}

// newJob returns the Job of a start time. Its name contains the time, so that it is not created twice.
func newJob(c *batchv1.CronJob, due time.Time) (*batchv1.Job, error) {
	zone := time.UTC
	if c.Spec.TimeZone != nil {
		var err error
		if zone, err = location(*c.Spec.TimeZone); err != nil {
			return nil, err
		}
	}
	template := &c.Spec.JobTemplate
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: jobName(c, due), Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, cronJobKind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	if j.Annotations == nil {
		j.Annotations = map[string]string{}
	}
	j.Annotations[batchv1.CronJobScheduledTimestampAnnotation] = due.In(zone).Format(time.RFC3339)
	return j, nil
}

// jobName returns the name of the Job of a start time: it ends in the time's minutes since 1970.
func jobName(c *batchv1.CronJob, due time.Time) string {
	return c.Name + "-" + strconv.FormatInt(due.Unix()/60, 10)
}

// isStarted reports whether the Job of a start time was created before.
func isStarted(c *batchv1.CronJob, due time.Time) bool {
	last := c.Status.LastScheduleTime
	if last != nil && last.Time.Equal(due) {
		return true
	}
	name := jobName(c, due)
	return slices.ContainsFunc(c.Status.Active, func(ref corev1.ObjectReference) bool { return ref.Name == name && ref.Namespace == c.Namespace })
}

func isActive(c *batchv1.CronJob, uid types.UID) bool {
	return slices.ContainsFunc(c.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

func dropActive(c *batchv1.CronJob, uid types.UID) {
	c.Status.Active = slices.DeleteFunc(c.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}
