package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// Simulation is a cluster of nodes and pods, and a pod to schedule in it. Config may be nil. Zero Timeouts mean the defaults.
type Simulation struct {
	Registry   Registry
	Config     *configv1.KubeSchedulerConfiguration
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod // those without a nodeName are ignored
	Namespaces []*corev1.Namespace
	Budgets    []*policyv1.PodDisruptionBudget
	Selecting  []objects.Object // Services, and controllers of pods: what Selectors finds
	Timeouts   PluginTimeouts
	Objects    map[framework.EventResource][]objects.Object // of other resources that plugins register for, as PodGroups
	Features   feature.Gates
	Pod        *corev1.Pod
	Clock      clock.Clock     // of the plugins and the queue; nil: the machine's
	Draw       func(n int) int // chooses among equally good nodes; nil: the first
}

// SchedulersWith returns the schedulerNames of the profiles that enable a plugin at an extension point, by the point's name in configurations: preFilter.
func (q Simulation) SchedulersWith(plugin, point string) []string {
	profiles := []configv1.KubeSchedulerProfile{{}}
	if q.Config != nil && len(q.Config.Profiles) > 0 {
		profiles = q.Config.Profiles
	}
	var out []string
	for _, prof := range profiles {
		merged := mergeDefaults(q.Registry, q.Features, prof.Plugins)
		for _, pt := range points() {
			if pt.name == point && lists(order(*pt.set(merged), merged.MultiPoint.Enabled), plugin) {
				out = append(out, profileName(prof))
			}
		}
	}
	return out
}

// Outcome is the result: a node, or the message of the FailedScheduling event, and the preemption that makes room, if there is one. Scores has
// all nodes that passed, best first.
type Outcome struct {
	Node       string
	Message    string
	Preemption *Preemption
	Scores     []NodeScore
}

// NodeScore is the score of a feasible node.
type NodeScore struct {
	Node    string
	Total   int64
	Plugins []minikctl.PluginScore
}

// Simulate runs one scheduling cycle on a cluster that is given, without a server, a queue or a clock.
func Simulate(ctx context.Context, q Simulation) (Outcome, error) {
	s, err := newOffline(ctx, q)
	if err != nil {
		return Outcome{}, err
	}
	defer s.stopPlugins(ctx)
	if err := fillSnapshot(s.cluster, q.Nodes, q.Pods); err != nil {
		return Outcome{}, err
	}
	pod := q.Pod
	name := pod.Spec.SchedulerName
	if name == "" {
		name = corev1.DefaultSchedulerName
	}
	prof, ok := s.setup.profiles[name]
	if !ok {
		return Outcome{}, fmt.Errorf("no profile for schedulerName %q", name)
	}
	draw := q.Draw
	if draw == nil {
		draw = func(int) int { return 0 }
	}
	var d decision
	failure := s.calls.do(ctx, prof.cooperative, func(ctx context.Context, t *tracker) {
		d = prof.decide(ctx, t, s.cluster, pod, prof.evaluate(ctx, t, s.cluster, pod, newCycleState(), func() {}), draw)
	})
	if failure != nil {
		return Outcome{Message: failure.Error()}, nil
	}
	if d.status != nil {
		return Outcome{Message: d.message(), Preemption: d.preemption}, nil
	}
	out := Outcome{Node: d.node.node.Name}
	for _, i := range d.best.top(d.feasible) {
		out.Scores = append(out.Scores, NodeScore{Node: d.candidates[i].node.Name, Total: d.totals[i], Plugins: d.pluginScores(i)})
	}
	return out, nil
}

// fillSnapshot puts nodes and pods into an empty snapshot. A pod without a UID gets one from its index.
func fillSnapshot(cluster *snapshot, nodes []*corev1.Node, pods []*corev1.Pod) error {
	for _, n := range nodes {
		cluster.setNode(n)
	}
	for i, pod := range pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		if pod.UID == "" {
			pod = pod.DeepCopy()
			pod.UID = types.UID(fmt.Sprintf("pod-%d", i))
		}
		info, err := newPodInfo(pod)
		if err != nil {
			return err
		}
		cluster.groups.set(pod)
		cluster.addPod(info, pod.Spec.NodeName, false)
	}
	return nil
}
