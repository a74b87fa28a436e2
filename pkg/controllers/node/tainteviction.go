package node

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
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

type taintEviction struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	nodes  *client.Cache[*corev1.Node]
	pods   *client.Cache[*corev1.Pod]

	mu    sync.Mutex
	since map[types.UID]time.Time // when the toleration time of a pod began
}

// TaintEviction deletes pods that do not tolerate the NoExecute taints of their node, or whose toleration has ended.
func TaintEviction(env controller.Env) reconcile.Loop {
	r := &taintEviction{
		client: env.Client, events: env.Events, clock: env.Clock,
		nodes: env.Caches.Nodes(), pods: env.Caches.Pods(), since: map[types.UID]time.Time{},
	}
	return reconcile.Loop{
		Name:      "tainteviction",
		Sources:   []reconcile.Source{reconcile.Map(r.nodes, r.tainted), reconcile.Map(r.pods, r.bound)},
		Reconcile: r.reconcile,
		Workers:   controller.ManyWorkers,
	}
}

// tainted maps a node with changed NoExecute taints to its pods.
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
	for _, p := range r.pods.ByIndex(controller.PodsByNode, ch.Key().Name) {
		keys = append(keys, controller.KeyOf(p))
	}
	return keys
}

// bound maps a change to the pod if it is new on a node with NoExecute taints or its tolerations have changed. It drops the
// state of a deleted pod.
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
	if !ok || p.DeletionTimestamp != nil || controller.IsPodTerminal(p) {
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

// toleratesFor returns how long tolerations tolerate taints. evict is false if they do for ever.
func toleratesFor(taints []corev1.Taint, tolerations []corev1.Toleration) (after time.Duration, evict bool) {
	var least *int64
	for _, taint := range taints {
		i := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool {
			return helper.TolerationsTolerateTaint(klog.Logger{}, []corev1.Toleration{t}, &taint, false)
		})
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

// start returns when the toleration time of a pod began: when the controller first found the taint, not when it was added.
// Otherwise the start of a cluster would evict the pods of nodes whose taints are old and will be removed in a moment.
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

// forget ends the toleration time of a pod, and reports whether it ran.
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
	_, err := r.client.Delete(ctx, client.In(client.Pods, controller.KeyOf(p)), metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod is gone; another one may have its name
	}
	return err
}
