package apps

import (
	"context"
	"errors"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// burst bounds how many pods one sync of a ReplicaSet creates or deletes.
const burst = 500

// maxCooldown bounds the pause between two syncs of one object. It lets a sync handle the events of many pods.
const maxCooldown = 20 * time.Millisecond

// orphanSets lists by namespace the ReplicaSets without a controlling owner.
var orphanSets = client.NewIndex(controller.OrphanNamespace[*appsv1.ReplicaSet])

// ReplicaSet keeps the number of pods that each ReplicaSet specifies.
func ReplicaSet(env controller.Env) reconcile.Loop {
	return replicas[*appsv1.ReplicaSet]{
		sets: env.Caches.ReplicaSets(), kind: replicaSetKind,
		view:       func(set *appsv1.ReplicaSet) *appsv1.ReplicaSet { return set },
		withStatus: replicaSetWithStatus,
	}.loop(env, "replicaset")
}

func replicaSetWithStatus(set *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) *appsv1.ReplicaSet {
	next := set.DeepCopy()
	next.Status = status
	return next
}

// replicas keeps the number of pods that each object of a kind specifies. It is the controller of ReplicaSets, and of
// ReplicationControllers, which it reads as ReplicaSets.
type replicas[T objects.Object] struct {
	client client.Client
	clock  clock.Clock
	pods   *client.Cache[*corev1.Pod]
	podCtl controller.PodControl

	sets       *client.Cache[T]
	kind       schema.GroupVersionKind
	view       func(T) *appsv1.ReplicaSet         // shares with its argument
	withStatus func(T, appsv1.ReplicaSetStatus) T // returns a copy
}

// loop returns the controller's loop. It sets the fields that come from env.
func (r replicas[T]) loop(env controller.Env, name string) reconcile.Loop {
	r.client, r.clock, r.pods = env.Client, env.Clock, env.Caches.Pods()
	r.podCtl = controller.PodControl{Client: env.Client, Events: env.Events, Pods: r.pods}
	return reconcile.Loop{
		Name: name,
		Sources: []reconcile.Source{
			reconcile.Watch(r.sets), reconcile.Owned(r.pods, r.kind.Kind), reconcile.Map(r.pods, controller.Adopters[*corev1.Pod](r.sets, func(obj T) *metav1.LabelSelector { return r.view(obj).Spec.Selector })),
		},
		MaxBackoff:  controller.MaxBackoff,
		Reconcile:   r.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown,
	}
}

func (r replicas[T]) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	obj, ok := r.sets.Get(key)
	if !ok {
		return 0, nil // deleted; the garbage collector deletes its pods
	}
	set := r.view(obj)
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		slog.WarnContext(ctx, "bad selector", "controller", r.kind.Kind, "key", key.String(), "err", err)
		return 0, nil // nothing to do until the selector changes
	}
	pods, terminating, err := r.claim(ctx, obj, selector)
	if err != nil {
		return 0, err
	}
	var manageErr error
	if set.DeletionTimestamp == nil {
		create, remove := planReplicas(set, pods, r.related(set), r.clock.Now())
		manageErr = errors.Join(r.create(ctx, obj, &set.Spec.Template, create), r.podCtl.DeleteAll(ctx, obj, remove))
		if create > 0 || len(remove) > 0 { // the cache has these changes already
			if pods, terminating, err = r.claim(ctx, obj, selector); err != nil {
				return 0, err
			}
		}
	}
	status, again := replicaSetStatus(set, pods, terminating, manageErr, r.clock.Now())
	if err := r.writeStatus(ctx, obj, status); err != nil {
		return 0, err
	}
	return again, manageErr
}

// claim returns the active and the terminating pods that the set controls, after adoption and release.
func (r replicas[T]) claim(ctx context.Context, obj T, selector labels.Selector) (active, terminating []*corev1.Pod, err error) {
	c := &controller.Claimer{Client: r.client, Resource: client.Pods, Owner: obj, Kind: r.kind, Owners: r.sets.Resource()}
	candidates := r.pods.OwnedBy(obj.GetUID())
	for _, p := range r.pods.ByIndex(controller.OrphanPods, obj.GetNamespace()) {
		if controller.IsPodActive(p) {
			candidates = append(candidates, p)
		}
	}
	mine, err := controller.Claim(ctx, c, selector, candidates, r.pods.Put)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range mine {
		switch {
		case controller.IsPodTerminating(p):
			terminating = append(terminating, p)
		case controller.IsPodActive(p):
			active = append(active, p)
		}
	}
	return active, terminating, nil
}

// related returns the pods of all sets with the same owner.
func (r replicas[T]) related(set *appsv1.ReplicaSet) func() []*corev1.Pod {
	return func() []*corev1.Pod {
		owner := metav1.GetControllerOfNoCopy(set)
		if owner == nil {
			return nil
		}
		var pods []*corev1.Pod
		for _, s := range r.sets.OwnedBy(owner.UID) {
			pods = append(pods, r.pods.OwnedBy(s.GetUID())...)
		}
		return pods
	}
}

func (r replicas[T]) create(ctx context.Context, obj T, template *corev1.PodTemplateSpec, n int) error {
	return controller.SlowStart(ctx, n, func(int) error {
		return r.podCtl.Create(ctx, obj, controller.NewPod(template, obj, r.kind))
	})
}

// planReplicas decides how many pods to create and which to delete. It calls related only if it must choose among pods.
func planReplicas(set *appsv1.ReplicaSet, pods []*corev1.Pod, related func() []*corev1.Pod, now time.Time) (create int, remove []*corev1.Pod) {
	surplus := len(pods) - int(*set.Spec.Replicas)
	switch {
	case surplus < 0:
		return min(-surplus, burst), nil
	case surplus == 0:
		return 0, nil
	}
	surplus = min(surplus, burst)
	if surplus < len(pods) {
		byNode := map[string]int{}
		for _, p := range related() {
			if controller.IsPodActive(p) {
				byNode[p.Spec.NodeName]++
			}
		}
		controller.RankForDeletion(pods, byNode, now)
	}
	return 0, pods[:surplus]
}
