package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
)

// waitingPods are the pods that have a node but are not bound yet because a Permit plugin makes them wait, and those
// whose PreBind plugins run. It is safe for concurrent use.
type waitingPods struct {
	mu      sync.RWMutex
	pods    map[types.UID]*waitingPod
	prebind map[types.UID]*preBindPod
}

func newWaitingPods() *waitingPods {
	return &waitingPods{pods: map[types.UID]*waitingPod{}, prebind: map[types.UID]*preBindPod{}}
}

func (w *waitingPods) add(p *waitingPod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[p.pod.UID] = p
}

func (w *waitingPods) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

func (w *waitingPods) get(uid types.UID) *waitingPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.pods[uid]
}

func (w *waitingPods) each(f func(framework.WaitingPod)) {
	w.mu.RLock()
	all := make([]*waitingPod, 0, len(w.pods))
	for _, p := range w.pods {
		all = append(all, p)
	}
	w.mu.RUnlock()
	for _, p := range all {
		f(p)
	}
}

func (w *waitingPods) addPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prebind[uid] = &preBindPod{cancel: cancel}
}

func (w *waitingPods) preBinding(uid types.UID) *preBindPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.prebind[uid]
}

func (w *waitingPods) removePreBind(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.prebind, uid)
}

// waitingPod is a pod that Permit plugins make wait, each for so long. It is a framework.WaitingPod.
type waitingPod struct {
	pod     *corev1.Pod
	first   string                 // the plugin that waits least
	soonest time.Duration          // how long
	verdict chan *framework.Status // takes one; what comes later is too late

	mu      sync.Mutex
	pending map[string]time.Duration
}

func newWaitingPod(pod *corev1.Pod, pending map[string]time.Duration) *waitingPod {
	w := &waitingPod{pod: pod, pending: pending, verdict: make(chan *framework.Status, 1)}
	for plugin, d := range pending {
		if w.first == "" || d < w.soonest || d == w.soonest && plugin < w.first {
			w.first, w.soonest = plugin, d
		}
	}
	return w
}

// wait blocks until the plugins have allowed the pod, one has rejected it, or one's time has passed.
func (w *waitingPod) wait(ctx context.Context, clk clock.Clock) *framework.Status {
	t := clk.NewTimer(w.soonest)
	defer t.Stop()
	select {
	case s := <-w.verdict:
		return s
	case <-t.C():
		return framework.NewStatus(framework.Unschedulable, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", w.soonest, w.first)).WithPlugin(w.first)
	case <-ctx.Done():
		return framework.AsStatus(ctx.Err())
	}
}

func (w *waitingPod) decide(s *framework.Status) bool {
	select {
	case w.verdict <- s:
		return true
	default:
		return false
	}
}

// GetPod and the methods below are framework.WaitingPod's.
func (w *waitingPod) GetPod() *corev1.Pod { return w.pod }

func (w *waitingPod) GetPendingPlugins() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]string, 0, len(w.pending))
	for plugin := range w.pending {
		out = append(out, plugin)
	}
	slices.Sort(out)
	return out
}

func (w *waitingPod) Allow(plugin string) {
	w.mu.Lock()
	delete(w.pending, plugin)
	left := len(w.pending)
	w.mu.Unlock()
	if left == 0 {
		w.decide(nil)
	}
}

func (w *waitingPod) Reject(plugin, msg string) bool {
	return w.decide(framework.NewStatus(framework.Unschedulable, msg).WithPlugin(plugin))
}

func (w *waitingPod) Preempt(plugin, msg string) bool {
	return w.decide(framework.AsStatus(errors.New(msg)).WithPlugin(plugin))
}

// preBindPod is a pod whose PreBind plugins run and can still be stopped. It is a framework.PodInPreBind.
type preBindPod struct {
	mu       sync.Mutex
	cancel   context.CancelCauseFunc
	prebound bool
	canceled bool
}

func (p *preBindPod) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prebound {
		return false
	}
	p.canceled = true
	p.cancel(errors.New(reason))
	return true
}

func (p *preBindPod) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canceled {
		return false
	}
	p.prebound = true
	return true
}
