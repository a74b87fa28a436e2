// Package node holds the controllers of nodes, and of pods whose node is unhealthy or gone.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

type nodeLifecycle struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	nodes  *client.Cache[*corev1.Node]
	pods   *client.Cache[*corev1.Pod]
	config controller.NodeLifecycle

	zones         *zones               // of the reconciles of zonesKey, of which only one runs at a time
	notReadySince map[string]time.Time // by node; likewise

	mu         sync.Mutex
	heartbeats map[string]heartbeat // by node
	unmarked   map[string]bool      // nodes that became unreachable and whose pods are not all marked yet
	watchdogs  map[string]*clock.Watchdog
	enqueue    reconcile.Enqueue // nil until the loop runs
}

// zonesKey is the key of the pass over all zones. Keys of nodes have a name, keys of pods a namespace, too.
var zonesKey = objects.Key{}

// heartbeat is the last change of a node's lease or of its condition Ready, by the controller's clock.
type heartbeat struct {
	at      time.Time
	suspect bool          // past the grace period at the last check
	grace   time.Duration // of the last check; 0: there was none
}

// NodeLifecycle sets the conditions of nodes without heartbeats to Unknown, marks their pods as not ready, and keeps the taints
// that follow from nodes' conditions. Taints that evict pods are added at a rate that depends on the health of the node's zone.
func NodeLifecycle(env controller.Env) reconcile.Loop {
	r := &nodeLifecycle{
		client: env.Client, events: env.Events, clock: env.Clock, config: env.NodeLifecycle,
		nodes: env.Caches.Nodes(), pods: env.Caches.Pods(),
		zones: newZones(env.NodeLifecycle), notReadySince: map[string]time.Time{},
		heartbeats: map[string]heartbeat{}, unmarked: map[string]bool{}, watchdogs: map[string]*clock.Watchdog{},
	}
	leases := client.CacheOf[*coordinationv1.Lease](env.Caches, client.Leases)
	leases.Subscribe(r.renewed)
	return reconcile.Loop{
		Name: "nodelifecycle",
		Sources: []reconcile.Source{
			r.follow, reconcile.Watch(r.nodes), reconcile.Map(r.nodes, zoneChanged), reconcile.Map(r.pods, r.boundToUnhealthy),
		},
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
func (r *nodeLifecycle) follow(ctx context.Context, enqueue reconcile.Enqueue) {
	r.mu.Lock()
	r.enqueue = enqueue
	r.mu.Unlock()
	context.AfterFunc(ctx, r.stopWatchdogs)
	r.nodes.Subscribe(func(ch client.Change[*corev1.Node]) { r.reported(ctx, ch) })
}

func (r *nodeLifecycle) reported(ctx context.Context, ch client.Change[*corev1.Node]) {
	if ch.Deleted() {
		r.mu.Lock()
		delete(r.heartbeats, ch.Old.Name)
		delete(r.unmarked, ch.Old.Name)
		r.checkAfter(ch.Old.Name, 0)
		delete(r.watchdogs, ch.Old.Name)
		r.mu.Unlock()
		r.events.Event(ctx, ch.Old, corev1.EventTypeNormal, "RemovingNode",
			fmt.Sprintf("Node %s event: Removing Node %s from Controller", ch.Old.Name, ch.Old.Name))
		return
	}
	if ch.Added() && !ch.Replay {
		r.events.Event(ctx, ch.New, corev1.EventTypeNormal, "RegisteredNode",
			fmt.Sprintf("Node %s event: Registered Node %s in Controller", ch.New.Name, ch.New.Name))
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
	defer r.mu.Unlock()
	h := heartbeat{at: now, grace: r.heartbeats[node].grace}
	r.heartbeats[node] = h
	if h.grace > 0 {
		r.checkAfter(node, h.grace)
	}
}

// checkAfter has a node checked after d, or not before the next heartbeat if d is 0. The caller holds mu.
func (r *nodeLifecycle) checkAfter(node string, d time.Duration) {
	w := r.watchdogs[node]
	switch {
	case d > 0 && r.enqueue != nil:
		if w == nil {
			enqueue := r.enqueue
			w = clock.NewWatchdog(r.clock, func() { enqueue(objects.Key{Name: node}, 0) })
			r.watchdogs[node] = w
		}
		w.Reset(d)
	case w != nil:
		w.Stop()
	}
}

// stopWatchdogs is called when the loop ends.
func (r *nodeLifecycle) stopWatchdogs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enqueue = nil
	for node := range r.watchdogs {
		r.checkAfter(node, 0)
	}
}

func (r *nodeLifecycle) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	switch {
	case key == zonesKey:
		return r.reconcileZones(ctx)
	case key.Namespace != "":
		return 0, r.reconcilePod(ctx, key)
	}
	node, ok := r.nodes.Get(key)
	if !ok {
		return 0, nil
	}
	r.mu.Lock()
	unreachable, again := r.checkHeartbeat(node)
	r.checkAfter(node.Name, again)
	r.mu.Unlock()
	if unreachable {
		var err error
		if node, err = r.setUnknown(ctx, node); err != nil {
			return 0, err
		}
	}
	err := errors.Join(r.markPodsNotReady(ctx, node), r.taint(ctx, node, evicted(node)))
	if node, ok = r.nodes.Get(key); ok {
		err = errors.Join(err, r.copyLabels(ctx, node))
	}
	return 0, err
}

// setUnknown sets the conditions of an unreachable node to Unknown, and returns the node as written.
func (r *nodeLifecycle) setUnknown(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	next, changed := withUnknownConditions(node, r.clock.Now())
	if !changed {
		return node, nil
	}
	out, err := r.client.Update(ctx, client.Target{Resource: client.Nodes, Name: node.Name}.Sub("status"), next, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	written, ok := out.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("update the status of node %s: the response is a %T", node.Name, out)
	}
	r.nodes.Put(written)
	if nodeReady(node) {
		r.mu.Lock()
		r.unmarked[node.Name] = true
		r.mu.Unlock()
		r.events.Event(ctx, written, corev1.EventTypeNormal, "NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", node.Name))
	}
	return written, nil
}

// checkHeartbeat reports whether a node is unreachable, and when to check again, 0 for not before its next heartbeat. A node past its grace
// period is checked a second time, because all heartbeats are old when a machine wakes up from sleep. The caller holds mu.
func (r *nodeLifecycle) checkHeartbeat(node *corev1.Node) (unreachable bool, again time.Duration) {
	grace := r.config.MonitorGracePeriod
	if nodeCondition(node, corev1.NodeReady) == nil {
		grace = r.config.StartupGracePeriod
	}
	h, ok := r.heartbeats[node.Name]
	if !ok {
		h.at = r.clock.Now()
	}
	h.grace = grace
	left := h.at.Add(grace).Sub(r.clock.Now())
	switch {
	case left > 0:
		h.suspect, again = false, left
	case !h.suspect:
		h.suspect, again = true, r.config.MonitorPeriod
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
