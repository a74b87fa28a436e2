// Package apps holds the controllers of the API group apps, and the one of ReplicationControllers, which is that of ReplicaSets.
package apps

import (
	"context"
	"log/slog"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

type deployment struct {
	client      client.Client
	events      *client.Recorder
	clock       clock.Clock
	deployments *client.Cache[*appsv1.Deployment]
	sets        *client.Cache[*appsv1.ReplicaSet]
	pods        *client.Cache[*corev1.Pod]
}

// Deployment keeps a ReplicaSet for each revision of a Deployment's template, and moves the replicas to the newest one.
func Deployment(env controller.Env) reconcile.Loop {
	r := &deployment{
		client: env.Client, events: env.Events, clock: env.Clock,
		deployments: env.Caches.Deployments(), sets: env.Caches.ReplicaSets(), pods: env.Caches.Pods(),
	}
	return reconcile.Loop{
		Name: "deployment",
		Sources: []reconcile.Source{
			reconcile.Watch(r.deployments), reconcile.Owned(r.sets, "Deployment"), reconcile.Map(r.sets, controller.Adopters[*appsv1.ReplicaSet](r.deployments, func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector })),
			reconcile.Map(r.pods, r.waiting),
		},
		MaxBackoff:  controller.MaxBackoff,
		Reconcile:   r.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown,
	}
}

// waiting maps a pod that has ended to its deployment if its strategy is Recreate: it waits until the old pods have ended.
func (r *deployment) waiting(ch client.Change[*corev1.Pod]) []objects.Key {
	if !ch.Deleted() && !controller.IsPodTerminal(ch.New) {
		return nil
	}
	p := ch.New
	if ch.Deleted() {
		p = ch.Old
	}
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || ref.Kind != replicaSetKind.Kind {
		return nil
	}
	set, ok := r.sets.Get(objects.Key{Namespace: p.Namespace, Name: ref.Name})
	if !ok {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(set)
	if owner == nil || owner.Kind != deploymentKind.Kind {
		return nil
	}
	key := objects.Key{Namespace: p.Namespace, Name: owner.Name}
	d, ok := r.deployments.Get(key)
	if !ok || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return []objects.Key{key}
}

func (r *deployment) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	cached, ok := r.deployments.Get(key)
	if !ok {
		return 0, nil // deleted; the garbage collector deletes its sets
	}
	d := cached.DeepCopy()
	if reflect.DeepEqual(d.Spec.Selector, &metav1.LabelSelector{}) {
		r.events.Event(ctx, d, corev1.EventTypeWarning, "SelectingAll",
			"This deployment is selecting all pods. A non-empty selector is required.")
		d.Status.ObservedGeneration = max(d.Status.ObservedGeneration, d.Generation)
		return 0, r.write(ctx, cached, d)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		slog.WarnContext(ctx, "deployment with a bad selector", "key", key.String(), "err", err)
		return 0, nil // nothing to do until the selector changes
	}
	sets, err := r.claim(ctx, d, selector)
	if err != nil {
		return 0, err
	}
	ro := newRollout(d, sets, r.clock.Now())
	if done, err := r.rollBack(ctx, ro); done || err != nil {
		return 0, err
	}
	err = r.step(ctx, ro)
	if writeErr := r.write(ctx, cached, d); writeErr != nil || err != nil {
		if err == nil {
			err = writeErr
		}
		return 0, err
	}
	return ro.checkAgain(), nil
}

// step takes the next step of scaling or rolling out, and sets the status in ro.deployment for write.
func (r *deployment) step(ctx context.Context, ro *rollout) error {
	d := ro.deployment
	switch {
	case d.DeletionTimestamp != nil:
		ro.setStatus()
		return nil
	case d.Spec.Paused:
		ro.setPaused()
		return r.scale(ctx, ro)
	}
	ro.setResumed()
	if changed, err := r.syncRevision(ctx, ro, false); changed || err != nil {
		return err
	}
	switch {
	case ro.scaled() && !ro.mixed():
		return r.scale(ctx, ro)
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return r.recreate(ctx, ro)
	}
	return r.roll(ctx, ro)
}

// claim returns the sets that the deployment controls, after adoption and release.
func (r *deployment) claim(ctx context.Context, d *appsv1.Deployment, selector labels.Selector) ([]*appsv1.ReplicaSet, error) {
	c := &controller.Claimer{
		Client: r.client, Resource: client.ReplicaSets, Owner: d, Kind: deploymentKind, Owners: client.Deployments,
	}
	candidates := append(r.sets.OwnedBy(d.UID), r.sets.ByIndex(orphanSets, d.Namespace)...)
	return controller.Claim(ctx, c, selector, candidates, r.sets.Put)
}

// write writes the annotations and the status of d if they differ from those in the cache.
func (r *deployment) write(ctx context.Context, cached, d *appsv1.Deployment) error {
	if equality.Semantic.DeepEqual(cached.Status, d.Status) && equality.Semantic.DeepEqual(cached.Annotations, d.Annotations) {
		return nil
	}
	t := client.In(client.Deployments, objects.Key{Namespace: d.Namespace, Name: d.Name}).Sub("status")
	out, err := r.client.Update(ctx, t, d.DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.deployments.Put(out.(*appsv1.Deployment))
	return nil
}
