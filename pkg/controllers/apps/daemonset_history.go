package apps

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/apps/internal/history"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// claimer returns what adopts and releases the objects of a resource for a DaemonSet.
func (r *daemonSet) claimer(set *appsv1.DaemonSet, resource schema.GroupVersionResource) *controller.Claimer {
	return &controller.Claimer{Client: r.client, Resource: resource, Owner: set, Kind: daemonSetKind, Owners: client.DaemonSets}
}

// constructHistory returns the revision of the current template, which it creates if it is missing, and the revisions of earlier ones,
// sorted by number. The current revision gets the highest number.
func (r *daemonSet) constructHistory(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) (current *appsv1.ControllerRevision, old []*appsv1.ControllerRevision, err error) {
	all, err := controller.Claim(ctx, r.claimer(set, client.ControllerRevisions), selector, r.revisions.Candidates(set), r.revisions.Put)
	if err != nil {
		return nil, nil, err
	}
	data, err := history.Patch(&set.Spec.Template)
	if err != nil {
		return nil, nil, err
	}
	var same []*appsv1.ControllerRevision
	for _, rev := range all {
		if rev, err = r.label(ctx, rev); err != nil {
			return nil, nil, err
		}
		if bytes.Equal(rev.Data.Raw, data) {
			same = append(same, rev)
		} else {
			old = append(old, rev)
		}
	}
	history.Sort(old)
	history.Sort(same)
	next := history.Next(old)
	if len(same) == 0 {
		current, err = r.snapshot(ctx, set, data, next)
		return current, old, err
	}
	if current, err = r.dedup(ctx, set, selector, same); err == nil && current.Revision < next {
		current, err = r.revisions.Renumber(ctx, current, next)
	}
	return current, old, err
}

// label adds the label with the hash to a revision that has none. Its name serves as one: it is unique.
func (r *daemonSet) label(ctx context.Context, rev *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if _, ok := rev.Labels[hashLabel]; ok {
		return rev, nil
	}
	next := rev.DeepCopy()
	metav1.SetMetaDataLabel(&next.ObjectMeta, hashLabel, rev.Name)
	return r.revisions.Update(ctx, next)
}

// dedup returns the newest of the sorted revisions of one template. It gives the pods of the others its hash and deletes the others.
func (r *daemonSet) dedup(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, same []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	last := len(same) - 1
	kept := same[last]
	if last == 0 {
		return kept, nil
	}
	pods, err := r.claim(ctx, set, selector)
	if err != nil {
		return nil, err
	}
	hash := kept.Labels[hashLabel]
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{hashLabel: hash}}})
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		if p.Labels[hashLabel] == hash {
			continue
		}
		if !slices.ContainsFunc(same, func(rev *appsv1.ControllerRevision) bool { return rev.Labels[hashLabel] == p.Labels[hashLabel] }) {
			continue
		}
		out, err := r.client.Patch(ctx, client.In(client.Pods, controller.KeyOf(p)), client.Patch{Type: types.MergePatchType, Data: patch}, metav1.PatchOptions{})
		if err != nil {
			return nil, err
		}
		r.pods.Put(out.(*corev1.Pod))
	}
	return kept, r.revisions.Delete(ctx, same[:last]...)
}

// snapshot creates the revision of the current template. If a revision of another template has its name, the DaemonSet's
// collisionCount is incremented, and the error makes the next sync use another name.
func (r *daemonSet) snapshot(ctx context.Context, set *appsv1.DaemonSet, data []byte, number int64) (*appsv1.ControllerRevision, error) {
	hash := templateHash(&set.Spec.Template, set.Status.CollisionCount)
	rev := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + hash, Namespace: set.Namespace,
			Labels: maps.Clone(set.Spec.Template.Labels), Annotations: maps.Clone(set.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, daemonSetKind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
	metav1.SetMetaDataLabel(&rev.ObjectMeta, hashLabel, hash)
	t := client.In(client.ControllerRevisions, controller.KeyOf(rev))
	out, createErr := r.client.Create(ctx, client.Target{Resource: t.Resource, Namespace: t.Namespace}, rev, metav1.CreateOptions{})
	if createErr == nil {
		created := out.(*appsv1.ControllerRevision)
		r.revisions.Put(created)
		return created, nil
	}
	if !apierrors.IsAlreadyExists(createErr) {
		return nil, createErr
	}
	existing, err := r.client.Get(ctx, t, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if e := existing.(*appsv1.ControllerRevision); bytes.Equal(e.Data.Raw, data) {
		return e, nil
	}
	return nil, r.countCollision(ctx, set, createErr)
}

// countCollision increments the collisionCount of a DaemonSet, unless the cache was out of date. It returns cause or the error of the
// update.
func (r *daemonSet) countCollision(ctx context.Context, set *appsv1.DaemonSet, cause error) error {
	t := client.In(client.DaemonSets, controller.KeyOf(set))
	obj, err := r.client.Get(ctx, t, metav1.GetOptions{})
	if err != nil {
		return err
	}
	fresh := obj.(*appsv1.DaemonSet).DeepCopy()
	if !reflect.DeepEqual(fresh.Status.CollisionCount, set.Status.CollisionCount) {
		return fmt.Errorf("the collisionCount of DaemonSet %s is out of date in the cache", set.Name)
	}
	if fresh.Status.CollisionCount == nil {
		fresh.Status.CollisionCount = new(int32)
	}
	*fresh.Status.CollisionCount++
	out, err := r.client.Update(ctx, t.Sub("status"), fresh, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.sets.Put(out.(*appsv1.DaemonSet))
	return cause
}

// cleanUpHistory deletes the oldest revisions beyond the limit, except those with pods.
func (r *daemonSet) cleanUpHistory(ctx context.Context, s *daemonSync, old []*appsv1.ControllerRevision) error {
	if err := r.revisions.Delete(ctx, excessRevisions(old, s.pods, int(*s.set.Spec.RevisionHistoryLimit))...); err != nil {
		return fmt.Errorf("delete old revisions: %w", err)
	}
	return nil
}

// excessRevisions returns the oldest of the sorted revisions without pods, as many as there are revisions beyond the limit.
func excessRevisions(old []*appsv1.ControllerRevision, pods []*corev1.Pod, limit int) []*appsv1.ControllerRevision {
	excess := len(old) - limit
	if excess <= 0 {
		return nil
	}
	live := map[string]bool{}
	for _, p := range pods {
		live[p.Labels[hashLabel]] = true
	}
	unused := slices.DeleteFunc(slices.Clone(old), func(rev *appsv1.ControllerRevision) bool { return live[rev.Labels[hashLabel]] })
	return unused[:min(excess, len(unused))]
}
