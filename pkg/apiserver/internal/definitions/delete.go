package definitions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// The intervals at which the deletion of a definition's objects is checked, at first and later, and the time after which the
// condition reports it as slow.
const (
	firstCheckInterval = 20 * time.Millisecond
	laterCheckInterval = 5 * time.Second
	slowAfter          = time.Minute
)

// isTerminating reports whether a definition waits for its objects to be removed.
func isTerminating(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.DeletionTimestamp != nil && apihelpers.CRDHasFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer)
}

// markTerminating records whether a definition is being deleted, so that Admit refuses new objects.
func (r *Registrar) markTerminating(crd *apiextensionsv1.CustomResourceDefinition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if isTerminating(crd) || conditionTrue(crd, apiextensionsv1.Terminating) {
		r.terminating[resourceOf(crd)] = true
	} else {
		delete(r.terminating, resourceOf(crd))
	}
}

// Admit refuses new objects of a kind whose definition is being deleted.
func (r *Registrar) Admit(_ context.Context, a *stage.Admission) error {
	if a.Operation != stage.Create || a.Resource == nil || !a.Resource.Custom() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminating[a.Resource.Names.GR()] {
		return errors.New("create not allowed while custom resource definition is terminating")
	}
	return nil
}

// finish deletes the objects of a definition that is being deleted, then removes its finalizer.
// work counts it until it has to wait for others for longer.
func (r *Registrar) finish(ctx context.Context, work *clock.Work, crd *apiextensionsv1.CustomResourceDefinition) {
	defer work.End()
	rank := clock.Rank{Part: "deletion of a definition", Key: crd.Name}
	for wait := firstCheckInterval; ctx.Err() == nil; wait = min(2*wait, laterCheckInterval) {
		turn, end := clock.TakeTurn(ctx, r.config.Clock, rank)
		done, err := r.finishOnce(turn, crd)
		end()
		if done {
			return
		}
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "remove the objects of a definition", "name", crd.Name, "err", err)
		}
		if rank.Class == clock.Regular && clock.InTurns(r.config.Clock) {
			rank.Class = clock.Retry
			continue
		}
		work.End() // the objects' finalizers may stay for any time
		if clock.Sleep(ctx, r.machine, wait) != nil {
			return
		}
	}
}

// finishOnce runs all steps once. done means that nothing is left.
func (r *Registrar) finishOnce(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (done bool, err error) {
	now, err := r.current(ctx, crd)
	if now == nil {
		return err == nil, err
	}
	outcome := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: "NeverEstablished", Message: "resource was never established",
	}
	if conditionTrue(now, apiextensionsv1.Established) {
		r.set(now, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
			Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
		})
		if now, err = r.update(ctx, now); err != nil {
			return false, ignoreRace(err)
		}
		if outcome, err = r.removeObjects(ctx, now); err != nil {
			r.set(now, outcome)
			_, updateErr := r.update(ctx, now)
			return false, errors.Join(err, ignoreRace(updateErr))
		}
	}
	r.set(now, outcome)
	apihelpers.CRDRemoveFinalizer(now, apiextensionsv1.CustomResourceCleanupFinalizer)
	_, err = r.update(ctx, now)
	return err == nil || apierrors.IsNotFound(err), ignoreRace(err)
}

// current returns a copy of the stored definition; nil when it is no longer being deleted.
func (r *Registrar) current(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	obj, err := r.config.Client.Get(ctx, target(crd), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || now.UID != crd.UID || !isTerminating(now) {
		return nil, nil
	}
	return now.DeepCopy(), nil
}

// ignoreRace drops the error of a conflicting write, which is tried again.
func ignoreRace(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (r *Registrar) update(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	out, err := r.config.Client.Update(ctx, target(crd).Sub("status"), crd, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	stored, ok := out.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("the status of %s came back as %T", crd.Name, out)
	}
	return stored.DeepCopy(), nil
}

// removeObjects deletes all objects of a definition and waits until they are gone. It returns the condition.
func (r *Registrar) removeObjects(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (apiextensionsv1.CustomResourceDefinitionCondition, error) {
	failed := func(reason, format string, err error) (apiextensionsv1.CustomResourceDefinitionCondition, error) {
		return apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: reason, Message: fmt.Sprintf(format, err),
		}, err
	}
	all := client.Target{Resource: resourceOf(crd).WithVersion(storageVersion(crd))}
	list, err := r.config.Client.List(ctx, all, metav1.ListOptions{})
	if err != nil {
		return failed("InstanceDeletionFailed", "could not list instances: %v", err)
	}
	namespaces := sets.New[string]()
	for _, obj := range list.Items {
		namespaces.Insert(obj.GetNamespace())
	}
	var errs []error
	for _, ns := range sets.List(namespaces) {
		t := all
		t.Namespace, t.All = ns, true
		if _, err := r.config.Client.Delete(ctx, t, metav1.DeleteOptions{}); err != nil {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return failed("InstanceDeletionFailed", "could not issue all deletes: %v", err)
	}
	if err := r.awaitNone(ctx, all); err != nil {
		return failed("InstanceDeletionCheck", "could not confirm zero CustomResources remaining: %v", err)
	}
	return apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: "InstanceDeletionCompleted", Message: "removed all instances",
	}, nil
}

// storageVersion is the version in which the objects of a definition are stored. It need not be served.
func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return "" // validation requires one
}

func (r *Registrar) awaitNone(ctx context.Context, all client.Target) error {
	end, yield := r.machine.Now().Add(slowAfter), true
	for wait := firstCheckInterval; ; wait = min(2*wait, laterCheckInterval) {
		list, err := r.config.Client.List(ctx, all, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return nil
		}
		if r.machine.Now().After(end) {
			return context.DeadlineExceeded
		}
		if clock.InTurns(r.config.Clock) {
			if !yield || !clock.YieldTurn(ctx) {
				return context.DeadlineExceeded
			}
			yield = false
			continue
		}
		if err := clock.Sleep(ctx, r.machine, wait); err != nil {
			return err
		}
	}
}
