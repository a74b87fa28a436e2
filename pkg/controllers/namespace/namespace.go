// Package namespace holds the controller that deletes the content of namespaces.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Namespace deletes the content of the namespaces that are being deleted, and finalizes them once they are empty.
func Namespace(env controller.Env) reconcile.Loop {
	r := &namespace{client: env.Client, clock: env.Clock, namespaces: env.Caches.Namespaces(), features: env.Features}
	l := reconcile.Loop{
		Name:      "namespace",
		Sources:   []reconcile.Source{reconcile.Map(r.namespaces, r.deleting)},
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
	for _, n := range controller.DeletableResources(env.Features) {
		if !n.Cluster {
			l.Sources = append(l.Sources, r.lastObjectDeleted(client.CacheOf[objects.Object](env.Caches, n.GVR())))
		}
	}
	l.Sources = append(l.Sources, func(ctx context.Context, enqueue reconcile.Enqueue) {
		env.Custom.Follow(controller.KindFollower{
			Begin: func(k controller.CustomKind) {
				if !k.Cluster {
					r.lastObjectDeleted(k.Objects)(ctx, enqueue)
				}
			},
			End: func(controller.CustomKind, uint64) { r.enqueueDeleting(enqueue) },
		})
	})
	return l
}

type namespace struct {
	client     client.Client
	clock      clock.Clock
	namespaces *client.Cache[*corev1.Namespace]
	features   feature.Gates
}

// enqueueDeleting enqueues all namespaces that are being deleted: the last object of such a namespace may have been of a
// kind that was removed.
func (r *namespace) enqueueDeleting(enqueue reconcile.Enqueue) {
	for _, ns := range r.namespaces.List("", nil) {
		if ns.DeletionTimestamp != nil {
			enqueue(controller.KeyOf(ns), 0)
		}
	}
}

// deleting maps a change to the namespace if it is being deleted.
func (r *namespace) deleting(ch client.Change[*corev1.Namespace]) []objects.Key {
	if ch.Deleted() || ch.New.DeletionTimestamp == nil {
		return nil
	}
	return []objects.Key{ch.Key()}
}

// lastObjectDeleted returns a source of the namespaces being deleted in which the last object of a resource was deleted.
func (r *namespace) lastObjectDeleted(c *client.Cache[objects.Object]) reconcile.Source {
	return reconcile.Map(c, func(ch client.Change[objects.Object]) []objects.Key {
		if !ch.Deleted() {
			return nil
		}
		key := objects.Key{Name: ch.Old.GetNamespace()}
		ns, ok := r.namespaces.Get(key)
		if !ok || ns.DeletionTimestamp == nil || len(c.List(key.Name, nil)) > 0 {
			return nil
		}
		return []objects.Key{key}
	})
}

// recheck is how soon a namespace that still has content is looked at again.
const recheck = 2 * time.Second

func (r *namespace) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	obj, err := r.client.Get(ctx, client.In(client.Namespaces, key), metav1.GetOptions{})
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	ns := obj.(*corev1.Namespace)
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return 0, nil
	}
	left := r.deleteContent(ctx, ns.Name)
	if ns, err = r.writeStatus(ctx, ns, left); err != nil {
		return 0, err
	}
	if left.failed() {
		return 0, errors.Join(append(left.deletion, left.discovery)...)
	}
	if left.count() > 0 {
		return recheck, nil
	}
	next := ns.DeepCopy()
	next.Spec.Finalizers = slices.DeleteFunc(next.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	_, err = r.client.Update(ctx, client.In(client.Namespaces, key).Sub("finalize"), next, metav1.UpdateOptions{})
	return 0, controller.IgnoreNotFound(err)
}

// deleteContent deletes all objects of a namespace: first the pods, then the objects that they may have used.
func (r *namespace) deleteContent(ctx context.Context, name string) *remaining {
	left := &remaining{objects: map[schema.GroupVersionResource]int{}, finalizers: map[string]int{}}
	r.deleteAll(ctx, client.Target{Resource: client.Pods, Namespace: name}, left)
	if left.count() > 0 || left.failed() {
		return left
	}
	var resources []schema.GroupVersionResource
	resources, left.discovery = r.contents(ctx)
	for _, resource := range resources {
		if resource != client.Pods {
			r.deleteAll(ctx, client.Target{Resource: resource, Namespace: name}, left)
		}
	}
	r.addCorrupt(ctx, name, left)
	return left
}

