package apps

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// daemonPlan is what a sync of a DaemonSet changes.
type daemonPlan struct {
	create []string      // nodes to create a pod for
	remove []*corev1.Pod // pods to delete
	ended  []*corev1.Pod // those of remove that have failed or succeeded
	wait   time.Duration // until a failed pod may be deleted, 0 if there is none
}

func (p *daemonPlan) empty() bool { return len(p.create)+len(p.remove) == 0 }

// planNodes decides which pods each node needs or has too many. backoff returns how long the failed pods of a node must not be
// deleted yet, 0 if they may be deleted now.
func (s *daemonSync) planNodes(backoff func(node string) time.Duration) daemonPlan {
	var plan daemonPlan
	surge := s.allowsSurge()
	for _, n := range s.nodes {
		switch {
		case n.deleted:
			for _, p := range n.pods {
				if p.Spec.NodeName == "" { // of the others the collector of orphaned pods takes care
					plan.remove = append(plan.remove, p)
				}
			}
		case n.run && len(n.pods) == 0:
			plan.create = append(plan.create, n.name)
		case !n.stay:
			plan.remove = append(plan.remove, n.live...)
		default:
			running := plan.removeEnded(n, backoff)
			switch {
			case surge && len(running) == 0 && n.run:
				plan.create = append(plan.create, n.name)
			case surge:
				plan.remove = append(plan.remove, s.superfluous(running)...)
			case len(running) > 1:
				plan.remove = append(plan.remove, running[1:]...)
			}
		}
	}
	return plan
}

// removeEnded plans to delete the pods of a node that have failed or succeeded. It returns the others that are live.
func (plan *daemonPlan) removeEnded(n daemonNode, backoff func(node string) time.Duration) (running []*corev1.Pod) {
	for _, p := range n.live {
		if !controller.IsPodTerminal(p) {
			running = append(running, p)
			continue
		}
		if p.Status.Phase == corev1.PodFailed {
			if wait := backoff(n.name); wait > 0 {
				plan.wait = controller.Sooner(plan.wait, wait)
				continue
			}
		}
		plan.remove = append(plan.remove, p)
		plan.ended = append(plan.ended, p)
	}
	return running
}

// superfluous returns the pods of a node that a DaemonSet with surge deletes. An old and a new pod stay while the old one is ready and
// the new one is not available.
func (s *daemonSync) superfluous(running []*corev1.Pod) []*corev1.Pod {
	if len(running) <= 1 {
		return nil
	}
	var remove []*corev1.Pod
	var oldest, newest *corev1.Pod // the first pod of an old template, and of the current one
	for _, p := range running {
		switch isNew := p.Labels[hashLabel] == s.hash; {
		case isNew && newest == nil:
			newest = p
		case !isNew && oldest == nil:
			oldest = p
		default:
			remove = append(remove, p)
		}
	}
	if oldest != nil && newest != nil && (!controller.IsPodReady(oldest) || s.isAvailable(newest)) {
		remove = append(remove, oldest)
	}
	return remove
}

// carryOut creates and deletes the pods of a plan, at most daemonBurst each.
func (r *daemonSet) carryOut(ctx context.Context, s *daemonSync, plan daemonPlan) error {
	return errors.Join(
		controller.SlowStart(ctx, min(len(plan.create), daemonBurst), func(i int) error {
			return r.podCtl.Create(ctx, s.set, s.newPod(plan.create[i]))
		}),
		r.podCtl.DeleteAll(ctx, s.set, plan.remove[:min(len(plan.remove), daemonBurst)]),
	)
}

// recordEnded records an Event for each pod that is deleted because it has ended.
func (r *daemonSet) recordEnded(ctx context.Context, s *daemonSync, ended []*corev1.Pod) {
	for _, p := range ended {
		kind, reason, text := corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it"
		if p.Status.Phase == corev1.PodSucceeded {
			kind, reason, text = corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it"
		}
		node, _ := targetNode(p) // the pod was found by its node
		r.events.Event(ctx, s.set, kind, reason, fmt.Sprintf(text, p.Namespace, p.Name, node))
	}
}

// failedBackoff returns the backoff of a DaemonSet's failed pods by node: how long they must wait, and 0 once they may be deleted,
// which begins the next, longer backoff.
func (r *daemonSet) failedBackoff(set *appsv1.DaemonSet) func(node string) time.Duration {
	collected := false
	return func(node string) time.Duration {
		now := r.clock.Now()
		if !collected {
			r.backoff.GC()
			collected = true
		}
		key := fmt.Sprintf("%s/%d/%s", set.UID, set.Status.ObservedGeneration, node)
		if r.backoff.IsInBackOffSinceUpdate(key, now) {
			return r.backoff.Get(key)
		}
		r.backoff.Next(key, now)
		return 0
	}
}
