package batch

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

type ttlAfterFinished struct {
	client client.Client
	clock  clock.Clock
	jobs   *client.Cache[*batchv1.Job]
}

// TTLAfterFinished deletes each Job that has been finished for its ttlSecondsAfterFinished, with its pods.
func TTLAfterFinished(env controller.Env) reconcile.Loop {
	r := &ttlAfterFinished{client: env.Client, clock: env.Clock, jobs: client.CacheOf[*batchv1.Job](env.Caches, jobsResource)}
	return reconcile.Loop{
		Name: "ttlafterfinished",
		Sources: []reconcile.Source{reconcile.Map(r.jobs, func(ch client.Change[*batchv1.Job]) []objects.Key {
			if ch.Deleted() || !expires(ch.New) {
				return nil
			}
			return []objects.Key{ch.Key()}
		})},
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
}

func (r *ttlAfterFinished) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	j, ok := r.jobs.Get(key)
	if !ok || !expires(j) {
		return 0, nil
	}
	if left, err := timeLeft(j, r.clock.Now()); left > 0 || err != nil {
		return left, err
	}
	// The cache may not show yet that the time was extended.
	obj, err := r.client.Get(ctx, client.In(jobsResource, key), metav1.GetOptions{})
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	if j = obj.(*batchv1.Job); !expires(j) {
		return 0, nil
	}
	if left, err := timeLeft(j, r.clock.Now()); left > 0 || err != nil {
		return left, err
	}
	foreground := metav1.DeletePropagationForeground
	_, err = r.client.Delete(ctx, client.In(jobsResource, key), metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: metav1.NewUIDPreconditions(string(j.UID)),
	})
	return 0, err
}

// expires reports whether a Job is deleted after some time.
func expires(j *batchv1.Job) bool {
	return j.DeletionTimestamp == nil && j.Spec.TTLSecondsAfterFinished != nil && isFinished(j)
}

// timeLeft returns the time until a finished Job expires.
func timeLeft(j *batchv1.Job, now time.Time) (time.Duration, error) {
	at := jobCondition(j, finishedCondition(j)).LastTransitionTime
	if at.IsZero() {
		return 0, fmt.Errorf("unable to find the time when the Job %s/%s finished", j.Namespace, j.Name)
	}
	return at.Add(time.Duration(*j.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now), nil
}
