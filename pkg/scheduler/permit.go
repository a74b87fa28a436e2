package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
)

// waitingPods holds the assumed pods that wait in Permit, and those whose PreBind plugins run. It is safe for concurrent
// use.
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

// waitingPod is an assumed pod that waits in Permit: it is bound once every pending plugin has allowed it. It is a
// framework.WaitingPod.
type waitingPod struct {
	pod     *corev1.Pod
	result  chan *framework.Status // takes the first result; later ones are dropped
	decided atomic.Bool            // result has taken one, or does so next

	mu      sync.Mutex
	pending map[string]clock.Timer // by plugin: rejects the pod when it fires
}

// newWaitingPod starts a timer for each plugin that returned Wait, with the plugin's timeout.
func newWaitingPod(clk clock.Clock, pod *corev1.Pod, timeouts map[string]time.Duration) *waitingPod {
	w := &waitingPod{pod: pod, pending: map[string]clock.Timer{}, result: make(chan *framework.Status, 1)}
	w.mu.Lock() // a timer that fires at once waits here until all are started
	defer w.mu.Unlock()
	for plugin, timeout := range timeouts {
		w.pending[plugin] = clk.AfterFunc(timeout, func() { w.timeOut(plugin, timeout) })
	}
	return w
}

// timeOut rejects the pod, unless the plugin has allowed it just before.
func (w *waitingPod) timeOut(plugin string, timeout time.Duration) {
	w.mu.Lock()
	_, pending := w.pending[plugin]
	w.mu.Unlock()
	if pending {
		w.Reject(plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", timeout, plugin))
	}
}

// wait blocks until all plugins have allowed the pod, one has rejected it or timed out, or ctx ends.
func (w *waitingPod) wait(ctx context.Context) *framework.Status {
	defer w.stopTimers()
	var out *framework.Status
	clock.WorkOf(ctx).Idle(w.decided.Load, func() {
		select {
		case out = <-w.result:
		case <-ctx.Done():
			out = framework.AsStatus(ctx.Err())
		}
	})
	return out
}

func (w *waitingPod) stopTimers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.pending {
		t.Stop()
	}
}

func (w *waitingPod) finish(s *framework.Status) bool {
	w.decided.Store(true)
	select {
	case w.result <- s:
		return true
	default:
		return false
	}
}

// GetPod and the methods below implement framework.WaitingPod.
func (w *waitingPod) GetPod() *corev1.Pod { return w.pod }

func (w *waitingPod) GetPendingPlugins() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.pending))
}

func (w *waitingPod) Allow(plugin string) {
	w.mu.Lock()
	if t, ok := w.pending[plugin]; ok {
		t.Stop()
		delete(w.pending, plugin)
	}
	left := len(w.pending)
	w.mu.Unlock()
	if left == 0 {
		w.finish(nil)
	}
}

func (w *waitingPod) Reject(plugin, msg string) bool {
	return w.finish(framework.NewStatus(framework.Unschedulable, msg).WithPlugin(plugin))
}

func (w *waitingPod) Preempt(plugin, msg string) bool {
	return w.finish(framework.AsStatus(errors.New(msg)).WithPlugin(plugin))
}

// preBindPod is a pod whose PreBind plugins run. Its binding can be canceled until it is marked as prebound. It is a
// framework.PodInPreBind.
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
