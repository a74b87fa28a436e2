package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

func (d *dynamicResources) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		on(framework.Node, framework.Add|framework.UpdateNodeLabel|framework.UpdateNodeAllocatable, nil),
		on(framework.ResourceClaim, framework.Add|framework.Update, d.afterClaim),
		on(framework.Pod, framework.UpdatePodGeneratedResourceClaim, d.afterPod),
		on(framework.DeviceClass, framework.Add|framework.Update, nil),
		on(framework.ResourceSlice, framework.Add|framework.Update, nil),
	}, nil
}

// afterClaim queues the pods whose claims exist if a claim was deallocated, and otherwise those that use the claim, unless its status is the
// same. The claim of a pod's own extended resources only changes when it is about to be deleted.
func (d *dynamicResources) afterClaim(_ klog.Logger, pod *corev1.Pod, before, changed any) (framework.QueueingHint, error) {
	claim, ok := changed.(*resourcev1.ResourceClaim)
	if !ok {
		return framework.Queue, nil
	}
	claims, err := d.claimsOf(pod)
	if err != nil {
		return framework.QueueSkip, nil //nolint:nilerr // the pod still lacks a claim
	}
	old, _ := before.(*resourcev1.ResourceClaim)
	if old != nil && (old.Status.Allocation != nil && claim.Status.Allocation == nil || isExtendedClaim(claim, pod)) {
		return framework.Queue, nil
	}
	for _, c := range claims {
		if c.UID == claim.UID {
			return queueIf(old == nil || !equality.Semantic.DeepEqual(&old.Status, &claim.Status)), nil
		}
	}
	return framework.QueueSkip, nil
}

// afterPod queues a pod once its status has the claims that were made for it.
func (d *dynamicResources) afterPod(_ klog.Logger, pod *corev1.Pod, _, changed any) (framework.QueueingHint, error) {
	now := podOf(changed)
	if now == nil {
		return framework.Queue, nil
	}
	if now.UID != pod.UID {
		return framework.QueueSkip, nil
	}
	_, err := d.claimsOf(now)
	return queueIf(err == nil), nil
}
