package batch

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

type jobOrphans struct {
	client client.Client
	jobs   *client.Cache[*batchv1.Job]
	pods   *client.Cache[*corev1.Pod]
}

// JobOrphans removes the Job controller's finalizer from pods that no Job will count: pods without a Job, and those of a Job that
// has finished. Otherwise these pods could not be deleted.
func JobOrphans(env controller.Env) reconcile.Loop {
	r := &jobOrphans{
		client: env.Client, jobs: client.CacheOf[*batchv1.Job](env.Caches, jobsResource), pods: env.Caches.Pods(),
	}
	return reconcile.Loop{
		Name:      "joborphans",
		Sources:   []reconcile.Source{reconcile.Map(r.pods, r.orphan), reconcile.Map(r.jobs, r.left)},
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
}

// orphan enqueues a pod that may be an orphan.
func (r *jobOrphans) orphan(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Deleted() || !isTracked(ch.New) {
		return nil
	}
	if ref := metav1.GetControllerOfNoCopy(ch.New); ref != nil {
		j, ok := r.jobs.Get(objects.Key{Namespace: ch.New.Namespace, Name: ref.Name})
		if !isJob(ref) || ok && j.UID == ref.UID && !isFinished(j) {
			return nil
		}
	}
	return []objects.Key{ch.Key()}
}

// left enqueues the pods of a Job that has finished or was deleted.
func (r *jobOrphans) left(ch client.Change[*batchv1.Job]) []objects.Key {
	var keys []objects.Key
	add := func(j *batchv1.Job) {
		for _, p := range r.pods.OwnedBy(j.UID) {
			if isTracked(p) {
				keys = append(keys, controller.KeyOf(p))
			}
		}
	}
	if !ch.Added() && (ch.Deleted() || ch.Old.UID != ch.New.UID) {
		add(ch.Old)
	}
	if !ch.Deleted() && isFinished(ch.New) {
		add(ch.New)
	}
	return keys
}

func isJob(ref *metav1.OwnerReference) bool {
	return ref.Kind == jobKind.Kind && ref.APIVersion == batchv1.SchemeGroupVersion.String()
}

func (r *jobOrphans) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	p, ok := r.pods.Get(key)
	if !ok || !isTracked(p) {
		return 0, nil
	}
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		if !isJob(ref) {
			return 0, nil
		}
		j, err := r.owner(ctx, p.Namespace, ref)
		if err != nil {
			return 0, err
		}
		if j != nil && (managedElsewhere(j) || !isFinished(j)) {
			return 0, nil
		}
	}
	// A Job may adopt the pod at the same time: then the version differs, and the next try finds the Job.
	exactly := map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion}
	if _, err := untrack(ctx, r.client, p, exactly); controller.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("remove the finalizer of an orphan: %w", err)
	}
	return 0, nil
}

// owner returns the Job of a reference, nil if it does not exist. The cache of Jobs may be older than the cache of pods, so that a Job
// that is missing there is looked up in the API.
func (r *jobOrphans) owner(ctx context.Context, namespace string, ref *metav1.OwnerReference) (*batchv1.Job, error) {
	key := objects.Key{Namespace: namespace, Name: ref.Name}
	if j, ok := r.jobs.Get(key); ok && j.UID == ref.UID {
		return j, nil
	}
	obj, err := r.client.Get(ctx, client.In(jobsResource, key), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case obj.GetUID() != ref.UID:
		return nil, nil
	}
	return obj.(*batchv1.Job), nil
}
