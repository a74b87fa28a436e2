package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/node/topology"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// excludeFromDisruption is the label of nodes that do not count for the health of their zone.
const excludeFromDisruption = "node.kubernetes.io/exclude-disruption"

// evictRetries is how often a taint is written again after a conflict.
const evictRetries = 4

// zoneChanged maps a change of a node that may change the health of a zone, or what to evict there, to zonesKey.
func zoneChanged(ch client.Change[*corev1.Node]) []objects.Key {
	if !ch.Added() && !ch.Deleted() && healthOf(ch.Old) == healthOf(ch.New) {
		return nil
	}
	return []objects.Key{zonesKey}
}

// nodeHealth is what the health of a node's zone, and the eviction of the node, depend on.
type nodeHealth struct {
	zone              string
	hasReady          bool
	ready             corev1.ConditionStatus
	excluded, evicted bool
}

func healthOf(n *corev1.Node) nodeHealth {
	s := nodeHealth{zone: topology.GetZoneKey(n), evicted: evicted(n)}
	if c := nodeCondition(n, corev1.NodeReady); c != nil {
		s.hasReady, s.ready = true, c.Status
	}
	_, s.excluded = n.Labels[excludeFromDisruption]
	return s
}

// reconcileZones updates the states of the zones and evicts nodes that are not ready, as far as the rates of their zones allow. Like
// Kubernetes, which looks at all nodes once in a monitor period, it considers a node as not ready a monitor period after the change,
// so that nodes that fail at the same time change the state of their zone together, and before the first of them is evicted.
func (r *nodeLifecycle) reconcileZones(ctx context.Context) (time.Duration, error) {
	now := r.clock.Now()
	nodes := r.nodes.List("", nil)
	health, waiting, again := r.observe(nodes, now)
	entered, left := r.zones.update(health, now)
	var errs []error
	if entered {
		slog.WarnContext(ctx, "no node is ready, evictions stop", "controller", "nodelifecycle")
		for _, n := range nodes {
			errs = append(errs, r.setEviction(ctx, n, false))
		}
	}
	if left {
		slog.InfoContext(ctx, "some nodes are ready, evictions resume", "controller", "nodelifecycle")
		for _, n := range nodes {
			r.recordHeartbeat(n.Name)
		}
	}
	next, err := r.evictNodes(ctx, waiting, now)
	return controller.Sooner(again, next), errors.Join(append(errs, err)...)
}

// observe returns the health of the zones, the nodes that are not ready and not evicted, the longest first, and when the next node that is not
// ready counts as such, 0 for never.
func (r *nodeLifecycle) observe(nodes []*corev1.Node, now time.Time) (health map[string]zoneHealth, waiting []*corev1.Node, again time.Duration) {
	since := make(map[string]time.Time, len(r.notReadySince))
	health = map[string]zoneHealth{}
	for _, n := range nodes {
		s := healthOf(n)
		isReady := s.ready == corev1.ConditionTrue
		if !isReady {
			at, ok := r.notReadySince[n.Name]
			if !ok {
				at = now
			}
			since[n.Name] = at
			if left := at.Add(r.config.MonitorPeriod).Sub(now); left > 0 {
				isReady, again = true, controller.Sooner(again, left)
			}
		}
		if !s.excluded {
			h := health[s.zone]
			if isReady {
				h.ready++
			} else {
				h.notReady++
			}
			health[s.zone] = h
		}
		if !isReady && s.hasReady && !s.evicted {
			waiting = append(waiting, n)
		}
	}
	r.notReadySince = since
	slices.SortFunc(waiting, func(a, b *corev1.Node) int {
		return cmp.Or(since[a.Name].Compare(since[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	return health, waiting, again
}

// evictNodes gives the NoExecute taint to those of the waiting nodes that may have it now, and returns when the next one may, 0 for never.
func (r *nodeLifecycle) evictNodes(ctx context.Context, waiting []*corev1.Node, now time.Time) (again time.Duration, err error) {
	var errs []error
	for _, n := range waiting {
		limiter := r.zones.limiter(topology.GetZoneKey(n))
		if limiter.allow(now) {
			errs = append(errs, r.setEviction(ctx, n, true))
		} else {
			again = controller.Sooner(again, limiter.next(now))
		}
	}
	return again, errors.Join(errs...)
}

// setEviction gives a node the NoExecute taint of its condition Ready, or removes it. It tries again after conflicts, since the limiter has
// counted the eviction already.
func (r *nodeLifecycle) setEviction(ctx context.Context, n *corev1.Node, evict bool) error {
	err := r.taint(ctx, n, evict)
	for range evictRetries {
		if !apierrors.IsConflict(err) {
			return err
		}
		out, getErr := r.client.Get(ctx, client.Target{Resource: client.Nodes, Name: n.Name}, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		current, ok := out.(*corev1.Node)
		if !ok {
			return fmt.Errorf("get node %s: the response is a %T", n.Name, out)
		}
		err = r.taint(ctx, current, evict)
	}
	return err
}
