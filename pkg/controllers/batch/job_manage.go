package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// deleteActive deletes the active pods of a Job that ends. They keep their finalizers, so that they are counted. The end is put
// off if a pod could not be deleted.
func (r *job) deleteActive(ctx context.Context, s *jobSync) error {
	err := r.remove(ctx, s, s.activePods, false)
	if err != nil {
		s.end = nil
	}
	return err
}

// managePods creates or deletes pods, and sets the end of a Job that is complete and the condition Suspended of one that is not.
func (r *job) managePods(ctx context.Context, s *jobSync) error {
	managed := s.job.DeletionTimestamp == nil
	var err error
	if managed {
		plan := s.planPods()
		if plan.wait > 0 {
			s.requeueIn(plan.wait)
		}
		err = errors.Join(r.remove(ctx, s, plan.remove, true), r.create(ctx, s, plan))
	}
	if s.end = s.complete(); s.end == nil && managed {
		r.setSuspended(ctx, s)
	}
	return err
}

// setSuspended sets the condition Suspended. The time that a Job is active begins anew when it is resumed.
func (r *job) setSuspended(ctx context.Context, s *jobSync) {
	status, reason, event, message := corev1.ConditionFalse, "JobResumed", "Resumed", "Job resumed"
	if isSuspended(s.job) {
		status, reason, event, message = corev1.ConditionTrue, "JobSuspended", "Suspended", "Job suspended"
	}
	if !s.setCondition(newJobCondition(batchv1.JobSuspended, status, reason, message, s.now)) {
		return
	}
	s.changed = true
	r.events.Event(ctx, s.job, corev1.EventTypeNormal, event, message)
	s.job.Status.StartTime = nil
	if !isSuspended(s.job) {
		at := controller.WholeSeconds(s.now)
		s.job.Status.StartTime = &at
	}
}

// create creates the pods of a plan in batches of 1, 2, 4, … (slow start). It stops after a batch with an error: most likely all
// would fail.
func (r *job) create(ctx context.Context, s *jobSync, plan podPlan) error {
	for done, batch := 0, min(1, plan.create); batch > 0; batch = min(2*batch, plan.create-done) {
		pods := make([]*corev1.Pod, batch)
		for i := range pods {
			index := noIndex
			if isIndexed(s.job) {
				index = plan.indexes[done+i]
			}
			pods[i] = s.newPod(index)
		}
		created, err := r.createBatch(ctx, s.job, pods)
		s.active += created
		if err != nil {
			return err
		}
		done += batch
	}
	return nil
}

// createBatch creates pods at the same time. It returns how many it has created and the first error.
func (r *job) createBatch(ctx context.Context, j *batchv1.Job, pods []*corev1.Pod) (created int32, err error) {
	errs := inParallel(pods, func(p *corev1.Pod) error { return r.createOne(ctx, j, p) })
	for _, e := range errs {
		switch {
		case apierrors.HasStatusCause(e, corev1.NamespaceTerminatingCause): // all creates will fail, and the Job is deleted soon
		case e == nil:
			created++
		case err == nil:
			err = e
		}
	}
	return created, err
}

func (r *job) createOne(ctx context.Context, j *batchv1.Job, p *corev1.Pod) error {
	out, err := r.client.Create(ctx, client.Target{Resource: client.Pods, Namespace: j.Namespace}, p, metav1.CreateOptions{})
	if err != nil {
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			r.events.Event(ctx, j, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		}
		return err
	}
	pod := out.(*corev1.Pod)
	r.pods.Put(pod) // or the next sync would not count it
	r.events.Event(ctx, j, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+pod.Name)
	return nil
}

// remove deletes active pods and adjusts the counts. With release it first removes their finalizers: such pods are not counted.
func (r *job) remove(ctx context.Context, s *jobSync, pods []*corev1.Pod, release bool) error {
	var first error
	errs := inParallel(pods, func(p *corev1.Pod) error {
		if release {
			if err := r.untrack(ctx, p); err != nil {
				return err
			}
		}
		return r.removeOne(ctx, s.job, p)
	})
	for i, err := range errs {
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		s.active--
		s.terminating++
		if controller.IsPodReady(pods[i]) {
			s.ready--
		}
	}
	return first
}

func (r *job) removeOne(ctx context.Context, j *batchv1.Job, p *corev1.Pod) error {
	t := client.In(client.Pods, controller.KeyOf(p))
	out, err := r.client.Delete(ctx, t, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		r.pods.Drop(p) // already deleted
		return nil
	case err != nil:
		r.events.Event(ctx, j, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
		return err
	}
	if deleted, ok := out.(*corev1.Pod); ok {
		r.observe(deleted)
	} else {
		r.pods.Drop(p)
	}
	r.events.Event(ctx, j, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+p.Name)
	return nil
}

// untrack removes the Job's finalizer from a pod.
func (r *job) untrack(ctx context.Context, p *corev1.Pod) error {
	if !isTracked(p) {
		return nil
	}
	out, err := untrack(ctx, r.client, p, map[string]any{"uid": p.UID})
	switch {
	case apierrors.IsNotFound(err):
		r.pods.Drop(p)
		return nil
	case err != nil:
		return fmt.Errorf("remove the finalizer of pod %s: %w", p.Name, err)
	}
	r.observe(out)
	return nil
}

// untrack removes the Job controller's finalizer from a pod, if the pod still has the given metadata.
func untrack(ctx context.Context, c client.Client, p *corev1.Pod, metadata map[string]any) (*corev1.Pod, error) {
	metadata["$deleteFromPrimitiveList/finalizers"] = []string{batchv1.JobTrackingFinalizer}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	out, err := c.Patch(ctx, client.In(client.Pods, controller.KeyOf(p)), client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	return out.(*corev1.Pod), nil
}

// observe makes the cache show a pod as a request has returned it, before the watch delivers it.
func (r *job) observe(p *corev1.Pod) {
	ended := p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds == 0
	if p.DeletionTimestamp != nil && len(p.Finalizers) == 0 && ended {
		r.pods.Drop(p)
		return
	}
	r.pods.Put(p)
}

// inParallel calls do for each element at the same time and returns the errors in the order of the list.
func inParallel[T any](list []T, do func(T) error) []error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, x := range list {
		wg.Go(func() { errs[i] = do(x) })
	}
	wg.Wait()
	return errs
}
