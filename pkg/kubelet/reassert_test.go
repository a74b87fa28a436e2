package kubelet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// setStatus updates a pod's status like another client.
func (r *rig) setStatus(pod *corev1.Pod, change func(*corev1.PodStatus)) {
	r.t.Helper()
	r.until("the status is written", func() string {
		next := r.get(pod.Name).DeepCopy()
		change(&next.Status)
		if _, err := r.api.Update(r.t.Context(), client.In(client.Pods, keyOf(pod)).Sub("status"), next, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestOverwrittenReadyConditionOfPodIsRestored(t *testing.T) {
	r := newRig(t)
	r.pod("p", corev1.PodSpec{})
	pod := r.waitSummary("p", "Running c:running+started+ready")
	r.setStatus(pod, func(s *corev1.PodStatus) {
		for i := range s.Conditions {
			if s.Conditions[i].Type == corev1.PodReady {
				s.Conditions[i].Status = corev1.ConditionFalse
			}
		}
	})
	r.until("the pod is ready again", func() string {
		if c := conditionOf(r.get("p"), corev1.PodReady); c.Status != corev1.ConditionTrue {
			r.advance(250 * time.Millisecond)
			return "it is " + string(c.Status)
		}
		return ""
	})
}

func TestTerminalPhaseByAnotherClientStopsThePod(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	r.setStatus(pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
	r.waitSummary("p", "Failed c:Error=143")
}

func TestOverwrittenReadyConditionOfNodeIsRestored(t *testing.T) {
	for name, perNode := range map[string]bool{"all watched at once": false, "each watched apart": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(h *HostConfig, _ *Config) { h.PerNode = perNode })
			ready := func(node *corev1.Node) *corev1.NodeCondition {
				for i := range node.Status.Conditions {
					if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
						return c
					}
				}
				t.Fatal("the node has no condition Ready")
				return nil
			}
			get := func() *corev1.Node {
				got, err := r.api.Get(t.Context(), r.kubelet.nodeTarget(), metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return got.(*corev1.Node)
			}
			r.until("the node is Unknown", func() string {
				unknown := get().DeepCopy()
				ready(unknown).Status = corev1.ConditionUnknown
				if _, err := r.api.Update(t.Context(), r.kubelet.nodeTarget().Sub("status"), unknown, metav1.UpdateOptions{}); err != nil {
					return err.Error()
				}
				return ""
			})
			r.until("the node is ready again", func() string {
				if c := ready(get()); c.Status != corev1.ConditionTrue {
					r.advance(250 * time.Millisecond)
					return "it is " + string(c.Status)
				}
				return ""
			})
		})
	}
}
