package kubelet

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// resizer is a runtime that can change the limits of containers.
type resizer struct {
	*fakeRuntime
	refuse error // of Resize; guarded by mu
}

func (r *resizer) Resize(_ context.Context, id ContainerID, l Limits) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return r.refuse
	}
	for _, p := range r.pods {
		for i := range p.Containers {
			if p.Containers[i].ID == id {
				p.Containers[i].Limits = l
			}
		}
	}
	return nil
}

// TestResize: a running container gets the limits of its new spec, or is restarted where its policy asks for that. The status has the limits that the
// container has.
func TestResize(t *testing.T) {
	rt := &resizer{}
	r := newRig(t, func(_ *HostConfig, c *Config) {
		rt.fakeRuntime = c.Runtime.(*fakeRuntime)
		c.Runtime = rt
	})
	with := func(cpu, memory string) corev1.ResourceRequirements {
		l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		return corev1.ResourceRequirements{Limits: l, Requests: l}
	}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: with("100m", "64Mi"), ResizePolicy: []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
	}}}})
	pod := r.waitSummary("p", "Running c:running+started+ready")
	resize := func(cpu, memory string) {
		t.Helper()
		next := r.get("p").DeepCopy()
		next.Spec.Containers[0].Resources = with(cpu, memory)
		if _, err := r.api.Update(t.Context(), client.In(client.Pods, keyOf(next)).Sub("resize"), next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(cpu, memory, condition string) {
		t.Helper()
		want := cpu + " " + memory + " " + condition
		r.until("the status", func() string {
			s := r.get("p").Status
			got := ""
			if list := s.ContainerStatuses; len(list) == 1 && list[0].Resources != nil {
				l := list[0].Resources.Limits
				got = l.Cpu().String() + " " + l.Memory().String() + " "
			}
			for _, c := range s.Conditions {
				if c.Type == corev1.PodResizeInProgress {
					got += fmt.Sprint(c.Status, c.Reason, c.Message)
				}
			}
			if got != want {
				return fmt.Sprintf("got %q, want %q", got, want)
			}
			return ""
		})
	}
	limitsOf := func() Limits {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		c, _ := rt.pods[pod.UID].latest("c")
		return c.Limits
	}
	shows("100m", "64Mi", "")
	resize("200m", "64Mi")
	shows("200m", "64Mi", "")
	if got := limitsOf(); got != (Limits{MilliCPU: 200, Memory: 64 << 20}) {
		t.Errorf("the container has %+v", got)
	}
	rt.mu.Lock()
	rt.refuse = errors.New("too little")
	rt.mu.Unlock()
	resize("300m", "64Mi")
	shows("200m", "64Mi", "TrueErrortoo little")
	rt.mu.Lock()
	rt.refuse = nil
	rt.mu.Unlock()
	r.until("another attempt", func() string {
		if limitsOf().MilliCPU == 300 {
			return ""
		}
		r.advance(resizeRetry)
		return "none"
	})
	shows("300m", "64Mi", "")
	if s := r.get("p").Status.ContainerStatuses[0]; s.RestartCount != 0 {
		t.Errorf("%d restarts", s.RestartCount)
	}
	resize("300m", "32Mi")
	r.event("p", "Killing", "Container c resize requires restart")
	r.waitSummary("p", "Running c:running<Error=143#1+started+ready")
	shows("300m", "32Mi", "")
}
