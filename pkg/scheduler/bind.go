package scheduler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/trace"
)

// startBinding runs the binding cycle of an assumed pod in a goroutine, once its Permit plugins have allowed it.
func (s *Scheduler) startBinding(ctx context.Context, a *attempt) {
	a.profile.setup.bindings.Add(1)
	s.metrics.goroutines.WithLabelValues(bindingOperation).Inc()
	w := s.waiting.get(a.info.pod.UID)
	if w == nil {
		s.runBinding(ctx, a)
		return
	}
	s.decisions.sendScheduled(a)
	ctx, work := clock.Begin(ctx, s.clock, "pods that wait for Permit plugins")
	s.work.Go(func() {
		defer work.End()
		ctx, end := clock.TakeTurn(ctx, s.clock, clock.Rank{Part: "scheduler, Permit plugins", Key: podName(a.info.pod)})
		defer end()
		if !w.decided.Load() {
			s.nominate(ctx, a)
		}
		waiting := s.clock.Now()
		status := w.wait(ctx)
		s.metrics.permitWait.WithLabelValues(status.Code().String()).Observe(s.clock.Since(waiting).Seconds())
		s.waiting.remove(a.info.pod.UID)
		if !status.IsSuccess() {
			s.unreserveAndForget(ctx, a, status)
			s.bindingEnded(a)
			return
		}
		s.runBinding(ctx, a)
	})
}

// bindingOperation is the label of binding cycles in the metric of goroutines.
const bindingOperation = "binding"

// bindingEnded ends the count of a binding cycle among those in progress.
func (s *Scheduler) bindingEnded(a *attempt) {
	s.metrics.goroutines.WithLabelValues(bindingOperation).Dec()
	a.profile.setup.bindings.Done()
}

// slowBinding is how long a binding cycle counts as an API call in progress. A longer one waits for a plugin and does
// not keep the loop from starting others.
const slowBinding = time.Second

func (s *Scheduler) runBinding(ctx context.Context, a *attempt) {
	started := s.spawn(ctx, slowBinding, func(ctx context.Context) {
		defer s.bindingEnded(a)
		s.bindingCycle(ctx, a)
	})
	if !started {
		s.bindingEnded(a)
	}
}

