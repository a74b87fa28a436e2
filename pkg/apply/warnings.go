package apply

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// startWarnings are the reasons of Warnings about a pod whose containers can't start yet. The kubelet reports them in Events only: the
// status shows ContainerCreating.
var startWarnings = []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "FailedPrepareDynamicResources"}

// watchWarnings sends the Warnings with such a reason about pods of the object's namespace to out, until ctx ends. It ends early if Events
// can't be watched: the progress is complete without them.
func (p *podWatcher) watchWarnings(ctx context.Context, out chan<- *corev1.Event) {
	opts := metav1.ListOptions{FieldSelector: fields.AndSelectors(
		fields.OneTermEqualSelector("involvedObject.kind", "Pod"), fields.OneTermEqualSelector("type", corev1.EventTypeWarning)).String()}
	for ctx.Err() == nil {
		changes, err := p.Clients.CoreV1().Events(p.info.Namespace).Watch(ctx, opts)
		if err != nil {
			return
		}
		for change := range changes.ResultChan() {
			ev, ok := change.Object.(*corev1.Event)
			if !ok {
				break
			}
			if !slices.Contains(startWarnings, ev.Reason) {
				continue
			}
			select {
			case out <- ev:
			case <-ctx.Done():
			}
		}
		changes.Stop()
	}
}

// starts reports whether the pod is on a node and none of its containers has started.
func starts(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil &&
		!slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil || c.State.Terminated != nil || c.RestartCount > 0
		})
}
