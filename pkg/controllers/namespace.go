package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Namespace empties the namespaces that are being deleted, and lets them go when they are empty.
func Namespace(env Env) reconcile.Loop {
	r := &namespace{client: env.Client, clock: env.Clock, namespaces: env.Caches.Namespaces()}
	l := reconcile.Loop{
		Name:      "namespace",
		Sources:   []reconcile.Source{reconcile.Map(r.namespaces, r.deleting)},
		Reconcile: r.reconcile,
		Workers:   some,
	}
	for _, n := range collected() {
		if !n.Cluster {
			l.Sources = append(l.Sources, r.emptied(client.CacheOf[objects.Object](env.Caches, n.GVR())))
		}
	}
	l.Sources = append(l.Sources, func(ctx context.Context, wake reconcile.Enqueue) {
		env.custom.follow(kindFollower{
			begin: func(k customKind) {
				if !k.Cluster {
					r.emptied(k.objects)(ctx, wake)
				}
			},
			end: func(customKind, bool) { r.wakeDeleting(wake) },
		})
	})
	return l
}

type namespace struct {
	client     client.Client
	clock      clock.Clock
	namespaces *client.Cache[*corev1.Namespace]
}

// wakeDeleting wakes for all namespaces that are being deleted: what kept one of them may be gone.
func (r *namespace) wakeDeleting(wake reconcile.Enqueue) {
	for _, ns := range r.namespaces.List("", nil) {
		if ns.DeletionTimestamp != nil {
			wake(keyOf(ns), 0)
		}
	}
}

func (r *namespace) deleting(ch client.Change[*corev1.Namespace]) []objects.Key {
	if ch.Deleted() || ch.New.DeletionTimestamp == nil {
		return nil
	}
	return []objects.Key{ch.Key()}
}

// emptied wakes for a namespace, being deleted, that the last object of a resource has left.
func (r *namespace) emptied(c *client.Cache[objects.Object]) reconcile.Source {
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

// lookAgain is how soon a namespace that could not be emptied is looked at again.
const lookAgain = 2 * time.Second

func (r *namespace) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	obj, err := r.client.Get(ctx, client.In(client.Namespaces, key), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	ns := obj.(*corev1.Namespace)
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return 0, nil
	}
	left := r.empty(ctx, ns.Name)
	if ns, err = r.writeStatus(ctx, ns, left); err != nil {
		return 0, err
	}
	if left.err != nil {
		return 0, left.err
	}
	if left.count() > 0 {
		return lookAgain, nil
	}
	next := ns.DeepCopy()
	next.Spec.Finalizers = slices.DeleteFunc(next.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	_, err = r.client.Update(ctx, client.In(client.Namespaces, key).Sub("finalize"), next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}

// leftovers is what is still in a namespace after everything in it was told to go.
type leftovers struct {
	objects    map[schema.GroupVersionResource]int
	finalizers map[string]int
	err        error
}

func (l leftovers) count() (n int) {
	for _, c := range l.objects {
		n += c
	}
	return n
}

// empty deletes everything in a namespace: first the pods, and once they are gone the rest.
func (r *namespace) empty(ctx context.Context, name string) leftovers {
	left := leftovers{objects: map[schema.GroupVersionResource]int{}, finalizers: map[string]int{}}
	var errs []error
	clear := func(resource schema.GroupVersionResource) {
		if err := r.clear(ctx, client.Target{Resource: resource, Namespace: name}, left); err != nil {
			errs = append(errs, err)
		}
	}
	clear(client.Pods)
	if left.count() == 0 && len(errs) == 0 {
		resources, err := r.contents(ctx)
		if err != nil {
			errs = append(errs, err)
		}
		for _, resource := range resources {
			if resource != client.Pods {
				clear(resource)
			}
		}
	}
	left.err = errors.Join(errs...)
	return left
}

// contents returns the resources that a namespace is emptied of. The server is asked for custom ones: a cache might not know
// the latest yet, and nobody would look again.
func (r *namespace) contents(ctx context.Context) ([]schema.GroupVersionResource, error) {
	out := contents()
	list, err := r.client.List(ctx, client.Target{Resource: definitions}, metav1.ListOptions{})
	if err != nil {
		return out, fmt.Errorf("find custom resources: %w", err)
	}
	for _, obj := range list.Items {
		if n, served := servedNames(obj.(*apiextensionsv1.CustomResourceDefinition)); served && !n.Cluster {
			out = append(out, n.GVR())
		}
	}
	return out, nil
}

// clear deletes the objects of one resource and notes those that stay.
func (r *namespace) clear(ctx context.Context, t client.Target, left leftovers) error {
	background := metav1.DeletePropagationBackground
	list, err := r.client.List(ctx, t, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // not served any more
	}
	if err != nil || len(list.Items) == 0 {
		return err
	}
	if slices.ContainsFunc(list.Items, func(o objects.Object) bool { return o.GetDeletionTimestamp() == nil }) {
		all := t
		all.All = true
		if _, err = r.client.Delete(ctx, all, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			return err
		}
		if list, err = r.client.List(ctx, t, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	if len(list.Items) > 0 {
		left.objects[t.Resource] = len(list.Items)
	}
	for _, obj := range list.Items {
		for _, f := range obj.GetFinalizers() {
			left.finalizers[f]++
		}
	}
	return nil
}

// writeStatus notes what is left in the namespace's conditions and returns it as stored.
func (r *namespace) writeStatus(ctx context.Context, ns *corev1.Namespace, left leftovers) (*corev1.Namespace, error) {
	next := ns.DeepCopy()
	next.Status.Phase = corev1.NamespaceTerminating
	changed := ns.Status.Phase != corev1.NamespaceTerminating
	for _, c := range namespaceConditions(left) {
		changed = putNamespaceCondition(&next.Status, c, r.clock.Now()) || changed
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

// namespaceConditions says how far the deletion has come.
func namespaceConditions(left leftovers) []corev1.NamespaceCondition {
	fine := func(kind corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	out := []corev1.NamespaceCondition{
		fine(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered"),
		fine(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions", "All legacy kube types successfully parsed"),
		fine(corev1.NamespaceDeletionContentFailure, "ContentDeleted",
			"All content successfully deleted, may be waiting on finalization"),
		fine(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed"),
		fine(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
	bad := func(i int, reason, message string) {
		out[i].Status, out[i].Reason, out[i].Message = corev1.ConditionTrue, reason, message
	}
	if left.err != nil {
		bad(2, "ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, 1 remaining: %v", left.err))
	}
	if len(left.objects) > 0 {
		var parts []string
		for resource, n := range left.objects {
			parts = append(parts, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, n))
		}
		slices.Sort(parts)
		bad(3, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(parts, ", "))
	}
	if len(left.finalizers) > 0 {
		var parts []string
		for _, f := range slices.Sorted(maps.Keys(left.finalizers)) {
			parts = append(parts, fmt.Sprintf("%s in %d resource instances", f, left.finalizers[f]))
		}
		bad(4, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+strings.Join(parts, ", "))
	}
	return out
}

// putNamespaceCondition reports whether c changes s.
func putNamespaceCondition(s *corev1.NamespaceStatus, c corev1.NamespaceCondition, now time.Time) bool {
	c.LastTransitionTime = stamp(now)
	for i := range s.Conditions {
		have := &s.Conditions[i]
		if have.Type != c.Type {
			continue
		}
		if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
			return false
		}
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
		*have = c
		return true
	}
	s.Conditions = append(s.Conditions, c)
	return true
}
