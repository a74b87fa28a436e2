package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// newResizeRig returns a rig whose node has cpu processors, and a runtime that can resize containers.
func newResizeRig(t *testing.T, cpu string) (*rig, *resizer) {
	rt := &resizer{}
	return newRig(t, resizeConfig(rt, cpu)), rt
}

func resizeConfig(rt *resizer, cpu string) func(*HostConfig, *Config) {
	return func(_ *HostConfig, c *Config) {
		rt.fakeRuntime = c.Runtime.(*fakeRuntime)
		c.Runtime = rt
		c.Node.Capacity = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10"),
		}
	}
}

// cpu returns a container that requests cpu, and has a limit of it.
func cpu(amount string) corev1.Container {
	l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Limits: l, Requests: l}}
}

// resize changes the resources of a pod's first container through the API.
func (r *rig) resize(pod, amount string) {
	r.t.Helper()
	next := r.get(pod).DeepCopy()
	next.Spec.Containers[0].Resources = cpu(amount).Resources
	if _, err := r.api.Update(r.t.Context(), client.In(client.Pods, keyOf(next)).Sub("resize"), next, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// waitResize waits until a pod's container is allocated and has the given processors, and the pod has these conditions of a resize.
func (r *rig) waitResize(rt *resizer, pod, amount, conditions string) {
	r.t.Helper()
	want := fmt.Sprintf("%s %s %s", amount, amount, conditions)
	r.until("resize of "+pod, func() string {
		p := r.get(pod)
		got := "no status"
		if list := p.Status.ContainerStatuses; len(list) == 1 && list[0].Resources != nil {
			has := resource.NewMilliQuantity(rt.limits(p, "c").MilliCPU, resource.DecimalSI)
			got = fmt.Sprintf("%s %s %s", list[0].AllocatedResources.Cpu(), has, resizeSummary(p))
		}
		if got != want {
			return fmt.Sprintf("got %q, want %q", got, want)
		}
		return ""
	})
}

func resizeSummary(pod *corev1.Pod) string {
	var out []string
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
			out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Reason, c.Message))
		}
	}
	return strings.Join(out, ", ")
}

func (r *resizer) limits(pod *corev1.Pod, name string) Limits {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, _ := r.pods[pod.UID].latest(name)
	return c.Limits
}

const noRoom = "PodResizePending=Deferred Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"

// TestDeferredResize: a resize for which the node has no room waits until a pod leaves the node, and the container keeps what it has.
func TestDeferredResize(t *testing.T) {
	r, rt := newResizeRig(t, "2")
	r.pod("other", corev1.PodSpec{Containers: []corev1.Container{cpu("1")}})
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{cpu("500m")}})
	for _, name := range []string{"other", "p"} {
		r.waitSummary(name, "Running c:running+started+ready")
	}
	r.resize("p", "1500m")
	r.waitResize(rt, "p", "500m", noRoom)
	r.event("p", "ResizeDeferred", `Pod resize OutOfcpu: {"containers":[{"name":"c","resources":{"limits":{"cpu":"1500m"},"requests":{"cpu":"1500m"}}}],`+
		`"generation":2,"error":"Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000"}`)
	r.pod("third", corev1.PodSpec{Containers: []corev1.Container{cpu("500m")}}) // a resize that waits takes no room
	r.waitSummary("third", "Running c:running+started+ready")

	r.resize("p", "500m") // what it has
	r.waitResize(rt, "p", "500m", "")
	r.resize("p", "1")
	r.waitResize(rt, "p", "500m", "PodResizePending=Deferred Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000")
	if missing := r.missingEvent("p", "ResizeStarted", "…"); missing == "" {
		t.Error("a resize has started")
	}
	r.exit(r.get("third"), "c", 0)
	r.delete("third")
	r.waitResize(rt, "p", "1", "")
	const now = `{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}],"generation":4}`
	r.event("p", "ResizeStarted", "Pod resize started: "+now)
	r.event("p", "ResizeCompleted", "Pod resize completed: "+now)
	r.waitResize(rt, "other", "1", "")
}

// TestDeferredResizesAndFinishedPods: a pod that has finished makes room, first for the resize of the most important pod.
func TestDeferredResizesAndFinishedPods(t *testing.T) {
	r, rt := newResizeRig(t, "3")
	burstable := cpu("500m")
	burstable.Resources.Limits = nil
	big := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{cpu("1500m")}}
	pods := map[string]corev1.PodSpec{
		"big": big, "burstable": {Containers: []corev1.Container{burstable}}, "guaranteed": {Containers: []corev1.Container{cpu("500m")}},
	}
	pods["guaranteed"].Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("64Mi") // the limits are the same map
	for name, spec := range pods {
		r.pod(name, spec)
		r.waitSummary(name, "Running c:running+started+ready")
	}
	waits := func(name, amount string) {
		t.Helper()
		next := r.get(name).DeepCopy()
		res := &next.Spec.Containers[0].Resources
		res.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
		if res.Limits != nil {
			res.Limits[corev1.ResourceCPU] = resource.MustParse(amount)
		}
		if _, err := r.api.Update(t.Context(), client.In(client.Pods, keyOf(next)).Sub("resize"), next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.until(name+" waits", func() string {
			if got := resizeSummary(r.get(name)); !strings.HasPrefix(got, "PodResizePending=Deferred") {
				return fmt.Sprintf("got %q", got)
			}
			return ""
		})
	}
	waits("burstable", "2")
	waits("guaranteed", "2")
	r.exit(r.get("big"), "c", 0)
	r.waitResize(rt, "guaranteed", "2", "")
	if got := resizeSummary(r.get("burstable")); !strings.HasPrefix(got, "PodResizePending=Deferred") {
		t.Errorf("the less important pod: %q", got)
	}
}

