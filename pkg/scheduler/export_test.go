package scheduler

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Bench is the loop's part of a scheduler, without an API: decisions and assumptions, pod by pod.
type Bench struct {
	s      *Scheduler
	forget bool
	// Explain makes Schedule set Scores: each node's total and scores by plugin.
	Explain bool
	Scores  string
	// Preemption is that of the last pod, nil if there is none.
	Preemption *Preemption
	Budgets    []*policyv1.PodDisruptionBudget
}

// NewBench returns a bench of a cluster with Services and controllers. With forget, the memo is cleared after each pod.
func NewBench(t testing.TB, registry Registry, conf *configv1.KubeSchedulerConfiguration, seed uint64, forget bool, selecting ...objects.Object) *Bench {
	t.Helper()
	if conf == nil {
		conf = &configv1.KubeSchedulerConfiguration{}
	}
	src := clock.NewSource(seed)
	b := &Bench{forget: forget}
	s := &Scheduler{
		clock: clock.Real(), machine: clock.Real(), source: src, random: clock.NewSource(seed), registry: registry, namespaces: newSimulatedNamespaces(nil), budgets: func() []*policyv1.PodDisruptionBudget { return b.Budgets },
		selects: selectingCaches(selecting, clock.Real()),
		waiting: newWaitingPods(), nominator: newNominator(), bridge: newBridge(nil), recorders: newRecorders(nil, clock.Real(), src),
		memo: newMemo(), binding: map[string]*queuedPodInfo{}, decisions: newReporter(nil, clock.Real(), src), objects: watchedOf(nil), devices: newDevices(),
	}
	s.devices.simulate(s.objects)
	if err := s.init(context.Background(), conf, PluginTimeouts{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stopPlugins(context.Background()) })
	b.s = s
	return b
}

// SetNode, RemoveNode and RemovePod change the cluster.
func (b *Bench) SetNode(n *corev1.Node)    { b.s.cluster.setNode(n) }
func (b *Bench) RemoveNode(name string)    { b.s.cluster.removeNode(name) }
func (b *Bench) RemovePod(pod *corev1.Pod) { b.s.cluster.removePod(pod.UID) }

// Run puts a running pod on a node.
func (b *Bench) Run(pod *corev1.Pod, node string) {
	info, err := newPodInfo(pod)
	if err != nil {
		panic(err)
	}
	b.s.cluster.addPod(info, node, false)
}

// Nominate nominates a pod to the node in its status.
func (b *Bench) Nominate(pod *corev1.Pod) {
	b.s.nominator.add(&podInfo{pod: pod, requests: requestsOf(pod)}, nil)
}

// Schedule schedules a pod and assumes it on its node. It returns the node, or the message.
func (b *Bench) Schedule(pod *corev1.Pod) string {
	ctx := context.Background()
	info, err := newPodInfo(pod)
	if err != nil {
		return err.Error()
	}
	if b.forget {
		b.s.memo = newMemo()
	}
	now := b.s.machine.Now()
	p := b.s.queue.add(ctx, info, 1, now)
	b.s.queue.detach(ctx, p)
	a := &attempt{queuedPodInfo: p, profile: b.s.setup.profiles[pod.Spec.SchedulerName]}
	d := b.s.decide(ctx, a, now)
	b.Scores, b.Preemption = "", d.preemption
	if d.status != nil {
		delete(b.s.queue.pods, pod.UID)
		return d.message()
	}
	a.node = d.node.node.Name
	if b.Explain {
		b.Scores = fmt.Sprint(d.scores(len(d.cluster.nodes)))
	}
	b.s.decisions.scheduled(a, &d, 1000)
	b.s.decisions.sendScheduled(a)
	select {
	case <-b.s.decisions.queue:
	default:
	}
	b.s.assume(a)
	delete(b.s.binding, string(pod.UID))
	return a.node
}

// MemoLen returns the number of signatures in the memo.
func (b *Bench) MemoLen() int { return len(b.s.memo.entries) }

// Updated returns how often an evaluation in the memo was updated.
func (b *Bench) Updated() int {
	n := 0
	for _, el := range b.s.memo.entries {
		if s := el.Value.(*memoEntry).scratch; s != nil {
			n += int(s.updates)
		}
	}
	return n
}

// Release frees the memory that only a busy scheduler needs.
func (b *Bench) Release() {
	b.s.Release()
	b.s.drainInbox(context.Background())
}

// InspectWith is Inspect for a cluster with feature gates.
func InspectWith(ctx context.Context, q Simulation) (*Inspection, error) {
	s, err := newOffline(ctx, q)
	if err != nil {
		return nil, err
	}
	defer s.stopPlugins(ctx)
	return s.setup.inspect(), nil
}

// Nominate nominates a pod to the node in its status.
func (b *Sandbox) Nominate(pod *corev1.Pod) { (&Bench{s: b.s}).Nominate(pod) }
