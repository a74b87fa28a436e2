package schedplugins

import (
	"context"
	"encoding/json"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// PostBind writes the phase and the number of bound pods to the status of the PodGroup.
func (p *coscheduling) PostBind(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, _ string) {
	key, group := p.groupOf(pod)
	api := p.api().Client()
	if group == nil || api == nil {
		return
	}
	p.writes.Lock()
	defer p.writes.Unlock()
	n := p.countBound(key, pod)
	phase := "Scheduling"
	if n >= group.Spec.MinMember {
		phase = "Scheduled"
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"phase": phase, "scheduled": n}})
	if err == nil {
		_, err = api.Patch(ctx, client.In(coschedulingResource, key).Sub("status"), client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
		slog.WarnContext(ctx, "status of a pod group not written", "podGroup", key.String(), "err", err)
	}
}

// countBound returns the number of bound pods of a group, with pod, which has been bound just now.
func (p *coscheduling) countBound(key objects.Key, pod *corev1.Pod) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[types.UID]bool{pod.UID: true}
	for _, other := range p.api().Caches().Pods().ByIndex(byLabel, key.String()) {
		if other.Spec.NodeName != "" || p.bound[key][other.UID] {
			seen[other.UID] = true
		}
	}
	p.bound[key] = seen // without pods that were deleted
	return int32(len(seen))
}