// TestResizesAfterRestart: the next kubelet of the node goes on with the resizes that waited, and decides about those of its absence.
func TestResizesAfterRestart(t *testing.T) {
	r, rt := newResizeRig(t, "2")
	for name, amount := range map[string]string{"other": "1", "p": "500m", "q": "100m"} {
		r.pod(name, corev1.PodSpec{Containers: []corev1.Container{cpu(amount)}})
		r.waitSummary(name, "Running c:running+started+ready")
	}
	const full = "PodResizePending=Deferred Node didn't have enough resource: cpu, requested: 950, used: 1100, capacity: 2000"
	r.resize("p", "950m")
	r.waitResize(rt, "p", "500m", full)
	r.stop()
	r.advance(time.Second)
	r.resize("other", "1500m") // while no kubelet runs
	r.start(resizeConfig(rt, "2"))
	r.waitResize(rt, "other", "1", "PodResizePending=Deferred Node didn't have enough resource: cpu, requested: 1500, used: 600, capacity: 2000")
	r.waitResize(rt, "p", "500m", full)
	r.delete("q")
	r.waitResize(rt, "p", "950m", "") // it has waited longer
	r.waitResize(rt, "other", "1", "PodResizePending=Deferred Node didn't have enough resource: cpu, requested: 1500, used: 950, capacity: 2000")
	r.resize("p", "500m")
	r.waitResize(rt, "other", "1500m", "")
}

// TestInfeasibleResize: the containers of a runtime that cannot resize them keep what they have.
func TestInfeasibleResize(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{Containers: []corev1.Container{cpu("500m")}})
	r.waitSummary("p", "Running c:running+started+ready")
	r.resize("p", "700m")
	const message = "In-place pod resize is not supported on this node"
	r.until("the condition", func() string {
		if got := resizeSummary(r.get("p")); got != "PodResizePending=Infeasible "+message {
			return fmt.Sprintf("got %q", got)
		}
		return ""
	})
	r.event("p", "ResizeInfeasible", `Pod resize Infeasible: {"containers":[{"name":"c","resources":{"limits":{"cpu":"700m"},"requests":{"cpu":"700m"}}}],`+
		`"generation":2,"error":"`+message+`"}`)
	if spec, _ := r.runtime.spec(pod.UID, "c"); spec.Limits.MilliCPU != 500 || r.get("p").Status.ContainerStatuses[0].AllocatedResources.Cpu().MilliValue() != 500 {
		t.Errorf("the container has %+v", spec.Limits)
	}
}

// TestResizeError: a resize that the runtime refuses is an Event.
func TestResizeError(t *testing.T) {
	r, rt := newResizeRig(t, "2")
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{cpu("500m")}})
	r.waitSummary("p", "Running c:running+started+ready")
	rt.mu.Lock()
	rt.refuse = errors.New("too little")
	rt.mu.Unlock()
	r.resize("p", "700m")
	r.event("p", "ResizeError", `Pod resize error: {"containers":[{"name":"c","resources":{"limits":{"cpu":"700m"},"requests":{"cpu":"700m"}}}],"generation":2,"error":"too little"}`)
}

// TestSimulatedResize: a resize on a simulated node changes what is accounted.
func TestSimulatedResize(t *testing.T) {
	r := newRig(t, func(_ *HostConfig, c *Config) {
		c.Node.Tier = simTier
		resizeConfig(&resizer{}, "2")(nil, c)
		c.Runtime = c.Runtime.(*resizer).fakeRuntime
	})
	r.pod("other", corev1.PodSpec{Containers: []corev1.Container{cpu("1")}})
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{cpu("500m")}})
	for _, name := range []string{"other", "p"} {
		r.waitSummary(name, "Running c:running+started+ready")
	}
	shows := func(amount, conditions string) {
		t.Helper()
		r.until("the resize", func() string {
			p := r.get("p")
			got := p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String() + " " + resizeSummary(p)
			if got != amount+" "+conditions {
				return fmt.Sprintf("got %q", got)
			}
			return ""
		})
	}
	r.resize("p", "1500m")
	shows("500m", noRoom)
	r.delete("other")
	shows("1500m", "")
}

// TestOrderOfResizes: see compareResizes.
func TestOrderOfResizes(t *testing.T) {
	at := time.Unix(1000, 0)
	resize := func(name string, change func(*waitingResize)) waitingResize {
		r := waitingResize{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, increasing: true, since: at}
		r.pod.Spec.Containers = []corev1.Container{{}}
		change(&r)
		return r
	}
	sorted := []waitingResize{
		resize("z", func(r *waitingResize) { r.increasing = false; r.since = time.Time{} }),
		resize("y", func(r *waitingResize) { r.pod.Spec.Priority = new(int32(2)) }),
		resize("x", func(r *waitingResize) { r.pod.Spec.Priority = new(int32(1)); r.since = at.Add(time.Hour) }),
		resize("w", func(r *waitingResize) {
			l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1")}
			r.pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: l, Limits: l}
			r.since = at.Add(time.Hour)
		}),
		resize("v", func(*waitingResize) {}),
		resize("u", func(r *waitingResize) { r.since = at.Add(time.Second) }),
		resize("a", func(r *waitingResize) { r.since = time.Time{} }),
		resize("b", func(r *waitingResize) { r.since = time.Time{} }),
	}
	names := func(list []waitingResize) string {
		var out []string
		for _, r := range list {
			out = append(out, r.pod.Name)
		}
		return strings.Join(out, "")
	}
	shuffled := slices.Clone(sorted)
	slices.SortFunc(shuffled, func(a, b waitingResize) int { return cmp.Compare(a.pod.Name, b.pod.Name) })
	slices.SortFunc(shuffled, compareResizes)
	if got, want := names(shuffled), names(sorted); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
