package controllers

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
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var replicaSetKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// burst bounds how many pods one look at a ReplicaSet creates or deletes.
const burst = 500

// longestRest bounds how long the loops that are woken by each pod, or by sets that are, leave an object alone between
// two looks.
const longestRest = 20 * time.Millisecond

// orphanPods and orphanSets are indexes of objects without a controlling owner, by namespace.
var (
	orphanPods = client.NewIndex(orphanIn[*corev1.Pod])
	orphanSets = client.NewIndex(orphanIn[*appsv1.ReplicaSet])
)

func orphanIn[T objects.Object](obj T) []string {
	if metav1.GetControllerOfNoCopy(obj) != nil {
		return nil
	}
	return []string{obj.GetNamespace()}
}

// replicaSet is the controller of ReplicaSets.
type replicaSet struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	sets   *client.Cache[*appsv1.ReplicaSet]
	pods   *client.Cache[*corev1.Pod]

	mu       sync.Mutex
	removing map[types.UID]bool // pods that we have deleted and that the cache still shows as if not
}

// ReplicaSet keeps the wanted number of pods for each ReplicaSet.
func ReplicaSet(env Env) reconcile.Loop {
	r := &replicaSet{
		client: env.Client, events: env.Events, clock: env.Clock,
		sets: env.Caches.ReplicaSets(), pods: env.Caches.Pods(), removing: map[types.UID]bool{},
	}
	r.pods.Subscribe(r.seen)
	return reconcile.Loop{
		Name: "replicaset",
		Sources: []reconcile.Source{
			reconcile.Watch(r.sets), reconcile.Owned(r.pods, "ReplicaSet"), reconcile.Map(r.pods, r.wanting),
		},
		Reconcile: r.reconcile,
		Workers:   some,
		Rest:      longestRest,
	}
}

// seen notes that the cache shows a deletion.
func (r *replicaSet) seen(ch client.Change[*corev1.Pod]) {
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
	delete(r.removing, uid)
	r.mu.Unlock()
}

// wanting returns the sets whose selectors take a pod that has no controller.
func (r *replicaSet) wanting(ch client.Change[*corev1.Pod]) []objects.Key {
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
		return 0, nil // deleted; its pods are collected by owner
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		slog.WarnContext(ctx, "replicaset with a bad selector", "key", key.String(), "err", err)
		return 0, nil // until it is changed
	}
	pods, leaving, err := r.claim(ctx, set, selector)
	if err != nil {
		return 0, err
	}
	var manageErr error
	if set.DeletionTimestamp == nil {
		create, remove := planReplicas(set, pods, r.related(set), r.clock.Now())
		manageErr = errors.Join(r.create(ctx, set, create), r.remove(ctx, set, remove))
		if create > 0 || len(remove) > 0 { // the cache shows what we have done
			if pods, leaving, err = r.claim(ctx, set, selector); err != nil {
				return 0, err
			}
		}
	}
	status, again := replicaSetStatus(set, pods, leaving, manageErr, r.clock.Now())
	if err := r.writeStatus(ctx, set, status); err != nil {
		return 0, err
	}
	return again, manageErr
}

// claim returns the set's pods: those that count and those on their way out.
func (r *replicaSet) claim(ctx context.Context, set *appsv1.ReplicaSet, selector labels.Selector) (staying, leaving []*corev1.Pod, err error) {
	c := &claimer{
		client: r.client, resource: client.Pods, owner: set, kind: replicaSetKind,
		live: client.In(client.ReplicaSets, objects.Key{Namespace: set.Namespace, Name: set.Name}),
	}
	candidates := r.pods.OwnedBy(set.UID)
	for _, p := range r.pods.ByIndex(orphanPods, set.Namespace) {
		if active(p) {
			candidates = append(candidates, p)
		}
	}
	mine, err := claim(ctx, c, selector, candidates, r.pods.Put)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range mine {
		switch {
		case r.removing[p.UID] && !finished(p), terminating(p):
			leaving = append(leaving, p)
		case active(p):
			staying = append(staying, p)
		}
	}
	return staying, leaving, nil
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

// planReplicas decides how many pods to create and which to delete. related is asked only when there is a choice.
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
		company := map[string]int{}
		for _, p := range related() {
			if active(p) {
				company[p.Spec.NodeName]++
			}
		}
		rankForDeletion(pods, company, now)
	}
	return 0, pods[:surplus]
}

// create makes n pods, one, then two, then four, … at a time, and stops when one fails: most likely all would.
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
	out, err := r.client.Create(ctx, t, podFor(&set.Spec.Template, set, replicaSetKind), metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // all creates will fail, and soon the set is gone too
	case err != nil:
		r.events.Event(ctx, set, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	pod := out.(*corev1.Pod)
	r.pods.Put(pod) // or the next look would not count it
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
			return err // the others are most likely the same
		}
	}
	return nil
}

func (r *replicaSet) removeOne(ctx context.Context, set *appsv1.ReplicaSet, p *corev1.Pod) error {
	r.mu.Lock()
	r.removing[p.UID] = true
	r.mu.Unlock()
	t := client.In(client.Pods, objects.Key{Namespace: p.Namespace, Name: p.Name})
	_, err := r.client.Delete(ctx, t, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if err == nil {
		r.events.Event(ctx, set, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+p.Name)
		return nil
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		r.pods.Drop(p) // gone already
		err = nil
	}
	r.mu.Lock()
	delete(r.removing, p.UID)
	r.mu.Unlock()
	if err == nil {
		return nil
	}
	r.events.Event(ctx, set, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
	return err
}
