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
	"k8s.io/client-go/util/flowcontrol"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/apps/internal/history"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// daemonBurst bounds how many pods one sync of a DaemonSet creates, and how many it deletes.
const daemonBurst = 250

// The backoff before the failed pods of a node are deleted, which makes the next pod start.
const (
	firstFailedBackoff = time.Second
	maxFailedBackoff   = 15 * time.Minute
)

// daemonsByNode lists the pods of DaemonSets by their targetNode.
var daemonsByNode = client.NewIndex(func(p *corev1.Pod) []string {
	if ref := metav1.GetControllerOfNoCopy(p); ref == nil || ref.Kind != daemonSetKind.Kind {
		return nil
	}
	node, err := targetNode(p)
	if err != nil {
		return nil
	}
	return []string{node}
})

type daemonSet struct {
	client    client.Client
	events    *client.Recorder
	clock     clock.Clock
	sets      *client.Cache[*appsv1.DaemonSet]
	pods      *client.Cache[*corev1.Pod]
	nodes     *client.Cache[*corev1.Node]
	revisions history.Revisions
	podCtl    controller.PodControl
	backoff   *flowcontrol.Backoff // by failedKey
}

// DaemonSet keeps one pod of each DaemonSet on each node that the DaemonSet's pods may run on. The scheduler binds the pods: each
// has a required node affinity to its node. A pod of an old template is replaced as the update strategy specifies.
func DaemonSet(env controller.Env) reconcile.Loop {
	r := &daemonSet{
		client: env.Client, events: env.Events, clock: env.Clock,
		sets: client.CacheOf[*appsv1.DaemonSet](env.Caches, client.DaemonSets), pods: env.Caches.Pods(), nodes: env.Caches.Nodes(),
		revisions: history.NewRevisions(env.Client, env.Caches),
		backoff:   flowcontrol.NewBackOff(firstFailedBackoff, maxFailedBackoff),
	}
	r.podCtl = controller.PodControl{Client: env.Client, Events: env.Events, Pods: r.pods}
	r.backoff.Clock = env.Clock
	revisions := client.CacheOf[*appsv1.ControllerRevision](env.Caches, client.ControllerRevisions)
	selectorOf := func(d *appsv1.DaemonSet) *metav1.LabelSelector { return d.Spec.Selector }
	return reconcile.Loop{
		Name: "daemonset",
		Sources: []reconcile.Source{
			reconcile.Watch(r.sets), reconcile.Map(r.nodes, r.affected),
			reconcile.Owned(r.pods, daemonSetKind.Kind), reconcile.Map(r.pods, controller.Adopters[*corev1.Pod](r.sets, selectorOf)),
			reconcile.Owned(revisions, daemonSetKind.Kind), reconcile.Map(revisions, controller.Adopters[*appsv1.ControllerRevision](r.sets, selectorOf)),
		},
		MaxBackoff:  controller.MaxBackoff,
		Reconcile:   r.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown,
	}
}

// affected maps the change of a node to the DaemonSets that have to create or delete a pod on it, or to count their pods anew.
func (r *daemonSet) affected(ch client.Change[*corev1.Node]) []objects.Key {
	if !ch.Added() && !ch.Deleted() && equality.Semantic.DeepEqual(ch.Old.Labels, ch.New.Labels) &&
		equality.Semantic.DeepEqual(ch.Old.Spec.Taints, ch.New.Spec.Taints) {
		return nil
	}
	present := map[objects.Key]bool{} // DaemonSets with pods on the node
	for _, p := range r.pods.ByIndex(daemonsByNode, ch.Key().Name) {
		present[objects.Key{Namespace: p.Namespace, Name: metav1.GetControllerOfNoCopy(p).Name}] = true
	}
	var keys []objects.Key
	for _, set := range r.sets.List("", nil) {
		key := controller.KeyOf(set)
		if ch.Deleted() || isAffected(set, ch.New, present[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// isAffected reports whether a DaemonSet needs a sync after a change of a node. present is whether it has a pod there.
func isAffected(set *appsv1.DaemonSet, node *corev1.Node, present bool) bool {
	run, stay := newEligibility(&set.Spec.Template).check(node)
	if present {
		return !stay || set.Status.NumberMisscheduled > 0
	}
	return run
}

func (r *daemonSet) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	set, ok := r.sets.Get(key)
	if !ok {
		return 0, nil // deleted; the garbage collector deletes its pods
	}
	if reflect.DeepEqual(set.Spec.Selector, &metav1.LabelSelector{}) {
		r.events.Event(ctx, set, corev1.EventTypeWarning, "SelectingAll",
			"This daemon set is selecting all pods. A non-empty selector is required.")
		return 0, nil
	}
	if set.DeletionTimestamp != nil {
		return 0, nil // its revisions may be gone already, so that nothing can be computed
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		slog.WarnContext(ctx, "daemonset with a bad selector", "key", key.String(), "err", err)
		return 0, nil // nothing to do until the selector changes
	}
	current, old, err := r.constructHistory(ctx, set, selector)
	if err != nil {
		return 0, err
	}
	s, err := r.observe(ctx, set, selector, current.Labels[appsv1.DefaultDaemonSetUniqueLabelKey])
	if err != nil {
		return 0, err
	}
	wait, syncErr := r.sync(ctx, s, old)
	if s, err = r.observe(ctx, set, selector, s.hash); err != nil { // the cache has the changes already
		return 0, err
	}
	status, again := s.status()
	if err := r.writeStatus(ctx, set, status); syncErr == nil {
		syncErr = err
	}
	return controller.Sooner(wait, again), syncErr
}

// sync creates and deletes the pods of nodes, takes the next step of a rolling update, and deletes revisions beyond the limit. It
// returns the time until a failed pod may be deleted, 0 if there is none.
func (r *daemonSet) sync(ctx context.Context, s *daemonSync, old []*appsv1.ControllerRevision) (time.Duration, error) {
	plan := s.planNodes(r.failedBackoff(s.set))
	r.recordEnded(ctx, s, plan.ended)
	err := r.carryOut(ctx, s, plan)
	if err == nil && plan.empty() && s.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		var update daemonPlan
		if update, err = s.planUpdate(); err == nil {
			err = r.carryOut(ctx, s, update)
		}
	}
	if err == nil {
		err = r.cleanUpHistory(ctx, s, old)
	}
	return plan.wait, err
}

// claim returns the pods that the DaemonSet controls, after adoption and release.
func (r *daemonSet) claim(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) ([]*corev1.Pod, error) {
	candidates := append(r.pods.OwnedBy(set.UID), r.pods.ByIndex(controller.OrphanPods, set.Namespace)...)
	return controller.Claim(ctx, r.claimer(set, client.Pods), selector, candidates, r.pods.Put)
}
