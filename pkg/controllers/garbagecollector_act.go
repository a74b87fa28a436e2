package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// foreground lets an object go once nothing that blocks it is left, and else sees to its dependents.
func (g *garbageCollector) foreground(ctx context.Context, f found) error {
	blocked := false
	for _, dep := range g.dependentsOf(f.obj.GetUID()) {
		blocked = blocked || blocks(dep.obj, f.obj.GetUID())
		if dep.obj.GetDeletionTimestamp() == nil {
			g.wake(uidKey(dep.obj.GetUID()), 0)
		}
	}
	if blocked {
		return nil // the last of them to go wakes us
	}
	return g.dropFinalizer(ctx, f, metav1.FinalizerDeleteDependents)
}

// blocks reports whether a dependent insists on going before its owner.
func blocks(dep metav1.Object, owner types.UID) bool {
	return slices.ContainsFunc(dep.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// orphan takes an object's dependents from it and lets it go.
func (g *garbageCollector) orphan(ctx context.Context, f found) error {
	deps, err := g.dependentsNow(ctx, f.obj)
	errs := []error{err}
	for _, dep := range deps {
		errs = append(errs, g.dropOwners(ctx, dep, []types.UID{f.obj.GetUID()}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return g.dropFinalizer(ctx, f, metav1.FinalizerOrphanDependents)
}

// dependentsNow returns an object's dependents as the server has them. A dependent that a cache does not show yet would go
// with its owner instead of being left.
func (g *garbageCollector) dependentsNow(ctx context.Context, owner objects.Object) ([]found, error) {
	g.looked.RLock()
	kinds := slices.Clone(g.watched)
	g.looked.RUnlock()
	var out []found
	for _, k := range kinds {
		if k.Cluster && owner.GetNamespace() != "" {
			continue // owned by what has no namespace
		}
		list, err := g.client.List(ctx, client.Target{Resource: k.GVR(), Namespace: owner.GetNamespace()}, metav1.ListOptions{})
		items := list.Items
		switch {
		case apierrors.IsNotFound(err): // not served any more
		case err != nil && listed(k.objects):
			items = k.objects.ByIndex(dependents, string(owner.GetUID())) // one kind that cannot be read must not hold up all others
		case err != nil:
			return nil, err
		}
		for _, obj := range items {
			if slices.Contains(ownerUIDs(obj), string(owner.GetUID())) {
				out = append(out, found{obj, k.GVR()})
			}
		}
	}
	return out, nil
}

// breakCircles makes f no longer block its owners when one of its dependents waits for its own: they may be waiting for
// each other. It returns f as it is then, without an object when it is gone.
func (g *garbageCollector) breakCircles(ctx context.Context, f found) (found, error) {
	if !slices.ContainsFunc(g.dependentsOf(f.obj.GetUID()), func(dep found) bool { return inForeground(dep.obj) }) {
		return f, nil
	}
	refs := slices.Clone(f.obj.GetOwnerReferences())
	changed := false
	for i := range refs {
		if b := refs[i].BlockOwnerDeletion; b != nil && *b {
			refs[i].BlockOwnerDeletion, changed = new(bool), true
		}
	}
	if !changed {
		return f, nil
	}
	out, err := g.patch(ctx, f, types.MergePatchType, map[string]any{"ownerReferences": refs, "resourceVersion": f.obj.GetResourceVersion()})
	return found{out, f.resource}, err
}

// dropOwners takes owners out of an object's references.
func (g *garbageCollector) dropOwners(ctx context.Context, f found, owners []types.UID) error {
	if len(owners) == 0 {
		return nil
	}
	drop := make([]map[string]any, len(owners))
	for i, uid := range owners {
		drop[i] = map[string]any{"$patch": "delete", "uid": uid}
	}
	_, err := g.patch(ctx, f, types.StrategicMergePatchType, map[string]any{"ownerReferences": drop, "uid": f.obj.GetUID()})
	if !apierrors.IsUnsupportedMediaType(err) {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(f.obj.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		return slices.Contains(owners, ref.UID)
	})
	_, err = g.patch(ctx, f, types.MergePatchType, map[string]any{"ownerReferences": kept, "resourceVersion": f.obj.GetResourceVersion()})
	return err
}

// dropFinalizer looks at the object on the server and takes the finalizer from it.
func (g *garbageCollector) dropFinalizer(ctx context.Context, f found, finalizer string) error {
	latest, err := g.client.Get(ctx, f.target(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (latest.GetUID() != f.obj.GetUID() || !has(latest, finalizer)) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(latest.GetFinalizers()), func(s string) bool { return s == finalizer })
	_, err = g.patch(ctx, f, types.MergePatchType, map[string]any{"finalizers": kept, "resourceVersion": latest.GetResourceVersion()})
	return err
}

// patch changes an object's metadata and returns it; nothing, when it is gone.
func (g *garbageCollector) patch(ctx context.Context, f found, kind types.PatchType, metadata map[string]any) (objects.Object, error) {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	out, err := g.client.Patch(ctx, f.target(), client.Patch{Type: kind, Data: data}, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.(objects.Object), nil
}

// delete deletes the very version of an object that was judged.
func (g *garbageCollector) delete(ctx context.Context, f found, policy metav1.DeletionPropagation) error {
	uid, version := f.obj.GetUID(), f.obj.GetResourceVersion()
	_, err := g.client.Delete(ctx, f.target(), metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
