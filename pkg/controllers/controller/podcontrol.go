package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// PodControl creates and deletes the pods of one controller's objects. It records Events about the owner, and makes the cache show
// each change before the watch delivers it, so that the next sync counts right. It is safe for concurrent use.
type PodControl struct {
	Client client.Client
	Events *client.Recorder
	Pods   *client.Cache[*corev1.Pod]
}

// Create creates a pod of owner. In a namespace that is being deleted it does nothing: all creates fail there, and owner is deleted
// soon.
func (c PodControl) Create(ctx context.Context, owner objects.Object, pod *corev1.Pod) error {
	out, err := c.Client.Create(ctx, client.Target{Resource: client.Pods, Namespace: owner.GetNamespace()}, pod, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		c.Events.Event(ctx, owner, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	created := out.(*corev1.Pod)
	c.Pods.Put(created)
	c.Events.Event(ctx, owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+created.Name)
	return nil
}

// Delete deletes a pod of owner. A pod that is already gone is no error.
func (c PodControl) Delete(ctx context.Context, owner objects.Object, pod *corev1.Pod) error {
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	out, err := c.Client.Delete(ctx, client.In(client.Pods, KeyOf(pod)), opts)
	if err != nil && !refused(err) {
		if last, done := c.deleted(ctx, pod); done {
			out, err = last, nil
		}
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		c.Pods.Drop(pod)
		return nil
	case err != nil:
		c.Events.Event(ctx, owner, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
		return err
	}
	if last, ok := out.(*corev1.Pod); ok {
		c.Observe(last)
	} else {
		c.Pods.Drop(pod)
	}
	c.Events.Event(ctx, owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+pod.Name)
	return nil
}

// refused reports whether the API server has answered a request, and has not done it.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
}

// deleted reports whether a pod is deleted or being deleted after a delete whose result is unknown, e.g. because the connection was lost, and
// returns what the delete would have returned. Without it the next sync could begin before the watch delivers the deletion, and delete another
// pod in place of this one. It lists pods, since not all controllers may get one.
func (c PodControl) deleted(ctx context.Context, pod *corev1.Pod) (last runtime.Object, done bool) {
	list, err := c.Client.List(ctx, client.Target{Resource: client.Pods, Namespace: pod.Namespace},
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String()})
	if err != nil {
		return nil, false
	}
	for _, obj := range list.Items {
		if obj.GetUID() == pod.UID {
			return obj, obj.GetDeletionTimestamp() != nil
		}
	}
	return nil, true
}

// Observe makes the cache show a pod as a request has returned it, before the watch delivers it.
func (c PodControl) Observe(p *corev1.Pod) {
	if IsPodRemoved(p) {
		c.Pods.Drop(p)
		return
	}
	c.Pods.Put(p)
}

// IsPodRemoved reports whether the response to a delete is the last state of a pod that no longer exists.
func IsPodRemoved(p *corev1.Pod) bool {
	ended := p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds == 0
	return p.DeletionTimestamp != nil && len(p.Finalizers) == 0 && ended
}

// DeleteAll deletes pods of owner at the same time. It returns one of the errors: most likely the others are equal.
func (c PodControl) DeleteAll(ctx context.Context, owner objects.Object, pods []*corev1.Pod) error {
	return firstOf(InParallel(ctx, len(pods), func(i int) error { return c.Delete(ctx, owner, pods[i]) }))
}

// maxBatch bounds how many requests SlowStart makes at the same time.
const maxBatch = 500

// SlowStart calls create with 0 to n-1 in batches of 1, 2, 4, … parallel calls. It stops after a batch with an error and returns it:
// most likely all would fail.
func SlowStart(ctx context.Context, n int, create func(i int) error) error {
	for done, batch := 0, min(1, n); batch > 0; batch = min(2*batch, n-done, maxBatch) {
		first := done
		if err := firstOf(InParallel(ctx, batch, func(i int) error { return create(first + i) })); err != nil {
			return err
		}
		done += batch
	}
	return nil
}

// InParallel calls do with 0 to n-1 at the same time, in a turn one after another, and returns the errors in that order.
func InParallel(ctx context.Context, n int, do func(i int) error) []error {
	errs := make([]error, n)
	var all errgroup.Group
	all.SetLimit(clock.AtOnce(ctx, n))
	for i := range n {
		all.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = all.Wait() // the errors are in errs
	return errs
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
