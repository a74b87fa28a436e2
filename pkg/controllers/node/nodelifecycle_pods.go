package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// boundToUnhealthy maps a pod that has come to a node that is not ready to the pod.
func (r *nodeLifecycle) boundToUnhealthy(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Deleted() || ch.Replay || ch.New.Spec.NodeName == "" || !ch.Added() && ch.Old.Spec.NodeName == ch.New.Spec.NodeName {
		return nil
	}
	if node, ok := r.nodes.Get(objects.Key{Name: ch.New.Spec.NodeName}); !ok || !notReady(node) {
		return nil
	}
	return []objects.Key{ch.Key()}
}

// notReady reports whether a node has a condition Ready that is not True.
func notReady(n *corev1.Node) bool {
	c := nodeCondition(n, corev1.NodeReady)
	return c != nil && c.Status != corev1.ConditionTrue
}

func (r *nodeLifecycle) reconcilePod(ctx context.Context, key objects.Key) error {
	p, ok := r.pods.Get(key)
	if !ok {
		return nil
	}
	if node, ok := r.nodes.Get(objects.Key{Name: p.Spec.NodeName}); !ok || !notReady(node) {
		return nil
	}
	return r.markPodNotReady(ctx, p)
}

// markPodsNotReady marks the pods of an unreachable node as not ready: whether they run is unknown. The pods of a node whose kubelet reports
// that it is not ready keep their conditions, since that kubelet still updates them.
func (r *nodeLifecycle) markPodsNotReady(ctx context.Context, node *corev1.Node) error {
	r.mu.Lock()
	unmarked := r.unmarked[node.Name]
	r.mu.Unlock()
	if !unmarked {
		return nil
	}
	var errs []error
	if !nodeReady(node) {
		for _, p := range r.pods.ByIndex(controller.PodsByNode, node.Name) {
			errs = append(errs, r.markPodNotReady(ctx, p))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unmarked, node.Name)
	return nil
}

// markPodNotReady sets the condition Ready of a pod to False. A pod without this condition has none afterwards.
func (r *nodeLifecycle) markPodNotReady(ctx context.Context, p *corev1.Pod) error {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 || p.Status.Conditions[i].Status == corev1.ConditionFalse {
		return nil
	}
	next := p.DeepCopy()
	next.Status.Conditions[i].Status = corev1.ConditionFalse
	next.Status.Conditions[i].LastTransitionTime = controller.WholeSeconds(r.clock.Now())
	out, err := r.client.Update(ctx, client.In(client.Pods, controller.KeyOf(p)).Sub("status"), next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	written, ok := out.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("update the status of pod %s: the response is a %T", controller.KeyOf(p), out)
	}
	r.pods.Put(written)
	r.events.Event(ctx, p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	return nil
}
