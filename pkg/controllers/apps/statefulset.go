package apps

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/apps/internal/history"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

type statefulSet struct {
	client    client.Client
	events    *client.Recorder
	clock     clock.Clock
	sets      *client.Cache[*appsv1.StatefulSet]
	pods      *client.Cache[*corev1.Pod]
	claims    *client.Cache[*corev1.PersistentVolumeClaim]
	revisions history.Revisions
}

// StatefulSet keeps a pod with a fixed name, and its PersistentVolumeClaims, for each ordinal of a StatefulSet. It updates pods
// to the newest template from the highest ordinal to the lowest.
func StatefulSet(env controller.Env) reconcile.Loop {
	r := &statefulSet{
		client: env.Client, events: env.Events, clock: env.Clock,
		sets:      client.CacheOf[*appsv1.StatefulSet](env.Caches, client.StatefulSets),
		pods:      env.Caches.Pods(),
		claims:    client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, client.PersistentVolumeClaims),
		revisions: history.NewRevisions(env.Client, env.Caches),
	}
	return reconcile.Loop{
		Name: "statefulset",
		Sources: []reconcile.Source{
			reconcile.Watch(r.sets), reconcile.Owned(r.pods, statefulSetKind.Kind), reconcile.Map(r.pods, controller.Adopters[*corev1.Pod](r.sets, func(set *appsv1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector })),
			reconcile.Map(r.claims, waitingForClaim),
		},
		MaxBackoff:  controller.MaxBackoff,
		Reconcile:   r.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown,
	}
}

// waitingForClaim maps a deleted claim that a pod owned to the pod's set: the pod is not created again before its earlier claim is
// gone.
func waitingForClaim(ch client.Change[*corev1.PersistentVolumeClaim]) []objects.Key {
	if !ch.Deleted() {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(ch.Old)
	if ref == nil || ref.Kind != podKind.Kind {
		return nil
	}
	set, ordinal := parentAndOrdinal(ref.Name)
	if ordinal < 0 {
		return nil
	}
	return []objects.Key{{Namespace: ch.Old.Namespace, Name: set}}
}

func (r *statefulSet) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	set, ok := r.sets.Get(key)
	if !ok {
		return 0, nil // deleted; the garbage collector deletes its pods
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		slog.WarnContext(ctx, "statefulset with a bad selector", "key", key.String(), "err", err)
		return 0, nil // nothing to do until the selector changes
	}
	revisions, err := r.claimRevisions(ctx, set, selector)
	if err != nil {
		return 0, err
	}
	pods, err := r.claimPods(ctx, set, selector)
	if err != nil {
		return 0, err
	}
	h, err := r.syncRevisions(ctx, set, revisions)
	if err != nil {
		return 0, err
	}
	now := r.clock.Now()
	status, err := r.sync(ctx, set, h, pods, now)
	if err = errors.Join(err, r.cleanUp(ctx, set, h, pods)); err != nil {
		return 0, err
	}
	return nextAvailable(set, status, pods, now), nil
}

// sync takes the next step with the pods, and writes the status.
func (r *statefulSet) sync(ctx context.Context, set *appsv1.StatefulSet, h *setHistory, pods []*corev1.Pod, now time.Time) (appsv1.StatefulSetStatus, error) {
	from, err := history.Restore(set, h.current)
	if err != nil {
		return appsv1.StatefulSetStatus{}, err
	}
	to, err := history.Restore(set, h.update)
	if err != nil {
		return appsv1.StatefulSetStatus{}, err
	}
	m := newStatefulPods(set, from, to, h.current.Name, h.update.Name, pods, now)
	status := m.status(h.collisions, pods)
	if set.DeletionTimestamp == nil {
		var deleted *corev1.Pod
		deleted, err = r.manage(ctx, m)
		status = m.status(h.collisions, slices.Concat(m.replicas, m.condemned))
		if deleted != nil && deleted.Labels[appsv1.StatefulSetRevisionLabel] == m.current {
			status.CurrentReplicas--
		}
	}
	completeRollout(set, &status)
	return status, errors.Join(err, r.writeStatus(ctx, set, status))
}

// manage creates pods, corrects their identity and storage, scales down, and rolls out, in this order. With OrderedReady, it ends at a
// pod that later pods wait for. It returns the pod that it has deleted for the rollout, if any.
func (r *statefulSet) manage(ctx context.Context, m *statefulPods) (outdated *corev1.Pod, err error) {
	claim := r.claimReader(m.set)
	done, err := forEach(ctx, m.replicas, m.ordered(), func(p *corev1.Pod) (bool, error) {
		return r.take(ctx, m, p, m.replicaStep(p, claim))
	})
	if done || err != nil {
		return nil, err
	}
	done, err = forEach(ctx, m.condemned, m.ordered(), func(p *corev1.Pod) (bool, error) {
		if m.claimsMatch(p, claim) {
			return false, nil
		}
		return false, r.retainClaims(ctx, m.set, p)
	})
	if done || err != nil {
		return nil, err
	}
	done, err = forEach(ctx, m.condemned, m.ordered(), func(p *corev1.Pod) (bool, error) {
		return r.take(ctx, m, p, m.condemnedStep(p))
	})
	if done || err != nil {
		return nil, err
	}
	outdated = m.outdated()
	if outdated == nil {
		return nil, nil
	}
	return outdated, r.deleteStatefulPod(ctx, m.set, outdated)
}

// take takes a step with a pod. It reports whether later pods wait.
func (r *statefulSet) take(ctx context.Context, m *statefulPods, p *corev1.Pod, s podStep) (wait bool, err error) {
	switch {
	case s.delete:
		err = r.deleteStatefulPod(ctx, m.set, p)
	case s.create:
		err = r.createStatefulPod(ctx, m.set, p)
	case s.claims:
		err = r.createMissingClaims(ctx, m.set, p)
	}
	if err == nil && s.update {
		err = r.updateStatefulPod(ctx, m.set, p)
	}
	return s.wait, err
}

// forEach calls f for pods: in order until one waits or has an error, or else for all of them with a slow start. done means that
// the sync ends.
func forEach(ctx context.Context, pods []*corev1.Pod, ordered bool, f func(*corev1.Pod) (wait bool, err error)) (done bool, err error) {
	if !ordered {
		err := controller.SlowStart(ctx, len(pods), func(i int) error {
			_, err := f(pods[i])
			return err
		})
		return err != nil, err
	}
	for _, p := range pods {
		if wait, err := f(p); wait || err != nil {
			return true, err
		}
	}
	return false, nil
}

// claimPods returns the pods that the set controls, after adoption and release. A pod whose name is not one of the set is released.
func (r *statefulSet) claimPods(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*corev1.Pod, error) {
	c := &controller.Claimer{
		Client: r.client, Resource: client.Pods, Owner: set, Kind: statefulSetKind, Owners: client.StatefulSets,
		Matches: func(p metav1.Object) bool {
			name, _ := parentAndOrdinal(p.GetName())
			return name == set.Name
		},
	}
	candidates := append(r.pods.OwnedBy(set.UID), r.pods.ByIndex(controller.OrphanPods, set.Namespace)...)
	return controller.Claim(ctx, c, selector, candidates, r.pods.Put)
}