// addCorrupt adds to left the objects of a namespace that the API server cannot decode. Lists leave them out. In Kubernetes they make the
// deletion fail, too: only an administrator may delete them.
func (r *namespace) addCorrupt(ctx context.Context, name string, left *remaining) {
	list, err := r.client.List(ctx, client.Target{Resource: minikctl.CorruptObjects}, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return // another API server
	}
	if err != nil {
		left.deletion = append(left.deletion, err)
		return
	}
	for _, obj := range list.Items {
		if c := obj.(*minikctl.CorruptObject); c.Namespace == name {
			left.deletion = append(left.deletion, fmt.Errorf("%s %q cannot be decoded: %s", c.Resource, c.Object, c.Message))
		}
	}
}

// contents returns the resources whose objects a namespace may have. It returns the built-in ones even with an error. The
// definitions come from the API server: a cache may not have the latest one yet, and nothing would enqueue the namespace for
// it.
func (r *namespace) contents(ctx context.Context) ([]schema.GroupVersionResource, error) {
	out := builtinContents(r.features)
	list, err := r.client.List(ctx, client.Target{Resource: controller.CustomResourceDefinitions}, metav1.ListOptions{})
	if err != nil {
		return out, fmt.Errorf("discover custom resources: %w", err)
	}
	for _, obj := range list.Items {
		if n, served := controller.ServedNames(obj.(*apiextensionsv1.CustomResourceDefinition)); served && !n.Cluster {
			out = append(out, n.GVR())
		}
	}
	return out, nil
}

// builtinContents returns the built-in namespaced resources that can be deleted as a collection.
func builtinContents(g feature.Gates) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, r := range builtin.ResourcesWith(g) {
		if !r.Names.Cluster && slices.Contains(r.Verbs, "deletecollection") {
			out = append(out, r.Names.GVR())
		}
	}
	return out
}

// deleteAll deletes the objects of one resource in a namespace, and adds to left those that remain, or the error.
func (r *namespace) deleteAll(ctx context.Context, t client.Target, left *remaining) {
	items, err := r.deleteCollection(ctx, t)
	if apierrors.IsNotFound(err) {
		return // the resource is no longer served
	}
	if err != nil {
		left.deletion = append(left.deletion, err)
		return
	}
	if len(items) > 0 {
		left.objects[t.Resource] = len(items)
	}
	for _, obj := range items {
		for _, f := range obj.GetFinalizers() {
			left.finalizers[f]++
		}
	}
}

// deleteCollection deletes the objects of one resource in a namespace and returns those that remain.
func (r *namespace) deleteCollection(ctx context.Context, t client.Target) ([]objects.Object, error) {
	list, err := r.client.List(ctx, t, metav1.ListOptions{})
	if err != nil || !slices.ContainsFunc(list.Items, func(o objects.Object) bool { return o.GetDeletionTimestamp() == nil }) {
		return list.Items, err
	}
	background := metav1.DeletePropagationBackground
	all := t
	all.All = true
	if _, err = r.client.Delete(ctx, all, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return nil, err
	}
	list, err = r.client.List(ctx, t, metav1.ListOptions{})
	return list.Items, err
}

// writeStatus writes the phase Terminating and the conditions of the deletion, and returns the namespace as stored.
func (r *namespace) writeStatus(ctx context.Context, ns *corev1.Namespace, left *remaining) (*corev1.Namespace, error) {
	next := ns.DeepCopy()
	next.Status.Phase = corev1.NamespaceTerminating
	changed := ns.Status.Phase != corev1.NamespaceTerminating
	for _, c := range left.conditions() {
		changed = setCondition(&next.Status, c, r.clock.Now()) || changed
	}
	if !changed {
		return ns, nil
	}
	t := client.Target{Resource: client.Namespaces, Name: ns.Name, Subresource: "status"}
	out, err := r.client.Update(ctx, t, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return out.(*corev1.Namespace), nil
}
