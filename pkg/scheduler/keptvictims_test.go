package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestKeptVictims checks that pods evict the same victims, whether what is known about the nodes is kept for the next pod of the same signature
// or not, while pods run, are evicted, change and are nominated, and budgets and nodes change.
func TestKeptVictims(t *testing.T) {
	if testing.Short() {
		t.Skip("the goroutines are those of TestIncrementalEngine, and the race detector takes six times as long")
	}
	preemptions := 0
	for seed := range uint64(100) {
		preemptions += compareVictims(t, seed)
		if t.Failed() {
			t.Fatalf("cluster %d", seed)
		}
	}
	if preemptions < 1000 {
		t.Errorf("%d preemptions: the test compares little", preemptions)
	}
}

// victimTest is a cluster in which both engines run.
type victimTest struct {
	generator
	naive, engine *scheduler.Bench
	on            map[string]string // the nodes of the running pods, by name
	running       []*corev1.Pod
}

func (v *victimTest) both(f func(*scheduler.Bench)) { f(v.naive); f(v.engine) }

// compareVictims returns the number of preemptions in one cluster.
func compareVictims(t *testing.T, seed uint64) (preemptions int) {
	v := &victimTest{generator: generator{rand.New(rand.NewPCG(seed, 3))}, on: map[string]string{},
		naive: scheduler.NewBench(t, schedplugins.Registry, nil, seed, true), engine: scheduler.NewBench(t, schedplugins.Registry, nil, seed, false)}
	nodes := 2 + v.IntN(6)
	for i := range nodes {
		n := v.node(i)
		v.both(func(b *scheduler.Bench) { b.SetNode(n) })
	}
	shapes := make([]*corev1.Pod, 3)
	for i := range shapes {
		shapes[i] = v.pod(i)
		shapes[i].Spec.Priority = new(int32(10 * (1 + i)))
		if seed%4 == 0 && i == 2 {
			v.addPodAffinity(shapes[i])
		}
	}
	for i := range 120 {
		p := v.pod(i)
		p.Spec.Priority = new(int32(v.IntN(2)))
		if v.IntN(3) > 0 {
			shape := shapes[v.IntN(len(shapes))].DeepCopy()
			shape.Name, shape.UID = p.Name, p.UID
			p = shape
		}
		want, got := v.naive.Schedule(p), v.engine.Schedule(p)
		if a, b := describe(v.naive.Preemption), describe(v.engine.Preemption); got != want || a != b {
			t.Errorf("pod %d: %q and %s, without what is kept %q and %s", i, got, b, want, a)
			return 0
		}
		switch chosen := v.engine.Preemption; {
		case chosen != nil:
			preemptions++
			v.preempt(p, chosen)
		case strings.HasPrefix(got, "n"):
			v.on[p.Name], v.running = got, append(v.running, p)
		}
		v.change(nodes)
	}
	return preemptions
}

func describe(p *scheduler.Preemption) string {
	if p == nil {
		return "no preemption"
	}
	out := fmt.Sprintf("%s, %d violations:", p.Node, p.Violations)
	for _, victim := range p.Victims {
		out += fmt.Sprint(" ", victim.Name, " ", victim.Status.StartTime)
	}
	return out
}

// preempt nominates the pod, and removes the victims or some of them.
func (v *victimTest) preempt(p *corev1.Pod, chosen *scheduler.Preemption) {
	p.Status.NominatedNodeName = chosen.Node
	v.both(func(b *scheduler.Bench) { b.Nominate(p) })
	for _, victim := range chosen.Victims {
		if v.IntN(2) == 0 {
			v.both(func(b *scheduler.Bench) { b.RemovePod(victim) })
			v.running = slices.DeleteFunc(v.running, func(r *corev1.Pod) bool { return r.UID == victim.UID })
		}
	}
	if v.IntN(2) == 0 {
		p := p.DeepCopy()
		p.Status.NominatedNodeName = ""
		v.both(func(b *scheduler.Bench) { b.Nominate(p) })
	}
}

// change changes something else in the cluster.
func (v *victimTest) change(nodes int) {
	switch n := v.IntN(12); {
	case n < 4 && len(v.running) > 0: // a pod starts
		i := v.IntN(len(v.running))
		p := v.running[i].DeepCopy()
		p.Status.StartTime = new(metav1.NewTime(time.Unix(int64(v.IntN(50)), 0)))
		if n == 0 {
			p.Labels["app"] = v.pick("web", "db", "cache")
		}
		v.running[i] = p
		v.both(func(b *scheduler.Bench) { b.Run(p, v.on[p.Name]) })
	case n == 4 && len(v.running) > 0:
		i := v.IntN(len(v.running))
		gone := v.running[i]
		v.running = slices.Delete(v.running, i, i+1)
		v.both(func(b *scheduler.Bench) { b.RemovePod(gone) })
	case n == 5:
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "budget"}}
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": v.pick("web", "db")}}
		budget.Status.DisruptionsAllowed = int32(v.IntN(3))
		v.both(func(b *scheduler.Bench) { b.Budgets = []*policyv1.PodDisruptionBudget{budget} })
	case n == 6 && v.IntN(3) == 0:
		changed := v.node(v.IntN(nodes))
		v.both(func(b *scheduler.Bench) { b.SetNode(changed) })
	}
}