func (s *Scheduler) bindingCycle(ctx context.Context, a *attempt) {
	if status := s.preBind(ctx, a); !status.IsSuccess() {
		s.unreserveAndForget(ctx, a, status)
		return
	}
	awaitWritten(ctx, a.written)
	ctx = trace.With(ctx, a.causes()...)
	for _, st := range a.stages {
		trace.Add(ctx, st.Name, st.Start, st.Took)
	}
	trace.Add(ctx, "bind", a.bindStart, s.machine.Since(a.bindStart)) // until the binding is sent
	status, done := a.profile.bindByExtender(ctx, a)
	if !done {
		status = a.profile.runBind(ctx, a)
	}
	if !status.IsSuccess() {
		s.unreserveAndForget(ctx, a, status)
		return
	}
	s.metrics.scheduled(a, s.clock.Now())
	s.recorders.action(ctx, a.assumed, corev1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned "+podName(a.assumed)+" to "+a.node)
	s.decisions.sendScheduled(a)
	s.post(func(context.Context) { delete(s.binding, string(a.assumed.UID)) })
	a.profile.runPostBind(ctx, a)
}

func (p *profile) runPostBind(ctx context.Context, a *attempt) {
	if len(p.postBind) > 0 {
		defer a.ran("PostBind", a.now(), new(*framework.Status))
	}
	for _, plugin := range p.postBind {
		if plugin.passes(a) {
			continue
		}
		measured := a.measure(plugin.site)
		_, failure := call(ctx, plugin.site, plugin.timeouts.binding, func(ctx context.Context) struct{} {
			plugin.plugin.PostBind(ctx, a.state, a.assumed, a.node)
			return struct{}{}
		})
		measured(failure.or(nil))
	}
}

// causes are the revisions that triggered the attempt.
func (q *queuedPodInfo) causes() []uint64 {
	if q.cause == 0 || q.cause == q.revision {
		return []uint64{q.revision}
	}
	return []uint64{q.revision, q.cause}
}

// unreserveAndForget ends a failed binding cycle: the loop removes the pod from its node and requeues it.
func (s *Scheduler) unreserveAndForget(ctx context.Context, a *attempt, status *framework.Status) {
	a.profile.unreserve(ctx, a)
	s.post(func(ctx context.Context) { s.forgetPod(ctx, a, status) })
}

// preBind runs the PreBind plugins whose PreBindPreFlight does not skip the pod.
func (s *Scheduler) preBind(ctx context.Context, a *attempt) *framework.Status {
	if len(a.profile.preBind) == 0 {
		return nil
	}
	skip, status := a.profile.runPreBindPreFlight(ctx, a)
	if status != nil {
		return status
	}
	a.state.SetSkipPreBindPlugins(skip)
	if skip.Len() == len(a.profile.preBind) {
		return nil
	}
	s.decisions.sendScheduled(a)
	if !a.nominated {
		s.nominate(ctx, a)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	uid := a.assumed.UID
	s.waiting.addPreBind(uid, cancel)
	defer s.waiting.removePreBind(uid)
	if status := a.profile.runPreBind(ctx, a, skip); status != nil {
		return status
	}
	if p := s.waiting.preBinding(uid); p != nil && !p.MarkPrebound() {
		return framework.AsStatus(context.Cause(ctx))
	}
	return nil
}

// runPreBind runs the PreBind plugins, except those to skip.
func (p *profile) runPreBind(ctx context.Context, a *attempt, skip sets.Set[string]) (status *framework.Status) {
	defer a.ran("PreBind", a.now(), &status)
	for _, plugin := range p.preBind {
		if skip.Has(plugin.name) {
			continue
		}
		measured := a.measure(plugin.site)
		status, failure := call(ctx, plugin.site, plugin.timeouts.binding, func(ctx context.Context) *framework.Status {
			return plugin.plugin.PreBind(ctx, a.state, a.assumed, a.node)
		})
		measured(failure.or(status))
		if status = plugin.result(status, failure); status != nil {
			return status
		}
	}
	return nil
}

// nominate writes the pod's node to status.nominatedNodeName while the binding waits for Permit or PreBind plugins, so
// that other components, e.g. an autoscaler, can see the node.
func (s *Scheduler) nominate(ctx context.Context, a *attempt) {
	a.nominated = true
	info := &framework.NominatingInfo{NominatingMode: framework.ModeOverride, NominatedNodeName: a.node}
	if renominates(a.assumed, info) {
		s.patchStatus(ctx, a.assumed, nil, info)
	}
}

// runPreBindPreFlight returns the PreBind plugins that have nothing to do for the pod.
func (p *profile) runPreBindPreFlight(ctx context.Context, a *attempt) (skip sets.Set[string], status *framework.Status) {
	defer a.ran("PreBindPreFlight", a.now(), &status)
	skip = sets.New[string]()
	for _, plugin := range p.preBind {
		if plugin.passes(a) {
			skip.Insert(plugin.name)
			continue
		}
		at := &site{instance: plugin.instance, point: "PreBindPreFlight"}
		measured := a.measure(at)
		status, failure := call(ctx, at, plugin.timeouts.cycle, func(ctx context.Context) *framework.Status {
			_, status := plugin.plugin.PreBindPreFlight(ctx, a.state, a.assumed, a.node)
			return status
		})
		measured(failure.or(status))
		switch {
		case failure == nil && status.IsSkip():
			skip.Insert(plugin.name)
		case failure != nil:
			return nil, failure.status()
		case !status.IsSuccess():
			return nil, at.failed(status)
		}
	}
	return skip, nil
}

// runBind calls the Bind plugins in order until one binds the pod.
func (p *profile) runBind(ctx context.Context, a *attempt) (status *framework.Status) {
	defer a.ran("Bind", a.now(), &status)
	for _, plugin := range p.bind {
		measured := a.measure(plugin.site)
		status, failure := call(ctx, plugin.site, plugin.timeouts.binding, func(ctx context.Context) *framework.Status {
			return plugin.plugin.Bind(ctx, a.state, a.assumed, a.node)
		})
		measured(failure.or(status))
		if failure == nil && status.IsSkip() {
			continue
		}
		return plugin.result(status, failure)
	}
	return framework.AsStatus(errors.New("all bind plugins skipped the pod"))
}

// Binder is an optional interface of the Handle: it binds a pod with the scheduler's own client instead of client-go.
type Binder interface {
	BindPod(ctx context.Context, pod *corev1.Pod, node string) error
}

// BindingFor returns the object that binds pod to node.
func BindingFor(pod *corev1.Pod, node string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

var _ Binder = (*handle)(nil)

// BindPod binds pod to node.
func (h *handle) BindPod(ctx context.Context, pod *corev1.Pod, node string) error {
	return h.binder.bind(ctx, BindingFor(pod, node))
}
