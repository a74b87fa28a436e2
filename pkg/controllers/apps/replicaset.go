package apps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

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

type replicaSet struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	sets   *client.Cache[*appsv1.ReplicaSet]
	pods   *client.Cache[*corev1.Pod]

	mu                sync.Mutex
	expectedDeletions map[types.UID]bool // pods that were deleted and whose deletion the cache does not show yet
}

// ReplicaSet keeps the number of pods that each ReplicaSet specifies.
func ReplicaSet(env controller.Env) reconcile.Loop {
	r := &replicaSet{
		client: env.Client, events: env.Events, clock: env.Clock,
		sets: env.Caches.ReplicaSets(), pods: env.Caches.Pods(), expectedDeletions: map[types.UID]bool{},
	}
	r.pods.Subscribe(r.observeDeletion)
	return reconcile.Loop{
		Name: "replicaset",
		Sources: []reconcile.Source{
			reconcile.Watch(r.sets), reconcile.Owned(r.pods, "ReplicaSet"), reconcile.Map(r.pods, r.adopters),
		},
		Reconcile:   r.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown,
	}
}

// observeDeletion removes a pod from expectedDeletions once the cache shows its deletion.
func (r *replicaSet) observeDeletion(ch client.Change[*corev1.Pod]) {
	if !ch.Deleted() && ch.New.DeletionTimestamp == nil {
		return
	}
	var uid types.UID
	if ch.Deleted() {
		uid = ch.Old.UID
	} else {
		uid = ch.New.UID
	}
	r.mu.Lock()
	delete(r.expectedDeletions, uid)
	r.mu.Unlock()
}

// adopters maps an orphan pod to the sets that may adopt it.
func (r *replicaSet) adopters(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Deleted() || ch.New.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(ch.New) != nil {
		return nil
	}
	var keys []objects.Key
	for _, set := range r.sets.List(ch.New.Namespace, nil) {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(ch.New.Labels)) {
			keys = append(keys, objects.Key{Namespace: set.Namespace, Name: set.Name})
		}
	}
	return keys
}

func (r *replicaSet) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	set, ok := r.sets.Get(key)
	if !ok {
		return 0, nil // deleted; the garbage collector deletes its pods
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		slog.WarnContext(ctx, "replicaset with a bad selector", "key", key.String(), "err", err)
		return 0, nil // nothing to do until the selector changes
	}
	pods, terminating, err := r.claim(ctx, set, selector)
	if err != nil {
		return 0, err
	}
	var manageErr error
	if set.DeletionTimestamp == nil {
		create, remove := planReplicas(set, pods, r.related(set), r.clock.Now())
		manageErr = errors.Join(r.create(ctx, set, create), r.remove(ctx, set, remove))
		if create > 0 || len(remove) > 0 { // the cache has these changes already
			if pods, terminating, err = r.claim(ctx, set, selector); err != nil {
				return 0, err
			}
		}
	}
	status, again := replicaSetStatus(set, pods, terminating, manageErr, r.clock.Now())
	if err := r.writeStatus(ctx, set, status); err != nil {
		return 0, err
	}
	return again, manageErr
}

// claim returns the active and the terminating pods that the set controls, after adoption and release.
func (r *replicaSet) claim(ctx context.Context, set *appsv1.ReplicaSet, selector labels.Selector) (active, terminating []*corev1.Pod, err error) {
	c := &controller.Claimer{
		Client: r.client, Resource: client.Pods, Owner: set, Kind: replicaSetKind, Owners: client.ReplicaSets,
	}
	candidates := r.pods.OwnedBy(set.UID)
	for _, p := range r.pods.ByIndex(controller.OrphanPods, set.Namespace) {
		if controller.IsPodActive(p) {
			candidates = append(candidates, p)
		}
	}
	mine, err := controller.Claim(ctx, c, selector, candidates, r.pods.Put)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range mine {
		switch {
		case r.expectedDeletions[p.UID] && !controller.IsPodTerminal(p), controller.IsPodTerminating(p):
			terminating = append(terminating, p)
		case controller.IsPodActive(p):
			active = append(active, p)
		}
	}
	return active, terminating, nil
}

// related returns the pods of all sets with the same owner.
func (r *replicaSet) related(set *appsv1.ReplicaSet) func() []*corev1.Pod {
	return func() []*corev1.Pod {
		owner := metav1.GetControllerOfNoCopy(set)
		if owner == nil {
			return nil
		}
		var pods []*corev1.Pod
		for _, s := range r.sets.OwnedBy(owner.UID) {
			pods = append(pods, r.pods.OwnedBy(s.UID)...)
		}
		return pods
	}
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

// create creates n pods in batches of 1, 2, 4, … (slow start). It stops after a batch with an error: most likely all would fail.
func (r *replicaSet) create(ctx context.Context, set *appsv1.ReplicaSet, n int) error {
	for batch := min(1, n); batch > 0; batch = min(2*batch, n) {
		errs := make([]error, batch)
		var wg sync.WaitGroup
		for i := range batch {
			wg.Go(func() { errs[i] = r.createOne(ctx, set) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		n -= batch
	}
	return nil
}

func (r *replicaSet) createOne(ctx context.Context, set *appsv1.ReplicaSet) error {
	t := client.Target{Resource: client.Pods, Namespace: set.Namespace}
	out, err := r.client.Create(ctx, t, controller.NewPod(&set.Spec.Template, set, replicaSetKind), metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // all creates will fail, and the set is deleted soon
	case err != nil:
		r.events.Event(ctx, set, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	pod := out.(*corev1.Pod)
	r.pods.Put(pod) // or the next sync would not count it
	r.events.Event(ctx, set, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+pod.Name)
	return nil
}

func (r *replicaSet) remove(ctx context.Context, set *appsv1.ReplicaSet, pods []*corev1.Pod) error {
	errs := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, p := range pods {
		wg.Go(func() { errs[i] = r.removeOne(ctx, set, p) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the others are most likely equal
		}
	}
	return nil
}

func (r *replicaSet) removeOne(ctx context.Context, set *appsv1.ReplicaSet, p *corev1.Pod) error {
	r.mu.Lock()
	r.expectedDeletions[p.UID] = true
	r.mu.Unlock()
	t := client.In(client.Pods, objects.Key{Namespace: p.Namespace, Name: p.Name})
	_, err := r.client.Delete(ctx, t, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if err == nil {
		r.events.Event(ctx, set, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+p.Name)
		return nil
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		r.pods.Drop(p) // already deleted
		err = nil
	}
	r.mu.Lock()
	delete(r.expectedDeletions, p.UID)
	r.mu.Unlock()
	if err == nil {
		return nil
	}
	r.events.Event(ctx, set, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
	return err
}
