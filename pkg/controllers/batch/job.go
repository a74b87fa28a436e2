// Package batch holds the controllers of the API group batch.
package batch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var (
	jobsResource = batchv1.SchemeGroupVersion.WithResource("jobs")
	jobKind      = batchv1.SchemeGroupVersion.WithKind("Job")
)

type job struct {
	client   client.Client
	events   *client.Recorder
	clock    clock.Clock
	jobs     *client.Cache[*batchv1.Job]
	pods     *client.Cache[*corev1.Pod]
	podCtl   controller.PodControl
	backoffs backoffs
}

// Job runs the pods of each Job until as many have succeeded as it specifies, or until it has failed.
//
// A pod has a finalizer until it is counted in the Job's status, so that none is lost or counted twice: the UIDs of ended pods
// are written to status.uncountedTerminatedPods, then their finalizers are removed, then the UIDs become counts.
func Job(env controller.Env) reconcile.Loop {
	r := &job{
		client: env.Client, events: env.Events, clock: env.Clock,
		jobs: client.CacheOf[*batchv1.Job](env.Caches, jobsResource), pods: env.Caches.Pods(),
		backoffs: backoffs{jobs: map[objects.Key]jobBackoff{}},
	}
	r.podCtl = controller.PodControl{Client: env.Client, Events: env.Events, Pods: r.pods}
	b := newBatches(env.Clock)
	return reconcile.Loop{
		Name:         "job",
		Sources:      []reconcile.Source{b.jobs(r.jobs), b.pods(r.pods), reconcile.Map(r.pods, controller.Adopters[*corev1.Pod](r.jobs, func(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector }))},
		FirstBackoff: time.Second, MaxBackoff: time.Minute,
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
}

func (r *job) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	cached, ok := r.jobs.Get(key)
	if !ok || isFinished(cached) {
		r.backoffs.forget(key)
		return 0, nil
	}
	if managedElsewhere(cached) {
		return 0, nil
	}
	if m := cached.Spec.CompletionMode; m != nil && *m != batchv1.NonIndexedCompletion && *m != batchv1.IndexedCompletion {
		r.events.Event(ctx, cached, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return 0, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(cached.Spec.Selector)
	if err != nil {
		slog.WarnContext(ctx, "job with a bad selector", "key", key.String(), "err", err)
		return 0, nil // nothing to do until the selector changes
	}
	pods, err := r.claim(ctx, cached, selector)
	if err != nil {
		return 0, err
	}
	s := newJobSync(cached.DeepCopy(), pods, r.backoffs.get(key, cached.UID), r.clock.Now())
	s.decideEnd()
	var podsErr error
	if s.end != nil {
		podsErr = r.deleteActive(ctx, s)
	} else {
		podsErr = r.managePods(ctx, s)
	}
	if err := r.account(ctx, s); err != nil {
		return 0, fmt.Errorf("account for pods: %w", err)
	}
	return s.again, podsErr
}

// claim returns the pods that the Job controls, ended ones too, after adoption and release.
func (r *job) claim(ctx context.Context, j *batchv1.Job, selector labels.Selector) ([]*corev1.Pod, error) {
	c := &controller.Claimer{
		Client: r.client, Resource: client.Pods, Owner: j, Kind: jobKind, Owners: jobsResource, Finalizer: batchv1.JobTrackingFinalizer,
	}
	candidates := append(r.pods.OwnedBy(j.UID), r.pods.ByIndex(controller.OrphanPods, j.Namespace)...)
	return controller.Claim(ctx, c, selector, candidates, r.pods.Put)
}

// finishedCondition returns the type of the condition with which a Job has ended, "" if it has not ended.
func finishedCondition(j *batchv1.Job) batchv1.JobConditionType {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

func isFinished(j *batchv1.Job) bool { return finishedCondition(j) != "" }

// managedElsewhere reports whether the Job names another controller than this one.
func managedElsewhere(j *batchv1.Job) bool {
	return j.Spec.ManagedBy != nil && *j.Spec.ManagedBy != batchv1.JobControllerName
}

func isIndexed(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

func isSuspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

// replacesOnlyFailed reports whether a pod is replaced when its phase is Failed, and not yet when it is being deleted.
func replacesOnlyFailed(j *batchv1.Job) bool {
	return j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed || j.Spec.PodFailurePolicy != nil
}
