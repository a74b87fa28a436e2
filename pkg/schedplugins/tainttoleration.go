package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// taintToleration filters out nodes with NoSchedule and NoExecute taints that the pod does not tolerate, and prefers
// nodes with fewer untolerated PreferNoSchedule taints.
type taintToleration struct {
	cooperative
	local
}

func newTaintToleration(framework.Handle) framework.Plugin { return taintToleration{} }

func (taintToleration) Name() string { return "TaintToleration" }

func forbids(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// untolerated returns the node's first taint that rejects the pod.
func untolerated(pod *corev1.Pod, node *corev1.Node) (corev1.Taint, bool) {
	if len(node.Spec.Taints) == 0 {
		return corev1.Taint{}, false
	}
	return helper.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, forbids, comparisonTolerations)
}

func (taintToleration) Filter(_ context.Context, _ framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	if _, found := untolerated(pod, node.Node()); !found {
		return nil
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) had untolerated taint(s)")
}

// Explain implements scheduler.Explainer.
func (taintToleration) Explain(pod *corev1.Pod, node framework.NodeInfo) string {
	taint, found := untolerated(pod, node.Node())
	if !found {
		return ""
	}
	return "taint " + taint.ToString()
}

// softTolerations are the pod's tolerations that apply to PreferNoSchedule taints.
type softTolerations []corev1.Toleration

// Clone implements framework.StateData; the value never changes.
func (s softTolerations) Clone() framework.StateData { return s }

const softKey framework.StateKey = "PreScoreTaintToleration"

func soft(pod *corev1.Pod) softTolerations {
	var out softTolerations
	for _, t := range pod.Spec.Tolerations {
		if t.Effect == "" || t.Effect == corev1.TaintEffectPreferNoSchedule {
			out = append(out, t)
		}
	}
	return out
}

func (taintToleration) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) *framework.Status {
	state.Write(softKey, soft(pod))
	return nil
}

// Score counts the PreferNoSchedule taints that the pod does not tolerate.
func (taintToleration) Score(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) (int64, *framework.Status) {
	taints := node.Node().Spec.Taints
	if len(taints) == 0 {
		return 0, nil
	}
	tolerations := soft(pod)
	if s, err := state.Read(softKey); err == nil {
		tolerations = s.(softTolerations)
	}
	var n int64
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule &&
			!helper.TolerationsTolerateTaint(klog.Logger{}, tolerations, &taints[i], comparisonTolerations) {
			n++
		}
	}
	return n, nil
}

func (t taintToleration) ScoreExtensions() framework.ScoreExtensions { return t }

func (taintToleration) NormalizeScore(_ context.Context, _ framework.CycleState, _ *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	normalise(scores, true)
	return nil
}

func (taintToleration) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signature(framework.TolerationsSignerName, framework.TolerationsSigner(pod))
}

func (taintToleration) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	tolerable := func(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
		if p := podOf(now); p != nil {
			return queueIf(p.UID == pod.UID), nil
		}
		n, was := nodeOf(now), nodeOf(old)
		if n == nil {
			return framework.QueueSkip, nil
		}
		if _, found := untolerated(pod, n); found || was == nil {
			return queueIf(!found), nil
		}
		_, found := untolerated(pod, was)
		return queueIf(found), nil
	}
	return []framework.ClusterEventWithHint{
		on(framework.Node, framework.Add|framework.UpdateNodeTaint, tolerable),
		on(framework.Pod, framework.UpdatePodToleration, tolerable),
	}, nil
}
