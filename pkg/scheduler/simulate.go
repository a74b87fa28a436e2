package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// Simulation is a question: where would Pod go in a cluster of these nodes and pods? Config may be nil.
type Simulation struct {
	Registry   Registry
	Config     *configv1.KubeSchedulerConfiguration
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod // those with a nodeName count
	Namespaces []*corev1.Namespace
	Pod        *corev1.Pod
	Draw       func(n int) int // chooses among equally good nodes; nil: the first
}

// Outcome is the answer: a node, or the message that says why there is none. Scores are of all nodes that passed, best
// first.
type Outcome struct {
	Node    string
	Message string
	Scores  []minikctl.NodeScore
}

// Simulate runs one scheduling cycle on a cluster that is given, without a server, a queue or a clock.
func Simulate(ctx context.Context, q Simulation) (Outcome, error) {
	s := &Scheduler{registry: q.Registry, namespaces: givenNamespaces(q.Namespaces), cluster: newSnapshot(), waiting: newWaitingPods(), bridge: newBridge(nil), recorders: newRecorders(nil, nil, nil)}
	conf := q.Config
	if conf == nil {
		conf = &configv1.KubeSchedulerConfiguration{}
	}
	made, err := s.prepare(ctx, conf)
	if err != nil {
		return Outcome{}, err
	}
	if err := fillSnapshot(s.cluster, q.Nodes, q.Pods); err != nil {
		return Outcome{}, err
	}
	pod := q.Pod
	name := pod.Spec.SchedulerName
	if name == "" {
		name = corev1.DefaultSchedulerName
	}
	prof, ok := made.profiles[name]
	if !ok {
		return Outcome{}, fmt.Errorf("no profile for schedulerName %q", name)
	}
	draw := q.Draw
	if draw == nil {
		draw = func(int) int { return 0 }
	}
	d := prof.decide(ctx, s.cluster, pod, prof.evaluate(ctx, s.cluster, pod, func() {}), draw)
	if d.status != nil {
		return Outcome{Message: d.message()}, nil
	}
	return Outcome{Node: d.node.node.Name, Scores: d.scores(d.feasible)}, nil
}

// fillSnapshot puts nodes and pods into an empty snapshot. Pods without a UID are told apart by their place.
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
		cluster.place(info, pod.Spec.NodeName, false)
	}
	return nil
}
