package schedplugins

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// witness is an out-of-tree plugin with every extension point of pods except Sign. It records its calls. The pod
// "waits" waits in Permit, the first binding of "stumbles" fails, and Permit always rejects "refused".
type witness struct {
	handle framework.Handle
	mu     sync.Mutex
	calls  map[string][]string // by pod
	failed bool
}

func (w *witness) Name() string { return "Witness" }

func (w *witness) note(p *corev1.Pod, call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[p.Name] = append(w.calls[p.Name], call)
}

func (w *witness) of(pod string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls[pod])
}

func (w *witness) PreFilter(_ context.Context, s framework.CycleState, p *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	w.note(p, "PreFilter")
	return nil, nil
}
func (w *witness) PreFilterExtensions() framework.PreFilterExtensions { return nil }
func (w *witness) Filter(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ framework.NodeInfo) *framework.Status {
	w.note(p, "Filter")
	return nil
}
func (w *witness) Reserve(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	w.note(p, "Reserve")
	return nil
}
func (w *witness) Unreserve(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) {
	w.note(p, "Unreserve")
}
func (w *witness) Permit(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) (*framework.Status, time.Duration) {
	w.note(p, "Permit")
	switch p.Name {
	case "waits":
		return framework.NewStatus(framework.Wait), time.Minute
	case "refused":
		return framework.NewStatus(framework.Unschedulable, "refused by the witness"), 0
	}
	return nil, 0
}
func (w *witness) PreBindPreFlight(context.Context, framework.CycleState, *corev1.Pod, string) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, nil
}
func (w *witness) PreBind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	w.note(p, "PreBind")
	return nil
}
func (w *witness) Bind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	w.note(p, "Bind")
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Name == "stumbles" && !w.failed {
		w.failed = true
		return framework.AsStatus(errors.New("stumbled"))
	}
	return framework.NewStatus(framework.Skip)
}
func (w *witness) PostBind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) {
	w.note(p, "PostBind")
}

// TestPoints checks that a plugin is called at each extension point in order, and that its statuses take effect.
func TestPoints(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8")
	w := &witness{calls: map[string][]string{}}
	registry := maps.Clone(Registry)
	registry["Witness"] = func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		w.handle = h
		return w, nil
	}
	conf := &configv1.KubeSchedulerConfiguration{}
	if err := plug.Decode([]byte(header+"profiles: [{plugins: {multiPoint: {enabled: [{name: Witness}]}, bind: {disabled: [{name: '*'}], enabled: [{name: Witness}, {name: DefaultBinder}]}}}]"), conf); err != nil {
		t.Fatal(err)
	}
	c.start(func(cfg *scheduler.Config) { cfg.Registry, cfg.Config = registry, conf })

	c.pod("plain", "100m")
	c.bound("plain")
	c.calls(w, "plain", "PreFilter Filter Reserve Permit PreBind Bind PostBind")

	c.pod("refused", "100m")
	c.eventually("Unreserve", func() bool { return slices.Contains(w.of("refused"), "Unreserve") })
	c.unschedulable("refused", "refused by the witness")
	c.calls(w, "refused", "PreFilter Filter Reserve Permit Unreserve") // not tried again, since there was no event

	c.pod("waits", "100m")
	var waiting framework.WaitingPod
	c.eventually("waiting pod", func() bool {
		w.handle.IterateOverWaitingPods(func(p framework.WaitingPod) { waiting = p })
		return waiting != nil
	})
	if got := waiting.GetPendingPlugins(); !slices.Equal(got, []string{"Witness"}) {
		t.Errorf("waits for %v", got)
	}
	// The test's cache may be behind the scheduler's.
	if p := c.until("waits", "there", func(*corev1.Pod) bool { return true }); p.Spec.NodeName != "" {
		t.Error("bound while it waits")
	}
	waiting.Allow("Witness")
	c.bound("waits")

	c.pod("stumbles", "100m")
	c.bound("stumbles") // after its backoff
	c.calls(w, "stumbles", "PreFilter Filter Reserve Permit PreBind Bind Unreserve PreFilter Filter Reserve Permit PreBind Bind PostBind")
}

func (c *cluster) calls(w *witness, pod, want string) {
	c.t.Helper()
	if strings.HasSuffix(want, "PostBind") {
		c.eventually("PostBind of "+pod, func() bool { return slices.Contains(w.of(pod), "PostBind") })
	}
	if got := strings.Join(w.of(pod), " "); got != want {
		c.t.Errorf("%s was seen at\n     %s\nwant %s", pod, got, want)
	}
}

// TestHandle calls the methods of the Handle, including the unsupported ones.
func TestHandle(t *testing.T) {
	c := newCluster(t)
	var h framework.Handle
	registry := maps.Clone(Registry)
	registry["Witness"] = func(_ context.Context, _ runtime.Object, given framework.Handle) (framework.Plugin, error) {
		h = given
		h.SharedInformerFactory().Core().V1().Namespaces().Informer() // requested here, so the scheduler runs it
		return &witness{handle: h, calls: map[string][]string{}}, nil
	}
	conf := &configv1.KubeSchedulerConfiguration{}
	if err := plug.Decode([]byte(header+"profiles: [{plugins: {multiPoint: {enabled: [{name: Witness}]}}}]"), conf); err != nil {
		t.Fatal(err)
	}
	c.start(func(cfg *scheduler.Config) { cfg.Registry, cfg.Config = registry, conf })
	c.node("n", "1")
	c.pod("p", "10m")
	c.bound("p")
	ctx := context.Background()
	if ns, err := h.SharedInformerFactory().Core().V1().Namespaces().Lister().Get("default"); err != nil || ns.Name != "default" {
		t.Errorf("the informer has %v, %v", ns, err)
	}
	if p, err := h.ClientSet().CoreV1().Pods("default").Get(ctx, "p", getOptions); err != nil || p.Spec.NodeName != "n" {
		t.Errorf("the clientset gets %v, %v", p, err)
	}
	if h.KubeConfig() == nil || h.EventRecorder() == nil || h.Parallelizer() == nil {
		t.Error("the Handle lacks a part")
	}
	if h.GetWaitingPod("x") != nil || h.RejectWaitingPod("x") || h.GetPodInPreBind("x") != nil || h.Extenders() != nil || h.NominatedPodsForNode("n") != nil {
		t.Error("the Handle has something of nothing")
	}
	if _, err := h.SharedDRAManager().ResourceClaims().Get("a", "b"); err == nil {
		t.Error("there is a resource claim")
	}
	if nodes, err := h.SharedCSIManager().CSINodes().List(); err != nil || len(nodes) != 0 {
		t.Errorf("CSI nodes: %v, %v", nodes, err)
	}
	if _, err := h.PodGroupManager().PodGroupStates().Get("a", "b"); err == nil {
		t.Error("there is a pod group")
	}
}
