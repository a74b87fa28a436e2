package controllers

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
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// How long a node may be silent: one that has been heard of, and one that never has; and how long a silent node is looked
// at before it is believed to be, since a machine that was asleep wakes up to silence everywhere.
const (
	graceOfKnown = 40 * time.Second
	graceOfNew   = 60 * time.Second
	secondLook   = 5 * time.Second
)

// onNode is an index of pods by the node they are bound to.
var onNode = client.NewIndex(nodeOf)

func nodeOf(p *corev1.Pod) []string {
	if p.Spec.NodeName == "" {
		return nil
	}
	return []string{p.Spec.NodeName}
}

// nodeLifecycle is the controller of the health of nodes.
type nodeLifecycle struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	nodes  *client.Cache[*corev1.Node]
	pods   *client.Cache[*corev1.Pod]

	mu    sync.Mutex
	heard map[string]heartbeat // by node
}

// heartbeat is when we last heard of a node, by our own clock.
type heartbeat struct {
	at      time.Time
	suspect bool // silent for too long at the last look
}

// NodeLifecycle notices nodes that no longer report, marks them and their pods not ready, and keeps the taints that
// follow from the nodes' conditions.
func NodeLifecycle(env Env) reconcile.Loop {
	r := &nodeLifecycle{
		client: env.Client, events: env.Events, clock: env.Clock,
		nodes: env.Caches.Nodes(), pods: env.Caches.Pods(), heard: map[string]heartbeat{},
	}
	leases := client.CacheOf[*coordinationv1.Lease](env.Caches, client.Leases)
	leases.Subscribe(r.renewed)
	return reconcile.Loop{
		Name:      "nodelifecycle",
		Sources:   []reconcile.Source{r.follow, reconcile.Watch(r.nodes)},
		Reconcile: r.reconcile,
		Workers:   some,
	}
}

func (r *nodeLifecycle) renewed(ch client.Change[*coordinationv1.Lease]) {
	if ch.Deleted() || ch.New.Namespace != corev1.NamespaceNodeLease {
		return
	}
	if ch.Added() || !ch.Old.Spec.RenewTime.Equal(ch.New.Spec.RenewTime) {
		r.hear(ch.New.Name)
	}
}

// follow subscribes to nodes before the loop wakes for them.
func (r *nodeLifecycle) follow(ctx context.Context, _ reconcile.Enqueue) {
	r.nodes.Subscribe(func(ch client.Change[*corev1.Node]) { r.reported(ctx, ch) })
}

func (r *nodeLifecycle) reported(ctx context.Context, ch client.Change[*corev1.Node]) {
	if ch.Deleted() {
		r.mu.Lock()
		delete(r.heard, ch.Old.Name)
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
		r.hear(ch.New.Name)
	}
}

// heartbeatOf returns when the node's kubelet last wrote its condition Ready.
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

func (r *nodeLifecycle) hear(node string) {
	now := r.clock.Now()
	r.mu.Lock()
	r.heard[node] = heartbeat{at: now}
	r.mu.Unlock()
}

func (r *nodeLifecycle) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	node, ok := r.nodes.Get(key)
	if !ok {
		return 0, nil
	}
	silent, again := r.listen(node)
	if silent {
		next, changed := silence(node, r.clock.Now())
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
		errs = append(errs, r.unready(ctx, node))
	}
	errs = append(errs, r.taint(ctx, node))
	return again, errors.Join(errs...)
}

// listen reports whether a node has been silent for too long, and when to listen again.
func (r *nodeLifecycle) listen(node *corev1.Node) (silent bool, again time.Duration) {
	grace := graceOfKnown
	if nodeCondition(node, corev1.NodeReady) == nil {
		grace = graceOfNew
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.heard[node.Name]
	if !ok {
		h.at = r.clock.Now()
	}
	left := h.at.Add(grace).Sub(r.clock.Now())
	switch {
	case left > 0:
		h.suspect, again = false, left
	case !h.suspect:
		h.suspect, again = true, secondLook
	default:
		silent = true // its next heartbeat wakes us: the kubelet finds its conditions changed
	}
	r.heard[node.Name] = h
	return silent, again
}

// silence returns the node with the conditions that its kubelet keeps set to Unknown.
func silence(node *corev1.Node, now time.Time) (*corev1.Node, bool) {
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
				Message: "Kubelet never posted node status.", LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: stamp(now),
			})
		case c.Status != corev1.ConditionUnknown:
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = stamp(now)
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

// unready marks the pods of a node that is not ready as not ready, once: they may still run, but nobody can tell.
func (r *nodeLifecycle) unready(ctx context.Context, node *corev1.Node) error {
	c := nodeCondition(node, corev1.NodeReady)
	if c == nil {
		return nil
	}
	var errs []error
	for _, p := range r.pods.ByIndex(onNode, node.Name) {
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if i < 0 || p.Status.Conditions[i].Status != corev1.ConditionTrue {
			continue
		}
		next := p.DeepCopy()
		next.Status.Conditions[i].Status = corev1.ConditionFalse
		next.Status.Conditions[i].LastTransitionTime = stamp(r.clock.Now())
		out, err := r.client.Update(ctx, client.In(client.Pods, keyOf(p)).Sub("status"), next, metav1.UpdateOptions{})
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

// taint brings the taints that follow from a node's conditions up to date.
func (r *nodeLifecycle) taint(ctx context.Context, node *corev1.Node) error {
	taints := planTaints(node, !r.anyReady(), r.clock.Now())
	if taints == nil {
		return nil
	}
	next := node.DeepCopy()
	next.Spec.Taints = taints.list
	out, err := r.client.Update(ctx, client.In(client.Nodes, keyOf(node)), next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.nodes.Put(out.(*corev1.Node))
	return nil
}

// anyReady reports whether a node is ready. When none is, it is most likely we who cannot see them, and evicting pods
// would help nobody.
func (r *nodeLifecycle) anyReady() bool { return slices.ContainsFunc(r.nodes.List("", nil), nodeReady) }
