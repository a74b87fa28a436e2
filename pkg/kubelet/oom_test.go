package kubelet_test

import (
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestMemoryLimit: a container above its memory limit is OOMKilled, and restarted with a backoff.
func TestMemoryLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory limits are not looked at here")
	}
	w := newWhole(t)
	always := shell("always", "(head -c 200000000 /dev/zero; sleep 1000) | tail -n 1")
	always.Spec.RestartPolicy = corev1.RestartPolicyAlways
	never := shell("never", "(head -c 200000000 /dev/zero; sleep 1000) | tail -n 1")
	for _, pod := range []*corev1.Pod{always, never} {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("60Mi")}
		w.create(pod)
	}
	isKilled := func(s corev1.ContainerState) bool {
		return s.Terminated != nil && s.Terminated.Reason == "OOMKilled" && s.Terminated.ExitCode == 137
	}
	w.until("the pod without restarts has failed", func() string {
		pod, err := w.api.CoreV1().Pods("default").Get(t.Context(), "never", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodFailed || !isKilled(pod.Status.ContainerStatuses[0].State) {
			return fmt.Sprintf("%v, %+v", err, pod.Status)
		}
		return ""
	})
	w.until("the other one is in back-off", func() string {
		pod, err := w.api.CoreV1().Pods("default").Get(t.Context(), "always", metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return fmt.Sprint(err)
		}
		s := pod.Status.ContainerStatuses[0]
		if s.RestartCount == 0 || s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || !isKilled(s.LastTerminationState) {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.until("the event BackOff", func() string {
		list, err := w.api.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=always,reason=BackOff"})
		if err != nil || len(list.Items) == 0 {
			return fmt.Sprint(err)
		}
		return ""
	})
	w.delete("always")
	w.delete("never")
}
