package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// defaultBinder binds pods by the binding subresource.
type defaultBinder struct {
	cooperative
	handle framework.Handle
}

func newDefaultBinder(h framework.Handle) framework.Plugin { return defaultBinder{handle: h} }

func (defaultBinder) Name() string { return "DefaultBinder" }

func (b defaultBinder) Bind(ctx context.Context, _ framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	if direct, ok := b.handle.(scheduler.Binder); ok {
		return framework.AsStatus(direct.BindPod(ctx, pod, node))
	}
	return framework.AsStatus(b.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, scheduler.BindingFor(pod, node), metav1.CreateOptions{}))
}
