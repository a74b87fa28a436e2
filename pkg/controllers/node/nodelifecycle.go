// Package node holds the controllers of nodes, and of pods whose node is unhealthy or gone.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Monitor grace periods: how long a node may be without a heartbeat. A node past its grace period is confirmed after a second
// check, because all heartbeats are old when a machine wakes up from sleep.
const (
	gracePeriod        = 40 * time.Second
	startupGracePeriod = 60 * time.Second
	confirmAfter       = 5 * time.Second
)

type nodeLifecycle struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	nodes  *client.Cache[*corev1.Node]
	pods   *client.Cache[*corev1.Pod]

	mu         sync.Mutex
	heartbeats map[string]heartbeat // by node
}

// heartbeat is the last change of a node's lease or of its condition Ready, by the controller's clock.
type heartbeat struct {
	at      time.Time
	suspect bool // past the grace period at the last check
}

// NodeLifecycle sets the conditions of nodes without heartbeats to Unknown, marks the pods of nodes that are not ready as not
// ready, and keeps the taints that follow from nodes' conditions.
func NodeLifecycle(env controller.Env) reconcile.Loop {
	r := &nodeLifecycle{
		client: env.Client, events: env.Events, clock: env.Clock,
		nodes: env.Caches.Nodes(), pods: env.Caches.Pods(), heartbeats: map[string]heartbeat{},
	}
	leases := client.CacheOf[*coordinationv1.Lease](env.Caches, client.Leases)
	leases.Subscribe(r.renewed)
	return reconcile.Loop{
		Name:      "nodelifecycle",
		Sources:   []reconcile.Source{r.follow, reconcile.Watch(r.nodes)},
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
}

func (r *nodeLifecycle) renewed(ch client.Change[*coordinationv1.Lease]) {
	if ch.Deleted() || ch.New.Namespace != corev1.NamespaceNodeLease {
		return
	}
	if ch.Added() || !ch.Old.Spec.RenewTime.Equal(ch.New.Spec.RenewTime) {
		r.recordHeartbeat(ch.New.Name)
	}
}

// follow subscribes to nodes. It comes before the source that enqueues them, so that a heartbeat is recorded first.
func (r *nodeLifecycle) follow(ctx context.Context, _ reconcile.Enqueue) {
	r.nodes.Subscribe(func(ch client.Change[*corev1.Node]) { r.reported(ctx, ch) })
}

func (r *nodeLifecycle) reported(ctx context.Context, ch client.Change[*corev1.Node]) {
	if ch.Deleted() {
		r.mu.Lock()
		delete(r.heartbeats, ch.Old.Name)
		r.mu.Unlock()
		return
	}
	if ch.Added() && !ch.Replay {
		r.events.Event(ctx, ch.New, corev1.EventTypeNormal, "RegisteredNode",
			fmt.Sprintf("Node %s event: Registered Node %s in Controller", ch.New.Name, ch.New.Name))
	}
	if !ch.Added() && nodeReady(ch.Old) && !nodeReady(ch.New) {
		r.events.Event(ctx, ch.New, corev1.EventTypeNormal, "NodeNotReady",
			fmt.Sprintf("Node %s status is now: NodeNotReady", ch.New.Name))
	}
	if ch.Added() || !heartbeatOf(ch.Old).Equal(heartbeatOf(ch.New)) {
		r.recordHeartbeat(ch.New.Name)
	}
}

// heartbeatOf returns the heartbeat time of a node's condition Ready, nil if it has none.
func heartbeatOf(n *corev1.Node) *metav1.Time {
	if c := nodeCondition(n, corev1.NodeReady); c != nil {
		return &c.LastHeartbeatTime
	}
	return nil
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

func (r *nodeLifecycle) recordHeartbeat(node string) {
	now := r.clock.Now()
	r.mu.Lock()
	r.heartbeats[node] = heartbeat{at: now}
	r.mu.Unlock()
}

func (r *nodeLifecycle) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	node, ok := r.nodes.Get(key)
	if !ok {
		return 0, nil
	}
	unreachable, again := r.checkHeartbeat(node)
	if unreachable {
		next, changed := withUnknownConditions(node, r.clock.Now())
		if changed {
			out, err := r.client.Update(ctx, client.In(client.Nodes, key).Sub("status"), next, metav1.UpdateOptions{})
			if err != nil {
				return 0, err
			}
			node = out.(*corev1.Node)
			r.nodes.Put(node)
		}
	}
	var errs []error
	if !nodeReady(node) {
		errs = append(errs, r.markPodsNotReady(ctx, node))
	}
	errs = append(errs, r.taint(ctx, node))
	return again, errors.Join(errs...)
}

// checkHeartbeat reports whether a node is unreachable, and when to check again.
func (r *nodeLifecycle) checkHeartbeat(node *corev1.Node) (unreachable bool, again time.Duration) {
	grace := gracePeriod
	if nodeCondition(node, corev1.NodeReady) == nil {
		grace = startupGracePeriod
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.heartbeats[node.Name]
	if !ok {
		h.at = r.clock.Now()
	}
	left := h.at.Add(grace).Sub(r.clock.Now())
	switch {
	case left > 0:
		h.suspect, again = false, left
	case !h.suspect:
		h.suspect, again = true, confirmAfter
	default:
		unreachable = true // the next heartbeat enqueues the node: it changes the condition Ready
	}
	r.heartbeats[node.Name] = h
	return unreachable, again
}

// withUnknownConditions returns a copy of the node with its kubelet's conditions set to Unknown, and whether it differs.
func withUnknownConditions(node *corev1.Node, now time.Time) (*corev1.Node, bool) {
	next := node.DeepCopy()
	changed := false
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		c := nodeCondition(next, kind)
		switch {
		case c == nil:
			next.Status.Conditions = append(next.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message: "Kubelet never posted node status.", LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: controller.WholeSeconds(now),
			})
		case c.Status != corev1.ConditionUnknown:
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = controller.WholeSeconds(now)
		default:
			continue
		}
		changed = true
	}
	return next, changed
}

