package controllers

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	library "k8s.io/apiserver/pkg/quota/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/quota"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var resourceQuotas = corev1.SchemeGroupVersion.WithResource("resourcequotas")

// quotaRest is how long a quota has to be left alone before less is said to be used than it says: admission reserves
// before the object is there.
const quotaRest = 250 * time.Millisecond

// resourceQuota is the controller of what quotas say is used.
type resourceQuota struct {
	client client.Client
	clock  clock.Clock
	quotas *client.Cache[*corev1.ResourceQuota]

	mu      sync.Mutex
	counted []countedResource
	less    map[objects.Key]seenLess
}

// countedResource is a resource that quotas may limit, through the cache that the garbage collector has of it.
type countedResource struct {
	quota.Evaluator
	objects *client.Cache[objects.Object]
}

// seenLess is that less was found to be used than a quota says, since when.
type seenLess struct {
	version string
	since   time.Time
}

// ResourceQuota keeps the status of quotas: what they limit, and what is used of it. Admission reserves for creates; all
// that there is, is counted here.
func ResourceQuota(env Env) reconcile.Loop {
	r := &resourceQuota{client: env.Client, clock: env.Clock, less: map[objects.Key]seenLess{},
		quotas: client.CacheOf[*corev1.ResourceQuota](env.Caches, resourceQuotas)}
	l := reconcile.Loop{Name: "resourcequota", Sources: []reconcile.Source{reconcile.Watch(r.quotas)}, Reconcile: r.reconcile}
	for _, n := range collected() {
		if n.Cluster {
			continue
		}
		l.Sources = append(l.Sources, r.count(n, client.CacheOf[objects.Object](env.Caches, n.GVR())))
	}
	l.Sources = append(l.Sources, func(ctx context.Context, wake reconcile.Enqueue) {
		env.custom.follow(kindFollower{
			begin: func(k customKind) {
				if !k.Cluster {
					r.count(k.Names, k.objects)(ctx, wake)
					r.wakeAll(wake)
				}
			},
			end: func(k customKind, _ bool) {
				r.leave(k)
				r.wakeAll(wake)
			},
		})
	})
	return l
}

// count adds a resource to those that are counted.
func (r *resourceQuota) count(n objects.Names, c *client.Cache[objects.Object]) reconcile.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = append(r.counted, countedResource{quota.For(n.GR()), c})
	return reconcile.Map(c, r.held)
}

func (r *resourceQuota) leave(k customKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = slices.DeleteFunc(r.counted, func(c countedResource) bool { return c.objects == k.objects })
}

// wakeAll wakes for all quotas: what is counted has changed.
func (r *resourceQuota) wakeAll(wake reconcile.Enqueue) {
	for _, q := range r.quotas.List("", nil) {
		wake(keyOf(q), 0)
	}
}

// held returns the quotas of a namespace in which an object has come, gone or changed. What comes has been counted by
// admission, but for what was on its way when the quota was made.
func (r *resourceQuota) held(ch client.Change[objects.Object]) []objects.Key {
	obj := ch.New
	if ch.Deleted() {
		obj = ch.Old
	}
	var keys []objects.Key
	for _, q := range r.quotas.List(obj.GetNamespace(), labels.Everything()) {
		keys = append(keys, keyOf(q))
	}
	return keys
}

func (r *resourceQuota) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	q, ok := r.quotas.Get(key)
	if !ok {
		r.forget(key)
		return 0, nil
	}
	if r.unlisted(q) {
		return lookForLists, nil
	}
	used, err := r.used(q)
	if err != nil {
		return 0, err
	}
	if library.Equals(q.Status.Hard, q.Spec.Hard) {
		if library.Equals(q.Status.Used, used) {
			r.forget(key)
			return 0, nil
		}
		if more, _ := library.LessThanOrEqual(q.Status.Used, used); !more {
			if wait := r.wait(key, q.ResourceVersion); wait > 0 {
				return wait, nil
			}
		}
	}
	r.forget(key)
	q = q.DeepCopy()
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
	_, err = r.client.Update(ctx, client.In(resourceQuotas, key).Sub("status"), q, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return quotaRest, nil // it has changed, and is looked at again
	}
	return 0, err
}

// limited returns what a quota limits.
func (r *resourceQuota) limited(q *corev1.ResourceQuota) []countedResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []countedResource
	for _, c := range r.counted {
		if len(c.Names(q.Spec.Hard)) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// unlisted reports whether there is something that a quota limits and whose objects, of a kind that was found lately, are
// not known yet.
func (r *resourceQuota) unlisted(q *corev1.ResourceQuota) bool {
	return slices.ContainsFunc(r.limited(q), func(c countedResource) bool { return !listed(c.objects) })
}

// used counts what there is of all that a quota limits.
func (r *resourceQuota) used(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	used := corev1.ResourceList{}
	for _, c := range r.limited(q) {
		total, err := c.Total(q, c.objects.List(q.Namespace, labels.Everything()), r.clock.Now())
		if err != nil {
			return nil, err
		}
		maps.Copy(used, total)
	}
	return used, nil
}

// wait returns how long a quota, at a version, has to be left alone yet.
func (r *resourceQuota) wait(key objects.Key, version string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	seen, ok := r.less[key]
	if !ok || seen.version != version {
		r.less[key] = seenLess{version, now}
		return quotaRest
	}
	return quotaRest - now.Sub(seen.since)
}

func (r *resourceQuota) forget(key objects.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.less, key)
}
