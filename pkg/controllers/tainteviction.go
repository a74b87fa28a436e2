package controllers

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// taintEviction is the controller of NoExecute taints.
type taintEviction struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	nodes  *client.Cache[*corev1.Node]
	pods   *client.Cache[*corev1.Pod]

	mu    sync.Mutex
	since map[types.UID]time.Time // when a pod that waits to be evicted was first seen to have to go
}

// TaintEviction deletes the pods that do not tolerate the NoExecute taints of their node, or have for long enough.
func TaintEviction(env Env) reconcile.Loop {
	r := &taintEviction{
		client: env.Client, events: env.Events, clock: env.Clock,
		nodes: env.Caches.Nodes(), pods: env.Caches.Pods(), since: map[types.UID]time.Time{},
	}
	return reconcile.Loop{
		Name:      "tainteviction",
		Sources:   []reconcile.Source{reconcile.Map(r.nodes, r.tainted), reconcile.Map(r.pods, r.bound)},
		Reconcile: r.reconcile,
		Workers:   many,
	}
}

// tainted returns the pods of a node whose NoExecute taints have changed.
func (r *taintEviction) tainted(ch client.Change[*corev1.Node]) []objects.Key {
	var before, after []corev1.Taint
	if !ch.Added() {
		before = noExecute(ch.Old)
	}
	if !ch.Deleted() {
		after = noExecute(ch.New)
	}
	if reflect.DeepEqual(before, after) {
		return nil
	}
	var keys []objects.Key
	for _, p := range r.pods.ByIndex(onNode, ch.Key().Name) {
		keys = append(keys, keyOf(p))
	}
	return keys
}

// bound returns a pod that is new on its node or has other tolerations, if the node has such taints, and one that is
// gone, to be forgotten.
func (r *taintEviction) bound(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Deleted() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.since, ch.Old.UID)
		return nil
	}
	if !ch.Added() && ch.Old.Spec.NodeName == ch.New.Spec.NodeName && len(ch.Old.Spec.Tolerations) == len(ch.New.Spec.Tolerations) {
		return nil // tolerations can only be added
	}
	node, ok := r.nodes.Get(objects.Key{Name: ch.New.Spec.NodeName})
	if !ok || len(noExecute(node)) == 0 {
		return nil
	}
	return []objects.Key{ch.Key()}
}

func noExecute(n *corev1.Node) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			out = append(out, t)
		}
	}
	return out
}

func (r *taintEviction) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	p, ok := r.pods.Get(key)
	if !ok || p.DeletionTimestamp != nil || finished(p) {
		return 0, nil
	}
	node, ok := r.nodes.Get(objects.Key{Name: p.Spec.NodeName})
	if !ok {
		return 0, nil
	}
	taints := noExecute(node)
	after, evict := toleratesFor(taints, p.Spec.Tolerations)
	if !evict {
		if r.forget(p.UID) {
			r.events.Event(ctx, p, corev1.EventTypeNormal, "TaintManagerEviction",
				fmt.Sprintf("Cancelling deletion of Pod %s/%s", p.Namespace, p.Name))
		}
		return 0, nil
	}
	if left := r.start(p.UID).Add(after).Sub(r.clock.Now()); left > 0 {
		return left, nil
	}
	return 0, r.evict(ctx, p)
}

// toleratesFor returns for how long tolerations put up with taints; evict false: for ever.
func toleratesFor(taints []corev1.Taint, tolerations []corev1.Toleration) (after time.Duration, evict bool) {
	var least *int64
	for _, taint := range taints {
		i := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taint) })
		if i < 0 {
			return 0, true
		}
		if s := tolerations[i].TolerationSeconds; s != nil && (least == nil || *s < *least) {
			least = s
		}
	}
	if least == nil {
		return 0, false
	}
	return time.Duration(max(*least, 0)) * time.Second, true
}

func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value
}

// start returns since when a pod has to put up with its node's taints: since we have known of it, and not since the
// taints were added, or the pods of a node that is just coming back would go when a cluster is started again.
func (r *taintEviction) start(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.since[uid]
	if !ok {
		at = r.clock.Now()
		r.since[uid] = at
	}
	return at
}

// forget reports whether the pod was waiting to be evicted.
func (r *taintEviction) forget(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.since[uid]
	delete(r.since, uid)
	return ok
}

func (r *taintEviction) evict(ctx context.Context, p *corev1.Pod) error {
	r.events.Event(ctx, p, corev1.EventTypeNormal, "TaintManagerEviction",
		fmt.Sprintf("Marking for deletion Pod %s/%s", p.Namespace, p.Name))
	if err := disrupt(ctx, r.client, p, disruption{"DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"}, r.clock.Now()); err != nil {
		return err
	}
	_, err := r.client.Delete(ctx, client.In(client.Pods, keyOf(p)), metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, and perhaps another one of that name is there
	}
	return err
}
