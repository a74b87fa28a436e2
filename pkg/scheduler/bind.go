package scheduler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// bind carries out what was decided, beside the loop.
func (s *Scheduler) bind(ctx context.Context, a *attempt) {
	if w := s.waiting.get(a.info.pod.UID); w != nil {
		s.work.Go(func() { s.waitThenBind(ctx, a, w) })
		return
	}
	s.beside(ctx, func() { s.carryOut(ctx, a) })
}

func (s *Scheduler) waitThenBind(ctx context.Context, a *attempt, w *waitingPod) {
	status := w.wait(ctx, s.clock)
	s.waiting.remove(a.info.pod.UID)
	if !status.IsSuccess() {
		s.undo(ctx, a, status)
		return
	}
	s.beside(ctx, func() { s.carryOut(ctx, a) })
}

func (s *Scheduler) carryOut(ctx context.Context, a *attempt) {
	if status := s.preBind(ctx, a); !status.IsSuccess() {
		s.undo(ctx, a, status)
		return
	}
	ctx = trace.With(ctx, a.causes()...)
	for _, st := range a.stages {
		trace.Add(ctx, st.Name, st.Start, st.Took)
	}
	trace.Add(ctx, "bind", a.handed, s.clock.Since(a.handed)) // until the binding is sent
	if status := a.profile.runBind(ctx, a); !status.IsSuccess() {
		s.undo(ctx, a, status)
		return
	}
	for _, plugin := range a.profile.postBind {
		plugin.PostBind(ctx, a.state, a.assumed, a.node)
	}
	s.recorders.action(ctx, a.assumed, corev1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned "+podName(a.assumed)+" to "+a.node)
	s.tell(func(context.Context) { delete(s.binding, string(a.assumed.UID)) })
}

// causes are the revisions that woke the attempt.
func (q *queued) causes() []uint64 {
	if q.woken == 0 || q.woken == q.revision {
		return []uint64{q.revision}
	}
	return []uint64{q.revision, q.woken}
}

// undo gives back what was reserved and lets the loop queue the pod again.
func (s *Scheduler) undo(ctx context.Context, a *attempt, status *framework.Status) {
	a.profile.unreserve(ctx, a)
	s.tell(func(ctx context.Context) { s.giveUp(ctx, a, status) })
}

// preBind runs the PreBind plugins that have something to do with the pod.
func (s *Scheduler) preBind(ctx context.Context, a *attempt) *framework.Status {
	if len(a.profile.preBind) == 0 {
		return nil
	}
	skip := sets.New[string]()
	for _, plugin := range a.profile.preBind {
		_, status := plugin.PreBindPreFlight(ctx, a.state, a.assumed, a.node)
		switch {
		case status.IsSkip():
			skip.Insert(plugin.Name())
		case !status.IsSuccess():
			return broken("PreBindPreFlight", plugin, status)
		}
	}
	a.state.SetSkipPreBindPlugins(skip)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	uid := a.assumed.UID
	s.waiting.addPreBind(uid, cancel)
	defer s.waiting.removePreBind(uid)
	for _, plugin := range a.profile.preBind {
		if skip.Has(plugin.Name()) {
			continue
		}
		if status := plugin.PreBind(ctx, a.state, a.assumed, a.node); !status.IsSuccess() {
			if status.IsRejected() {
				return status.WithPlugin(plugin.Name())
			}
			return broken("PreBind", plugin, status)
		}
	}
	if p := s.waiting.preBinding(uid); p != nil && !p.MarkPrebound() {
		return framework.AsStatus(context.Cause(ctx))
	}
	return nil
}

// runBind asks the Bind plugins in turn until one has bound the pod.
func (p *profile) runBind(ctx context.Context, a *attempt) *framework.Status {
	for _, plugin := range p.bind {
		status := plugin.Bind(ctx, a.state, a.assumed, a.node)
		switch {
		case status.IsSkip():
		case status.IsSuccess():
			return nil
		case status.IsRejected():
			return status.WithPlugin(plugin.Name())
		default:
			return broken("Bind", plugin, status)
		}
	}
	return framework.AsStatus(errors.New("all bind plugins skipped the pod"))
}

// Binder is what this scheduler's Handle can do besides framework.Handle: bind a pod without a detour by client-go.
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
	key := objects.Key{Namespace: pod.Namespace, Name: pod.Name}
	_, err := h.client.Create(ctx, client.In(client.Pods, key).Sub("binding"), BindingFor(pod, node), metav1.CreateOptions{})
	return err
}
