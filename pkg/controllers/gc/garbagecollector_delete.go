package gc

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// deleteInForeground removes the finalizer foregroundDeletion from an object without blocking dependents. Otherwise it
// enqueues the dependents, which are then deleted because their owner waits.
func (g *garbageCollector) deleteInForeground(ctx context.Context, i item) error {
	blocked := false
	for _, dep := range g.dependentsOf(i.GetUID()) {
		blocked = blocked || blocks(dep, i.GetUID())
		if dep.GetDeletionTimestamp() == nil {
			g.enqueue(uidKey(dep.GetUID()), 0)
		}
	}
	if blocked {
		return nil // the deletion of the last dependent enqueues the owner
	}
	return g.removeFinalizer(ctx, i, metav1.FinalizerDeleteDependents)
}

// blocks reports whether a dependent blocks the foreground deletion of its owner.
func blocks(dep metav1.Object, owner types.UID) bool {
	return slices.ContainsFunc(dep.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// orphanDependents removes an object from the owner references of its dependents, and then its finalizer orphan.
func (g *garbageCollector) orphanDependents(ctx context.Context, i item) error {
	deps, err := g.liveDependents(ctx, i)
	errs := []error{err}
	for _, dep := range deps {
		errs = append(errs, g.removeOwners(ctx, dep, []types.UID{i.GetUID()}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return g.removeFinalizer(ctx, i, metav1.FinalizerOrphanDependents)
}

// liveDependents returns the dependents of an object as the API server has them. A dependent that a cache does not have yet
// would be deleted with its owner instead of being orphaned.
func (g *garbageCollector) liveDependents(ctx context.Context, owner objects.Object) ([]item, error) {
	g.monitorsMu.RLock()
	monitors := slices.Clone(g.monitors)
	g.monitorsMu.RUnlock()
	var out []item
	for _, m := range monitors {
		if m.Cluster && owner.GetNamespace() != "" {
			continue // a namespaced object can't own cluster-scoped ones
		}
		list, err := g.client.List(ctx, client.Target{Resource: m.GVR(), Namespace: owner.GetNamespace()}, metav1.ListOptions{})
		items := list.Items
		switch {
		case apierrors.IsNotFound(err): // no longer served
		case err != nil && controller.HasSynced(m.objects):
			items = m.objects.ByIndex(byOwner, string(owner.GetUID())) // one kind that can't be read must not stop all deletions
		case err != nil:
			return nil, err
		}
		for _, obj := range items {
			if slices.Contains(ownerUIDs(obj), string(owner.GetUID())) {
				out = append(out, item{obj, m.GVR()})
			}
		}
	}
	return out, nil
}

// unblockCircles removes blockOwnerDeletion from the references of an object that has a dependent in foreground deletion:
// the two may wait for each other. It returns the changed object, and an item without object if it is gone.
func (g *garbageCollector) unblockCircles(ctx context.Context, i item) (item, error) {
	if !slices.ContainsFunc(g.dependentsOf(i.GetUID()), func(dep item) bool { return inForegroundDeletion(dep) }) {
		return i, nil
	}
	refs := slices.Clone(i.GetOwnerReferences())
	changed := false
	for n := range refs {
		if b := refs[n].BlockOwnerDeletion; b != nil && *b {
			refs[n].BlockOwnerDeletion, changed = new(bool), true
		}
	}
	if !changed {
		return i, nil
	}
	out, err := g.patch(ctx, i, types.MergePatchType, map[string]any{"ownerReferences": refs, "resourceVersion": i.GetResourceVersion()})
	return item{out, i.resource}, err
}

// removeOwners removes owners from an object's references. A merge patch does it for custom objects, which have no strategic
// merge patch.
func (g *garbageCollector) removeOwners(ctx context.Context, i item, owners []types.UID) error {
	if len(owners) == 0 {
		return nil
	}
	drop := make([]map[string]any, len(owners))
	for n, uid := range owners {
		drop[n] = map[string]any{"$patch": "delete", "uid": uid}
	}
	_, err := g.patch(ctx, i, types.StrategicMergePatchType, map[string]any{"ownerReferences": drop, "uid": i.GetUID()})
	if !apierrors.IsUnsupportedMediaType(err) {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(i.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		return slices.Contains(owners, ref.UID)
	})
	_, err = g.patch(ctx, i, types.MergePatchType, map[string]any{"ownerReferences": kept, "resourceVersion": i.GetResourceVersion()})
	return err
}

// removeFinalizer reads an object from the API server and removes a finalizer.
func (g *garbageCollector) removeFinalizer(ctx context.Context, i item, finalizer string) error {
	latest, err := g.client.Get(ctx, i.target(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (latest.GetUID() != i.GetUID() || !hasFinalizer(latest, finalizer)) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(latest.GetFinalizers()), func(s string) bool { return s == finalizer })
	_, err = g.patch(ctx, i, types.MergePatchType, map[string]any{"finalizers": kept, "resourceVersion": latest.GetResourceVersion()})
	return err
}

// patch changes an object's metadata and returns the object, nil if it is gone.
func (g *garbageCollector) patch(ctx context.Context, i item, kind types.PatchType, metadata map[string]any) (objects.Object, error) {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	out, err := g.client.Patch(ctx, i.target(), client.Patch{Type: kind, Data: data}, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.(objects.Object), nil
}

// delete deletes an object if it still has the UID and the resourceVersion of i.
func (g *garbageCollector) delete(ctx context.Context, i item, policy metav1.DeletionPropagation) error {
	uid, version := i.GetUID(), i.GetResourceVersion()
	_, err := g.client.Delete(ctx, i.target(), metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	return controller.IgnoreNotFound(err)
}
