// Package policy holds the controllers of the group policy: the status of PodDisruptionBudgets, by which the API server allows or
// refuses evictions, and the end of the condition DisruptionTarget of pods whose disruption did not happen.
package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
	"github.com/minikctl/minikctl/pkg/trace"
)

var (
	budgetsResource      = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	statefulSetsResource = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	controllersResource  = corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
)

// maxCooldown bounds the pause between two syncs of one budget. It lets a sync handle the changes of many pods.
const maxCooldown = 20 * time.Millisecond

type disruption struct {
	client   client.Client
	events   *client.Recorder
	clock    clock.Clock
	describe func() (discovery.DiscoveryInterface, error)

	budgets      *client.Cache[*policyv1.PodDisruptionBudget]
	pods         *client.Cache[*corev1.Pod]
	controllers  *client.Cache[*corev1.ReplicationController]
	replicaSets  *client.Cache[*appsv1.ReplicaSet]
	deployments  *client.Cache[*appsv1.Deployment]
	statefulSets *client.Cache[*appsv1.StatefulSet]
}

// Disruption counts the healthy pods of each PodDisruptionBudget and writes how many of them may be disrupted.
func Disruption(env controller.Env) reconcile.Loop {
	r := &disruption{
		client: env.Client, events: env.Events, clock: env.Clock, describe: env.Discovery,
		budgets: client.CacheOf[*policyv1.PodDisruptionBudget](env.Caches, budgetsResource), pods: env.Caches.Pods(),
		controllers: client.CacheOf[*corev1.ReplicationController](env.Caches, controllersResource),
		replicaSets: env.Caches.ReplicaSets(), deployments: env.Caches.Deployments(),
		statefulSets: client.CacheOf[*appsv1.StatefulSet](env.Caches, statefulSetsResource),
	}
	return reconcile.Loop{
		Name: "disruption",
		Sources: []reconcile.Source{
			reconcile.Watch(r.budgets), r.podChanged,
			scaled(r, r.controllers, func(o *corev1.ReplicationController) scale { return scale{o.Spec.Replicas, o.Spec.Template} }),
			scaled(r, r.replicaSets, func(o *appsv1.ReplicaSet) scale { return scale{o.Spec.Replicas, &o.Spec.Template} }),
			scaled(r, r.deployments, func(o *appsv1.Deployment) scale { return scale{o.Spec.Replicas, &o.Spec.Template} }),
			scaled(r, r.statefulSets, func(o *appsv1.StatefulSet) scale { return scale{o.Spec.Replicas, &o.Spec.Template} }),
		},
		Reconcile:   r.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown,
	}
}

// podChanged enqueues the budgets that select a pod, or selected it before the change.
func (r *disruption) podChanged(ctx context.Context, enqueue reconcile.Enqueue) {
	r.pods.Subscribe(func(ch client.Change[*corev1.Pod]) {
		now := ch.New
		if ch.Deleted() {
			now = ch.Old
		}
		selecting := r.selecting(now.Namespace, now.Labels)
		if len(selecting) > 1 {
			r.events.Event(trace.With(ctx, ch.Revision), now, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
				fmt.Sprintf("Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", now.Namespace, now.Name, selecting[0].Name))
		}
		if !ch.Added() && !ch.Deleted() && !labels.Equals(ch.Old.Labels, ch.New.Labels) {
			selecting = append(selecting, r.selecting(ch.Old.Namespace, ch.Old.Labels)...)
		}
		for _, b := range selecting {
			enqueue(controller.KeyOf(b), ch.Revision)
		}
	})
}

