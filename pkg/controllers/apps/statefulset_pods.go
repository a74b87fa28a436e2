package apps

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// createStatefulPod creates a pod after its claims.
func (r *statefulSet) createStatefulPod(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	if err := r.createClaims(ctx, set, p); err != nil {
		r.recordPod(ctx, set, p, "Create", err)
		return err
	}
	t := client.Target{Resource: client.Pods, Namespace: p.Namespace}
	out, err := r.client.Create(ctx, t, p.DeepCopy(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return err // the cache is behind, or another pod has the name
	}
	if err == nil {
		r.pods.Put(out.(*corev1.Pod))
	}
	if retainErr := r.retainClaims(ctx, set, p); retainErr != nil {
		r.recordPod(ctx, set, p, "Update", retainErr)
		return retainErr
	}
	r.recordPod(ctx, set, p, "Create", err)
	return err
}

// deleteStatefulPod deletes a pod.
func (r *statefulSet) deleteStatefulPod(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
	out, err := r.client.Delete(ctx, client.In(client.Pods, controller.KeyOf(p)), opts)
	switch {
	case apierrors.IsConflict(err):
		return nil // another pod has the name
	case apierrors.IsNotFound(err):
		r.pods.Drop(p)
		err = nil
	case err == nil: // without the change in the cache, the next sync would delete it again
		if last, ok := out.(*corev1.Pod); ok && !controller.IsPodRemoved(last) {
			r.pods.Put(last)
		} else {
			r.pods.Drop(p)
		}
	}
	r.recordPod(ctx, set, p, "Delete", err)
	return err
}

// updateStatefulPod updates the identity and the volumes of a pod, and the owners of its claims.
func (r *statefulSet) updateStatefulPod(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	next := p.DeepCopy()
	if !identityMatches(set, next) {
		setIdentity(set, next)
	}
	if !storageMatches(set, next) {
		setStorage(set, next)
		if err := r.createClaims(ctx, set, next); err != nil {
			r.recordPod(ctx, set, p, "Update", err)
			return err
		}
	}
	if err := r.retainClaims(ctx, set, next); err != nil {
		r.recordPod(ctx, set, p, "Update", err)
		return err
	}
	out, err := r.client.Update(ctx, client.In(client.Pods, controller.KeyOf(next)), next, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return err // the next sync has a newer pod
	}
	if err == nil {
		r.pods.Put(out.(*corev1.Pod))
	}
	r.recordPod(ctx, set, p, "Update", err)
	return err
}

// claimReader returns a function that reads the claims of the set's namespace.
func (r *statefulSet) claimReader(set *appsv1.StatefulSet) claimReader {
	return func(name string) *corev1.PersistentVolumeClaim {
		c, _ := r.claims.Get(objects.Key{Namespace: set.Namespace, Name: name})
		return c
	}
}

// createMissingClaims creates the claims of a pod that exists, and sets their owners.
func (r *statefulSet) createMissingClaims(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	if err := r.createClaims(ctx, set, p); err != nil {
		return err
	}
	err := r.retainClaims(ctx, set, p)
	if err != nil {
		r.recordPod(ctx, set, p, "Update", err)
	}
	return err
}

// createClaims creates the claims of a pod that don't exist yet.
func (r *statefulSet) createClaims(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	read := r.claimReader(set)
	var errs []error
	for _, c := range claimsFor(set, p) {
		name := c.Name
		if existing := read(name); existing != nil {
			if existing.DeletionTimestamp != nil {
				errs = append(errs, fmt.Errorf("pvc %s is being deleted", name))
			}
			continue
		}
		t := client.Target{Resource: client.PersistentVolumeClaims, Namespace: c.Namespace}
		out, err := r.client.Create(ctx, t, c, metav1.CreateOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("failed to create PVC %s: %w", name, err))
		} else {
			r.claims.Put(out.(*corev1.PersistentVolumeClaim))
		}
		if !apierrors.IsAlreadyExists(err) {
			r.recordClaim(ctx, set, p, name, err)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// retainClaims sets the owners of a pod's claims according to the retention policy.
func (r *statefulSet) retainClaims(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod) error {
	read := r.claimReader(set)
	for _, t := range set.Spec.VolumeClaimTemplates {
		name := claimName(set, t.Name, ordinalOf(p))
		c := read(name)
		if c == nil {
			continue // created with the next sync
		}
		if hasForeignController(c, set, p) {
			r.events.Event(ctx, set, corev1.EventTypeWarning, "ConflictingController", fmt.Sprintf(
				"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, "+
					"the retention policy is ignored for this claim", name))
		}
		if retentionMatches(c, set, p) {
			continue
		}
		out, err := r.client.Update(ctx, client.In(client.PersistentVolumeClaims, controller.KeyOf(c)), withRetention(c, set, p), metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", name, err)
		}
		r.claims.Put(out.(*corev1.PersistentVolumeClaim))
	}
	return nil
}

// recordPod records an event about what was done with a pod: Create, Update or Delete.
func (r *statefulSet) recordPod(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod, verb string, err error) {
	if err != nil {
		msg := fmt.Sprintf("%s Pod %s in StatefulSet %s failed error: %v", verb, p.Name, set.Name, err)
		r.events.Event(ctx, set, corev1.EventTypeWarning, "Failed"+verb, msg)
		return
	}
	r.events.Event(ctx, set, corev1.EventTypeNormal, "Successful"+verb, fmt.Sprintf("%s Pod %s in StatefulSet %s successful", verb, p.Name, set.Name))
}

// recordClaim records an event about the creation of a claim.
func (r *statefulSet) recordClaim(ctx context.Context, set *appsv1.StatefulSet, p *corev1.Pod, name string, err error) {
	if err != nil {
		msg := fmt.Sprintf("Create Claim %s for Pod %s in StatefulSet %s failed error: %v", name, p.Name, set.Name, err)
		r.events.Event(ctx, set, corev1.EventTypeWarning, "FailedCreate", msg)
		return
	}
	r.events.Event(ctx, set, corev1.EventTypeNormal, "SuccessfulCreate", fmt.Sprintf("Create Claim %s Pod %s in StatefulSet %s success", name, p.Name, set.Name))
}
