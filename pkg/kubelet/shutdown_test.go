package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

func TestGroupByPriority(t *testing.T) {
	pod := func(name string, priority int32) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Priority: &priority}}
	}
	none := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	for _, c := range []struct {
		name    string
		periods []PriorityGrace
		pods    []*corev1.Pod
		want    string
	}{
		{"no pods", []PriorityGrace{{0, time.Second}}, nil, "0:"},
		{"sorted", []PriorityGrace{{100, 1}, {0, 2}, {-5, 3}}, []*corev1.Pod{pod("a", 50), pod("b", 100), pod("c", 101), pod("d", -1), none}, "-5:d 0:a,none 100:b,c"},
		{"below all", []PriorityGrace{{10, 1}, {20, 1}}, []*corev1.Pod{pod("a", 0), pod("b", 15)}, "10:a,b 20:"},
	} {
		var got []string
		for _, g := range groupByPriority(c.periods, c.pods) {
			var names []string
			for _, p := range g.pods {
				names = append(names, p.Name)
			}
			got = append(got, fmt.Sprintf("%d:%s", g.Priority, strings.Join(names, ",")))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
	}
	g := shutdownGroup{PriorityGrace: PriorityGrace{Period: 10 * time.Second}}
	for own, want := range map[int64]int64{5: 5, 10: 10, 30: 10} {
		if got := g.graceOf(&corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &own}}); got != want {
			t.Errorf("grace of %d: got %d, want %d", own, got, want)
		}
	}
}

// TestShutdownOfPodThatEndsWell: a pod whose containers exit with 0 has succeeded, and so has no reason of a failure.
func TestShutdownOfPodThatEndsWell(t *testing.T) {
	r := newRig(t)
	r.runtime.mu.Lock()
	r.runtime.exitsZero = true
	r.runtime.mu.Unlock()
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r.host.Shutdown(ctx, []PriorityGrace{{Period: 20 * time.Second}})
	pod := r.waitSummary("p", "Succeeded c:Completed=0")
	if pod.Status.Message != "" {
		t.Errorf("message %q", pod.Status.Message)
	}
	if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget && c.Status == "True" }) {
		t.Errorf("conditions %+v", pod.Status.Conditions)
	}
}

func TestShutdown(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"low", "high"} {
		r.pod(name, corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(60)), Containers: []corev1.Container{{Name: name}}})
	}
	done := r.pod("done", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever})
	for _, name := range []string{"low", "high"} {
		r.waitSummary(name, "Running "+name+":running+started+ready")
	}
	r.waitSummary("done", "Running c:running+started+ready")
	r.exit(done, "c", 0)
	r.waitSummary("done", "Succeeded c:Completed=0")
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r.host.Shutdown(ctx, []PriorityGrace{{Period: 20 * time.Second}})

	for _, name := range []string{"low", "high"} {
		pod := r.get(name)
		if got, want := summary(pod), "Failed (Terminated) "+name+":Error=143"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if pod.Status.Message != "Pod was terminated in response to imminent node shutdown." {
			t.Errorf("message %q", pod.Status.Message)
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
		if i < 0 || pod.Status.Conditions[i].Status != "True" || pod.Status.Conditions[i].Reason != "TerminationByKubelet" || pod.Status.Conditions[i].Message != pod.Status.Message {
			t.Errorf("conditions %+v", pod.Status.Conditions)
		}
		if grace := r.runtime.graces[ContainerID(string(pod.UID)+"_"+name+"_0")]; grace != 20*time.Second {
			t.Errorf("%s had %s to end", name, grace)
		}
	}
	if got := summary(r.get("done")); got != "Succeeded c:Completed=0" {
		t.Errorf("a pod that has ended is now %s", got)
	}
	got, err := r.api.Get(t.Context(), client.Target{Resource: client.Nodes, Name: "n1"}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := slices.IndexFunc(got.(*corev1.Node).Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if c := got.(*corev1.Node).Status.Conditions[ready]; c.Status != "False" || c.Reason != "KubeletNotReady" || c.Message != "node is shutting down" {
		t.Errorf("the node is %+v", c)
	}
	r.event("n1", "NodeShutdown", "Shutdown manager detected shutdown event")
	r.pod("late", corev1.PodSpec{})
	r.waitSummary("late", "Failed (NodeShutdown)")
	if got, want := r.get("late").Status.Message, "Pod was rejected: Pod was rejected as the node is shutting down."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestShutdownOrder: pods of a higher priority end after all others, or after the others' time.
func TestShutdownOrder(t *testing.T) {
	r := newRig(t)
	r.create(client.Target{Resource: schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
	r.pod("low", corev1.PodSpec{Containers: []corev1.Container{{Name: "low"}}})
	r.pod("high", corev1.PodSpec{PriorityClassName: "high", Containers: []corev1.Container{{Name: "high"}}})
	for _, name := range []string{"low", "high"} {
		r.waitSummary(name, "Running "+name+":running+started+ready")
	}
	r.host.Shutdown(t.Context(), []PriorityGrace{{Priority: 1000, Period: 20 * time.Second}, {Priority: 0, Period: 10 * time.Second}})
	r.runtime.mu.Lock()
	defer r.runtime.mu.Unlock()
	if want := []string{"low", "high"}; !slices.Equal(r.runtime.ended, want) {
		t.Errorf("they ended in the order %q, want %q", r.runtime.ended, want)
	}
}

// TestShutdownTime: a pod that does not end keeps a node no longer than its group's period.
func TestShutdownTime(t *testing.T) {
	r := newRig(t)
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	r.runtime.mu.Lock()
	r.runtime.stopFails = 1 << 30
	r.runtime.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		r.host.Shutdown(t.Context(), []PriorityGrace{{Period: 20 * time.Second}})
		close(ended)
	}()
	r.until("the end of the shutdown", func() string {
		select {
		case <-ended:
			return ""
		default:
			r.advance(time.Second)
			return "it waits"
		}
	})
	if got := summary(r.get("p")); got != "Running c:running+started+ready" {
		t.Errorf("the pod is %s", got)
	}
	r.runtime.mu.Lock()
	r.runtime.stopFails = 0
	r.runtime.mu.Unlock()
}

// TestShutdownOfStaticPod: a static pod that ended with its node starts again with it, although its mirror has failed.
func TestShutdownOfStaticPod(t *testing.T) {
	r, _ := staticRig(t)
	path := r.kubelet.StaticPodPath
	r.waitSummary("web-n1", "Running c:running+started+ready")
	r.host.Shutdown(t.Context(), []PriorityGrace{{Period: 10 * time.Second}})
	r.waitSummary("web-n1", "Failed (Terminated) c:Error=143")
	r.stop()
	uid := r.uids()[0]
	if err := r.runtime.StopPod(t.Context(), uid); err != nil { // as down does
		t.Fatal(err)
	}
	r.start(func(_ *HostConfig, c *Config) { c.Node.StaticPodPath = path })
	r.waitSummary("web-n1", "Running c:running+started+ready")
}