// selecting returns the budgets that select pods with a set of labels, by name.
func (r *disruption) selecting(namespace string, set labels.Set) []*policyv1.PodDisruptionBudget {
	budgets := slices.DeleteFunc(r.budgets.List(namespace, nil), func(b *policyv1.PodDisruptionBudget) bool {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err != nil || !selector.Matches(set)
	})
	slices.SortFunc(budgets, func(a, b *policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	return budgets
}

// scale is the part of a workload that decides the expected pods of budgets.
type scale struct {
	replicas *int32
	template *corev1.PodTemplateSpec
}

// scaled enqueues the budgets that select the pods of a workload whose replicas change. The changes of its pods are not enough:
// the cache of pods may show them before the cache of workloads shows the new scale.
func scaled[T objects.Object](r *disruption, c *client.Cache[T], of func(T) scale) reconcile.Source {
	return reconcile.Map(c, func(ch client.Change[T]) []objects.Key {
		if ch.Deleted() {
			return nil // its pods are deleted too
		}
		now := of(ch.New)
		if now.replicas == nil || now.template == nil {
			return nil
		}
		if !ch.Added() {
			if old := of(ch.Old); old.replicas != nil && *old.replicas == *now.replicas {
				return nil
			}
		}
		var keys []objects.Key
		for _, b := range r.selecting(ch.New.GetNamespace(), now.template.Labels) {
			keys = append(keys, controller.KeyOf(b))
		}
		return keys
	})
}

func (r *disruption) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	b, ok := r.budgets.Get(key)
	if !ok {
		return 0, nil // deleted
	}
	again, err := r.sync(ctx, b)
	if err == nil || apierrors.IsConflict(err) {
		return again, err
	}
	return 0, r.writeStatus(ctx, b, failedStatus(b, err, r.clock.Now())) // an error that lasts is tried again when something changes
}

// sync counts the pods of a budget and writes its status. The duration is the time until the first of its disrupted pods must be
// deleted, 0 if there are none.
func (r *disruption) sync(ctx context.Context, b *policyv1.PodDisruptionBudget) (time.Duration, error) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		r.events.Event(ctx, b, corev1.EventTypeWarning, "NoPods", fmt.Sprintf("Failed to get pods: %v", err))
		return 0, err
	}
	pods := r.pods.List(b.Namespace, selector)
	if len(pods) == 0 {
		r.events.Event(ctx, b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, err := r.expect(ctx, b, pods)
	if err != nil {
		r.events.Event(ctx, b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			fmt.Sprintf("Failed to calculate the number of expected pods: %v", err))
		return 0, err
	}
	now := r.clock.Now()
	d := disruptedPods(pods, b.Status.DisruptedPods, now)
	for _, p := range d.notDeleted {
		r.events.Event(ctx, p, corev1.EventTypeWarning, "NotDeleted", // Kubernetes also has the namespace in the place of the name
			fmt.Sprintf("Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Namespace))
	}
	healthy := countHealthy(pods, d.pending)
	if err := r.writeStatus(ctx, b, budgetStatus(b, counts{healthy, desired, expected}, d.pending, now)); err != nil {
		return 0, err
	}
	return d.recheck, nil
}

// expect returns how many pods a budget expects, and how many of them must be healthy.
func (r *disruption) expect(ctx context.Context, b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (expected, desired int32, err error) {
	if !needsScale(&b.Spec) {
		expected = int32(len(pods))
	} else {
		var unmanaged bool
		expected, unmanaged, err = r.expectedScale(ctx, pods)
		if err != nil {
			return 0, 0, err
		}
		if unmanaged {
			r.events.Event(ctx, b, corev1.EventTypeWarning, "UnmanagedPods", fmt.Sprintf("Pods selected by this PodDisruptionBudget (selector: %v) were found "+
				"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
				"To account for these pods please set \".spec.minAvailable\" "+
				"field of the PDB to an integer value.", b.Spec.Selector))
		}
	}
	if b.Spec.MinAvailable == nil && b.Spec.MaxUnavailable == nil {
		return 0, 0, nil
	}
	desired, err = desiredHealthy(&b.Spec, expected)
	return expected, desired, err
}

// writeStatus writes the status of a budget unless it has it already.
func (r *disruption) writeStatus(ctx context.Context, b *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	if sameStatus(&b.Status, &status) {
		return nil
	}
	b = b.DeepCopy()
	b.Status = status
	out, err := r.client.Update(ctx, client.In(budgetsResource, controller.KeyOf(b)).Sub("status"), b, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.budgets.Put(out.(*policyv1.PodDisruptionBudget)) // or the next sync would write an old version
	return nil
}
