package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/objects"
)

// nodesTimeout bounds how long a start waits for its nodes.
const nodesTimeout = 30 * time.Second

// nodesReady waits until the nodes of this process are ready, so that pods can be scheduled to them when up returns.
type nodesReady struct {
	kubelets []*kubelet.Kubelet
	nodes    *client.Cache[*corev1.Node]
	untaints bool // a controller removes the taint with which a Node is created
	clock    clock.Clock

	changed chan struct{} // signalled when a Node has changed
	done    chan struct{} // closed when the wait is over
}

// addNodesReady has the start of an API server with its kubelets wait for the nodes. caches are those of the kubelets.
func (d *Daemon) addNodesReady(caches *client.Caches, kubelets []*kubelet.Kubelet) {
	if !d.cfg.Runs("apiserver") {
		return
	}
	n := &nodesReady{
		kubelets: kubelets, nodes: caches.Nodes(), clock: d.machine, changed: make(chan struct{}, 1), done: make(chan struct{}),
		untaints: d.cfg.Runs("controllers") && slices.ContainsFunc(d.cfg.controllers, func(c controller.Controller) bool { return c.Name == "node-lifecycle-controller" }),
	}
	n.nodes.Subscribe(func(client.Change[*corev1.Node]) {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	})
	d.services = append(d.services, service{name: "readiness of nodes", run: n.run, ready: n.done})
}

func (n *nodesReady) run(ctx context.Context) error {
	n.wait(ctx)
	close(n.done)
	<-ctx.Done()
	return nil
}

// wait returns when each node is ready or cannot become so by itself, and after nodesTimeout.
func (n *nodesReady) wait(ctx context.Context) {
	timeout := n.clock.After(nodesTimeout)
	for _, k := range n.kubelets {
		for !n.isReady(k.Name) && !k.IsUnready() {
			select {
			case <-n.changed:
			case <-timeout:
				slog.WarnContext(ctx, "the start does not wait longer for nodes", "node", k.Name)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// isReady reports whether the Node is ready and without the taint of one that is not.
func (n *nodesReady) isReady(name string) bool {
	node, ok := n.nodes.Get(objects.Key{Name: name})
	return ok && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) && !(n.untaints && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }))
}