func nodeReady(n *corev1.Node) bool {
	c := nodeCondition(n, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// markPodsNotReady sets the condition Ready of the pods of a node to False: they may run, but it is not known.
func (r *nodeLifecycle) markPodsNotReady(ctx context.Context, node *corev1.Node) error {
	c := nodeCondition(node, corev1.NodeReady)
	if c == nil {
		return nil
	}
	var errs []error
	for _, p := range r.pods.ByIndex(controller.PodsByNode, node.Name) {
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if i < 0 || p.Status.Conditions[i].Status != corev1.ConditionTrue {
			continue
		}
		next := p.DeepCopy()
		next.Status.Conditions[i].Status = corev1.ConditionFalse
		next.Status.Conditions[i].LastTransitionTime = controller.WholeSeconds(r.clock.Now())
		out, err := r.client.Update(ctx, client.In(client.Pods, controller.KeyOf(p)).Sub("status"), next, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.pods.Put(out.(*corev1.Pod))
		r.events.Event(ctx, p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return errors.Join(errs...)
}

// taint updates the taints that follow from a node's conditions.
func (r *nodeLifecycle) taint(ctx context.Context, node *corev1.Node) error {
	taints := planTaints(node, !r.anyReady(), r.clock.Now())
	if taints == nil {
		return nil
	}
	next := node.DeepCopy()
	next.Spec.Taints = taints.list
	out, err := r.client.Update(ctx, client.In(client.Nodes, controller.KeyOf(node)), next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.nodes.Put(out.(*corev1.Node))
	return nil
}

// anyReady reports whether any node is ready. If none is, the cause is most likely the control plane's own network, and
// evictions would not help.
func (r *nodeLifecycle) anyReady() bool { return slices.ContainsFunc(r.nodes.List("", nil), nodeReady) }
