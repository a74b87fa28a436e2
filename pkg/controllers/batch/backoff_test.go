package batch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

// endedAt returns a pod whose container ended at a time, in seconds after noon.
func endedAt(seconds int) *corev1.Pod {
	p := &corev1.Pod{}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(seconds)}}}}
	return p
}

func TestBackoffNext(t *testing.T) {
	list := func(seconds ...int) []*corev1.Pod {
		var out []*corev1.Pod
		for _, s := range seconds {
			out = append(out, endedAt(s))
		}
		return out
	}
	before := backoff{failures: 2, last: at(-10).Time}
	for _, c := range []struct {
		name              string
		succeeded, failed []*corev1.Pod
		want              backoff
	}{
		{"nothing ended", nil, nil, before},
		{"failures", nil, list(3, 1), backoff{4, at(3).Time}},
		{"a success", list(1), nil, backoff{}},
		{"failures before and after a success", list(1, 2), list(4, 1, 3, 2), backoff{2, at(4).Time}},
		{"failures before a success", list(5), list(4), backoff{}},
	} {
		if got := before.next(c.succeeded, c.failed); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestBackoffWait(t *testing.T) {
	for _, c := range []struct {
		failures, since int
		want            time.Duration
	}{
		{0, 0, 0},
		{1, 0, 10 * time.Second},
		{1, 4, 6 * time.Second},
		{1, 10, 0},
		{2, 0, 20 * time.Second},
		{3, 60, 0},
		{6, 0, 320 * time.Second},
		{7, 0, 10 * time.Minute},
		{1000, 0, 10 * time.Minute},
	} {
		if got := (backoff{c.failures, noon}).wait(at(c.since).Time); got != c.want {
			t.Errorf("%d failures, %d s ago: got %v, want %v", c.failures, c.since, got, c.want)
		}
	}
}

func TestFinishTime(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, c := range []struct {
		name string
		pod  func() *corev1.Pod
		want int
	}{
		{"containers", func() *corev1.Pod {
			p := endedAt(5)
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, endedAt(3).Status.ContainerStatuses...)
			return p
		}, 5},
		{"an init container", func() *corev1.Pod {
			p := endedAt(5)
			p.Spec.InitContainers = []corev1.Container{{}}
			p.Status.InitContainerStatuses = endedAt(9).Status.ContainerStatuses
			return p
		}, 5},
		{"a sidecar", func() *corev1.Pod {
			p := endedAt(5)
			p.Spec.InitContainers = []corev1.Container{{RestartPolicy: &always}}
			p.Status.InitContainerStatuses = endedAt(9).Status.ContainerStatuses
			return p
		}, 9},
		{"not ready", func() *corev1.Pod {
			p := endedAt(5)
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{})
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(7)}}
			return p
		}, 7},
		{"deleted", func() *corev1.Pod {
			until, grace := at(40), int64(30)
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &until, DeletionGracePeriodSeconds: &grace}}
		}, 10},
		{"created", func() *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(2)}} }, 2},
	} {
		if got := finishTime(c.pod()); !got.Equal(at(c.want).Time) {
			t.Errorf("%s: got %v, want %d s after noon", c.name, got, c.want)
		}
	}
}

// TestBackoffs: a Job of the same name gets no backoff of an earlier one.
func TestBackoffs(t *testing.T) {
	b := backoffs{jobs: map[objects.Key]jobBackoff{}}
	key, one := objects.Key{Namespace: "ns", Name: "j"}, backoff{1, noon}
	b.set(key, "a", one)
	if b.get(key, "a") != one || b.get(key, "b") != (backoff{}) {
		t.Errorf("got %+v", b.jobs)
	}
	b.set(key, "a", backoff{})
	if len(b.jobs) > 0 {
		t.Errorf("a Job without failures takes memory: %+v", b.jobs)
	}
	b.set(key, "a", one)
	if b.forget(key); len(b.jobs) > 0 {
		t.Errorf("left: %+v", b.jobs)
	}
}
