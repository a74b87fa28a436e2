package schedplugins

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// gangScheduling binds the pods of a PodGroup with the policy gang only if there is room for minCount of them. PreEnqueue gates the pods until
// minCount of them exist, and Permit lets each wait until minCount of them have a node. It only acts with the feature gates GenericWorkload
// and GangScheduling.
type gangScheduling struct {
	cooperative
	handle framework.Handle
}

// gangPermitTimeout is how long a pod waits for others of its gang.
const gangPermitTimeout = 5 * time.Minute

func newGangScheduling(h framework.Handle) framework.Plugin { return gangScheduling{handle: h} }

func (gangScheduling) Name() string { return "GangScheduling" }

// EventsToRegister registers for new pods and PodGroups. Neither the group of a pod nor the policy of a PodGroup changes.
func (p gangScheduling) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Add}, QueueingHintFn: afterGroupPod},
		{Event: framework.ClusterEvent{Resource: framework.PodGroup, ActionType: framework.Add}, QueueingHintFn: afterPodGroup},
	}, nil
}

func afterGroupPod(_ klog.Logger, pod *corev1.Pod, _, now any) (framework.QueueingHint, error) {
	added, ok := now.(*corev1.Pod)
	if !ok {
		return framework.Queue, fmt.Errorf("%T is not a pod", now)
	}
	mine, grouped := podref.PodGroup(pod)
	if its, ok := podref.PodGroup(added); !ok || !grouped || its != mine {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

func afterPodGroup(_ klog.Logger, pod *corev1.Pod, _, now any) (framework.QueueingHint, error) {
	added, ok := now.(*schedulingv1alpha2.PodGroup)
	if !ok {
		return framework.Queue, fmt.Errorf("%T is not a PodGroup", now)
	}
	if mine, grouped := podref.PodGroup(pod); !grouped || mine != (objects.Key{Namespace: added.Namespace, Name: added.Name}) {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

// podGroup returns a PodGroup of Kubernetes' API, nil if there is none.
func podGroup(h framework.Handle, key objects.Key) (*schedulingv1alpha2.PodGroup, error) {
	lister, ok := h.(scheduler.APIHandle)
	if !ok {
		return nil, fmt.Errorf("%T has no PodGroups", h)
	}
	obj, ok := lister.Object(framework.PodGroup, key)
	if !ok {
		return nil, nil
	}
	group, ok := obj.(*schedulingv1alpha2.PodGroup)
	if !ok {
		return nil, fmt.Errorf("%T is not a PodGroup", obj)
	}
	return group, nil
}

// PreEnqueue gates a pod whose PodGroup does not exist, or has fewer pods than its minCount.
func (p gangScheduling) PreEnqueue(_ context.Context, pod *corev1.Pod) *framework.Status {
	key, grouped := podref.PodGroup(pod)
	if !grouped {
		return nil
	}
	group, err := podGroup(p.handle, key)
	switch {
	case err != nil:
		return framework.AsStatus(fmt.Errorf("failed to get pod group %s: %w", key, err))
	case group == nil:
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("waiting for pods's pod group %q to appear in scheduling queue", key.Name))
	case group.Spec.SchedulingPolicy.Gang == nil:
		return nil
	}
	state, err := p.handle.PodGroupManager().PodGroupStates().Get(key.Namespace, key.Name)
	if err != nil {
		return framework.AsStatus(err)
	}
	if state.AllPodsCount() < int(group.Spec.SchedulingPolicy.Gang.MinCount) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "waiting for minCount pods from a gang to appear in scheduling queue")
	}
	return nil
}

// Permit lets a pod wait until minCount pods of its gang have a node, and then allows all of them. Kubernetes' plugin activates the pods that
// have none; this scheduler tries all pods of a group together, so none of them is left in the queue.
func (p gangScheduling) Permit(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ string) (*framework.Status, time.Duration) {
	key, grouped := podref.PodGroup(pod)
	if !grouped {
		return nil, 0
	}
	group, err := podGroup(p.handle, key)
	switch {
	case err != nil:
		return framework.AsStatus(fmt.Errorf("failed to get podGroup %s: %w", key, err)), 0
	case group == nil:
		return framework.AsStatus(fmt.Errorf("failed to get podGroup %s: podgroup.scheduling.k8s.io %q not found", key, key.Name)), 0
	case group.Spec.SchedulingPolicy.Gang == nil:
		return nil, 0
	}
	states := p.handle.PodGroupManager().PodGroupStates()
	if state.IsPodGroupSchedulingCycle() {
		states = p.handle.SnapshotSharedLister().PodGroupStates()
	}
	of, err := states.Get(key.Namespace, key.Name)
	if err != nil {
		return framework.AsStatus(err), 0
	}
	if of.ScheduledPodsCount() < int(group.Spec.SchedulingPolicy.Gang.MinCount) {
		return framework.NewStatus(framework.Wait, "waiting for minCount pods from a gang to be scheduled"), gangPermitTimeout
	}
	for uid := range of.AssumedPods() {
		if w := p.handle.GetWaitingPod(uid); w != nil {
			w.Allow(p.Name())
		}
	}
	return nil, 0
}
