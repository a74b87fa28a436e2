// Package quota holds the controller of ResourceQuotas.
package quota

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
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/quota"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var resourceQuotas = corev1.SchemeGroupVersion.WithResource("resourcequotas")

// decreaseDelay is how long a quota must be unchanged before its usage is decreased: admission charges a quota before the
// object exists.
const decreaseDelay = 250 * time.Millisecond

type resourceQuota struct {
	client client.Client
	clock  clock.Clock
	quotas *client.Cache[*corev1.ResourceQuota]

	mu        sync.Mutex
	counted   []countedResource
	decreases map[objects.Key]decrease
}

// countedResource is a resource that quotas may limit, with its metadata cache, which is shared with the garbage
// collector.
type countedResource struct {
	quota.Evaluator
	objects *client.Cache[objects.Object]
}

// decrease is a lower usage than that of a quota's status, with the version of the quota and when it was first found.
type decrease struct {
	version string
	since   time.Time
}

// ResourceQuota keeps the usage in the status of quotas. Admission charges quotas for creates and updates; this controller
// counts the objects that exist.
func ResourceQuota(env controller.Env) reconcile.Loop {
	r := &resourceQuota{client: env.Client, clock: env.Clock, decreases: map[objects.Key]decrease{},
		quotas: client.CacheOf[*corev1.ResourceQuota](env.Caches, resourceQuotas)}
	l := reconcile.Loop{Name: "resourcequota", Sources: []reconcile.Source{reconcile.Watch(r.quotas)}, Reconcile: r.reconcile}
	for _, n := range controller.DeletableResources(env.Features) {
		if n.Cluster {
			continue
		}
		l.Sources = append(l.Sources, r.count(n, client.CacheOf[objects.Object](env.Caches, n.GVR())))
	}
	l.Sources = append(l.Sources, func(ctx context.Context, enqueue reconcile.Enqueue) {
		env.Custom.Follow(controller.KindFollower{
			Begin: func(k controller.CustomKind) {
				if !k.Cluster {
					r.count(k.Names, k.Objects)(ctx, enqueue)
					r.enqueueAll(enqueue)
				}
			},
			End: func(k controller.CustomKind, _ uint64) {
				r.uncount(k)
				r.enqueueAll(enqueue)
			},
		})
	})
	return l
}

// count adds a resource to the counted ones and returns the source of its changes.
func (r *resourceQuota) count(n objects.Names, c *client.Cache[objects.Object]) reconcile.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = append(r.counted, countedResource{quota.For(n.GR()), c})
	return reconcile.Map(c, r.quotasOf)
}

func (r *resourceQuota) uncount(k controller.CustomKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = slices.DeleteFunc(r.counted, func(c countedResource) bool { return c.objects == k.Objects })
}

// enqueueAll enqueues all quotas: the set of counted resources has changed.
func (r *resourceQuota) enqueueAll(enqueue reconcile.Enqueue) {
	for _, q := range r.quotas.List("", nil) {
		enqueue(controller.KeyOf(q), 0)
	}
}

// quotasOf maps a change of an object to the quotas of its namespace. Creates count too: admission has charged them only if
// the quota existed.
func (r *resourceQuota) quotasOf(ch client.Change[objects.Object]) []objects.Key {
	obj := ch.New
	if ch.Deleted() {
		obj = ch.Old
	}
	var keys []objects.Key
	for _, q := range r.quotas.List(obj.GetNamespace(), labels.Everything()) {
		keys = append(keys, controller.KeyOf(q))
	}
	return keys
}

func (r *resourceQuota) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	q, ok := r.quotas.Get(key)
	if !ok {
		r.forget(key)
		return 0, nil
	}
	if r.awaitsSync(q) {
		return controller.SyncPoll, nil
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
		return decreaseDelay, nil // the quota has changed since
	}
	return 0, err
}

// limited returns the resources that a quota limits.
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

// awaitsSync reports whether a quota limits a resource whose cache has not synced.
func (r *resourceQuota) awaitsSync(q *corev1.ResourceQuota) bool {
	return slices.ContainsFunc(r.limited(q), func(c countedResource) bool { return !controller.HasSynced(c.objects) })
}

// used returns the usage of the resources that a quota limits.
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

// wait returns how long a quota must still be unchanged before its usage is decreased.
func (r *resourceQuota) wait(key objects.Key, version string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	seen, ok := r.decreases[key]
	if !ok || seen.version != version {
		r.decreases[key] = decrease{version, now}
		return decreaseDelay
	}
	return decreaseDelay - now.Sub(seen.since)
}

func (r *resourceQuota) forget(key objects.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.decreases, key)
}
