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

// startupTimeout bounds how long a start waits for its conditions.
const startupTimeout = 30 * time.Second

// startup has the conditions of the cluster that a start waits for, so that a pod can be created, and scheduled, once up returns.
type startup struct {
	conditions []startupCondition
	changed    chan struct{} // signalled when a condition may have changed
}

type startupCondition struct {
	what  string
	holds func() bool
}

// awaitAtStart has the start of an API server wait until a condition holds, which may change with the objects of c.
func awaitAtStart[T objects.Object](s *startup, c *client.Cache[T], conditions ...startupCondition) {
	s.conditions = append(s.conditions, conditions...)
	c.Subscribe(func(client.Change[T]) {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	})
}

// service returns the service that is ready once all conditions hold, and after startupTimeout.
func (s *startup) service(machine clock.Clock) service {
	done := make(chan struct{})
	return service{name: "startup", ready: done, run: func(ctx context.Context) error {
		s.wait(ctx, machine.After(startupTimeout))
		close(done)
		<-ctx.Done()
		return nil
	}}
}

func (s *startup) wait(ctx context.Context, timeout <-chan time.Time) {
	for _, c := range s.conditions {
		for !c.holds() {
			select {
			case <-s.changed:
			case <-timeout:
				slog.WarnContext(ctx, "the start does not wait longer", "for", c.what)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// runsController reports whether this process runs a controller.
func (d *Daemon) runsController(name string) bool {
	return d.cfg.Runs("controllers") && slices.ContainsFunc(d.cfg.controllers, func(c controller.Controller) bool { return c.Name == name })
}

// awaitNodes has the start wait until each node is ready or cannot become so by itself. caches are those of the kubelets.
func (d *Daemon) awaitNodes(caches *client.Caches, kubelets []*kubelet.Kubelet) {
	nodes, untaints := caches.Nodes(), d.runsController("node-lifecycle-controller")
	var conditions []startupCondition
	for _, k := range kubelets {
		conditions = append(conditions, startupCondition{"node " + k.Name, func() bool {
			node, ok := nodes.Get(objects.Key{Name: k.Name})
			return ok && isReady(node, untaints) || k.IsUnready()
		}})
	}
	awaitAtStart(&d.startup, nodes, conditions...)
}

// isReady reports whether a Node is ready, and, if a controller removes it, without the taint with which it was created.
func isReady(node *corev1.Node, untaints bool) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) && !(untaints && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }))
}

// awaitDefaultAccount has the start wait for the ServiceAccount without which no pod can be created in the namespace default. caches are those
// of the controllers.
func (d *Daemon) awaitDefaultAccount(caches *client.Caches) {
	if !d.runsController("serviceaccount-controller") {
		return
	}
	accounts := client.CacheOf[*corev1.ServiceAccount](caches, client.ServiceAccounts)
	awaitAtStart(&d.startup, accounts, startupCondition{"ServiceAccount default/default", func() bool {
		_, ok := accounts.Get(objects.Key{Namespace: corev1.NamespaceDefault, Name: "default"})
		return ok
	}})
}
