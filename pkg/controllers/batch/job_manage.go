package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

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

// create creates the pods of a plan.
func (r *job) create(ctx context.Context, s *jobSync, plan podPlan) error {
	var created atomic.Int32
	err := controller.SlowStart(ctx, plan.create, func(i int) error {
		index := noIndex
		if isIndexed(s.job) {
			index = plan.indexes[i]
		}
		err := r.podCtl.Create(ctx, s.job, s.newPod(index))
		if err == nil {
			created.Add(1)
		}
		return err
	})
	s.active += created.Load()
	return err
}

// remove deletes active pods and adjusts the counts. With release it first removes their finalizers: such pods are not counted.
func (r *job) remove(ctx context.Context, s *jobSync, pods []*corev1.Pod, release bool) error {
	var first error
	errs := controller.InParallel(ctx, len(pods), func(i int) error {
		if release {
			if err := r.untrack(ctx, pods[i]); err != nil {
				return err
			}
		}
		return r.podCtl.Delete(ctx, s.job, pods[i])
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
	r.podCtl.Observe(out)
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
