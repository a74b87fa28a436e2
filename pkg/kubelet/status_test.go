package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatusDuringRestart checks that a container which the kubelet ends to start it again keeps its status until it does.
func TestStatusDuringRestart(t *testing.T) {
	running := corev1.ContainerStatus{Name: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	c := &corev1.Container{Name: "c"}
	for _, test := range []struct {
		name    string
		busy    map[string]corev1.ContainerStateWaiting
		runs    bool
		restart bool
	}{
		{"it has ended by itself", nil, false, false},
		{"it is being ended", map[string]corev1.ContainerStateWaiting{"c": {}}, true, false},
		{"it has been ended", map[string]corev1.ContainerStateWaiting{"c": {}}, false, true},
		{"another one has been ended", map[string]corev1.ContainerStateWaiting{"d": {}}, false, false},
		{"it has ended in its hook", map[string]corev1.ContainerStateWaiting{"c": {Reason: "ContainerCreating"}}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := &statusInput{
				pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, lifecycle: lifecycleState{busy: test.busy},
				seen: Pod{Containers: []Container{{Name: "c", Running: test.runs, ExitCode: 1}}}, probes: noProbes{}, volumes: &podVolumes{podScope: &podScope{kubelet: &Kubelet{}}},
			}
			s := in.containerStatus(c, &running, false)
			if kept := s.State.Running != nil && s.Ready; kept != test.restart {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// noProbes has the results of containers whose probes have not begun.
type noProbes struct{}

func (noProbes) result(ContainerID) probeResult { return probeResult{} }
