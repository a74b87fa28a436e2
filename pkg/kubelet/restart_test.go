package kubelet

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
)

// TestChangedImageShowsNoEnd changes the image of a container. Kubernetes' kubelet ends and starts a container in one sync, so that the pod
// stays ready.
func TestChangedImageShowsNoEnd(t *testing.T) {
	r := newRig(t)
	ended, goOn := make(chan struct{}), make(chan struct{})
	r.runtime.exited = func(context.Context) {
		close(ended)
		<-goOn
	}
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	caches := client.NewCaches(r.api, r.clock)
	var shown []string
	caches.Pods().Subscribe(func(ch client.Change[*corev1.Pod]) {
		if !ch.Deleted() && ch.New.Name == "p" {
			shown = append(shown, summary(ch.New))
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan error, 1)
	go func() { watching <- caches.Run(ctx) }()
	if err := caches.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	patch := client.Patch{Type: types.StrategicMergePatchType, Data: []byte(`{"spec":{"containers":[{"name":"c","image":"minikctl.dev/pause"}]}}`)}
	if _, err := r.api.Patch(ctx, client.Target{Resource: client.Pods, Namespace: "default", Name: "p"}, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	<-ended
	r.pod("other", corev1.PodSpec{}) // the kubelet has seen the end when this pod runs
	r.waitSummary("other", "Running c:running+started+ready")
	close(goOn)
	r.waitSummary("p", "Running c:running<Error=143#1+started+ready")
	stop()
	if err := <-watching; err != nil {
		t.Error(err)
	}
	for _, s := range shown {
		if s != "Running c:running+started+ready" && s != "Running c:running<Error=143#1+started+ready" {
			t.Errorf("the pod was shown as %s", s)
		}
	}
}

// TestNextKubeletRestartsStoppedContainer: a kubelet ends when a container has ended that it has stopped for a resize. The next one starts
// the container again, though it has exited with 0 and its restart policy would not restart it.
func TestNextKubeletRestartsStoppedContainer(t *testing.T) {
	rt := &resizer{}
	withResizer := func(_ *HostConfig, c *Config) {
		rt.fakeRuntime = c.Runtime.(*fakeRuntime)
		c.Runtime = rt
	}
	r := newRig(t, withResizer)
	ended := make(chan struct{})
	r.runtime.exitsZero = true
	r.runtime.exited = func(ctx context.Context) {
		close(ended)
		<-ctx.Done()
	}
	c := corev1.Container{Name: "c", Resources: withCPU("100m"), ResizePolicy: restartForCPU}
	r.pod("p", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{c}})
	r.waitSummary("p", "Running c:running+started+ready")
	next := r.get("p").DeepCopy()
	next.Spec.Containers[0].Resources = withCPU("200m")
	if _, err := r.api.Update(t.Context(), client.In(client.Pods, keyOf(next)).Sub("resize"), next, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-ended
	r.stop()
	r.runtime.exited = nil
	r.start(withResizer)
	r.waitSummary("p", "Running c:running<Completed=0#1+started+ready")
}

func withCPU(cpu string) corev1.ResourceRequirements {
	l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return corev1.ResourceRequirements{Limits: l, Requests: l}
}

var restartForCPU = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}

// TestRestartsStoppedContainer: a container that the kubelet stops to start it again is started again, though it exits with 0 and its restart
// policy would not restart it. Meanwhile the pod does not end, and there is no backoff.
func TestRestartsStoppedContainer(t *testing.T) {
	resize := func(cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Resources = withCPU(cpu) }
	}
	image := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }
	}
	for _, test := range []struct {
		name        string
		policy      corev1.RestartPolicy
		subresource string
		container   corev1.Container
		change      []func(*corev1.Pod) // one after the other
		ends        string              // the summary after each change, with the number of restarts
	}{
		{
			name: "resize", policy: corev1.RestartPolicyOnFailure, subresource: "resize", container: corev1.Container{Resources: withCPU("100m"), ResizePolicy: restartForCPU},
			change: []func(*corev1.Pod){resize("200m"), resize("300m")}, ends: "Running c:running<Completed=0#%d+started+ready",
		},
		{
			name: "image, policy Never", policy: corev1.RestartPolicyNever,
			change: []func(*corev1.Pod){image("minikctl.dev/pause"), image("nginx")}, ends: "Running c:running<Completed=0#%d+started+ready",
		},
		{
			name: "image that is missing", policy: corev1.RestartPolicyOnFailure,
			change: []func(*corev1.Pod){image("no-such")}, ends: "Running c:ErrImagePull<Completed=0",
		},
		{
			name: "liveness probe", policy: corev1.RestartPolicyOnFailure,
			container: corev1.Container{LivenessProbe: execProbe(corev1.Probe{FailureThreshold: 1}, "check")},
			change:    []func(*corev1.Pod){nil}, ends: "Running c:running<Completed=0#%d+started+ready",
		},
		{
			name: "liveness probe, policy Never", policy: corev1.RestartPolicyNever,
			container: corev1.Container{LivenessProbe: execProbe(corev1.Probe{FailureThreshold: 1}, "check")},
			change:    []func(*corev1.Pod){nil}, ends: "Succeeded c:Completed=0",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			rt := &resizer{}
			r := newRig(t, func(_ *HostConfig, c *Config) {
				rt.fakeRuntime = c.Runtime.(*fakeRuntime)
				rt.exitsZero = true
				c.Runtime = rt
			})
			var failing atomic.Bool
			r.runtime.exec = func(id ContainerID, _ []string, _ Streams) (int, error) {
				if failing.Load() && strings.HasSuffix(string(id), "_c_0") {
					return 1, nil
				}
				return 0, nil
			}
			test.container.Name = "c"
			r.pod("p", corev1.PodSpec{RestartPolicy: test.policy, Containers: []corev1.Container{test.container}})
			r.waitSummary("p", "Running c:running+started+ready")
			for i, change := range test.change {
				if change == nil {
					failing.Store(true)
				} else {
					next := r.get("p").DeepCopy()
					change(next)
					target := client.In(client.Pods, keyOf(next))
					if test.subresource != "" {
						target = target.Sub(test.subresource)
					}
					if _, err := r.api.Update(t.Context(), target, next, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				want := test.ends
				if strings.Contains(want, "%d") {
					want = fmt.Sprintf(want, i+1)
				}
				if change == nil {
					r.waitSummaryAdvancing("p", want) // until the probe
				} else {
					r.waitSummary("p", want)
				}
			}
		})
	}
}
