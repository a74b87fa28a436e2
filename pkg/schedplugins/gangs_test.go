package schedplugins

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

var podGroupResource = schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups")

// withFeatures switches feature gates of the API server on.
func withFeatures(g feature.Gates) func(*apiserver.Config) {
	return func(cfg *apiserver.Config) { cfg.Features, cfg.Resources = g, builtin.ResourcesWith(g) }
}

// gang is a PodGroup with minCount, and its pods of one CPU.
type gang struct {
	name       string
	size, need int
}

func (c *cluster) podGroup(name string, minCount int) {
	c.t.Helper()
	c.create(client.Target{Resource: podGroupResource, Namespace: "default"}, &schedulingv1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(minCount)}}},
	})
}

// inGroup makes a pod a member of a PodGroup.
func inGroup(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

// groupCondition returns the condition PodGroupScheduled of a PodGroup, nil if it has none.
func (c *cluster) groupCondition(name string) *metav1.Condition {
	c.t.Helper()
	obj, err := c.client.Get(context.Background(), client.In(podGroupResource, keyOf(name)), metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return meta.FindStatusCondition(obj.(*schedulingv1alpha2.PodGroup).Status.Conditions, schedulingv1alpha2.PodGroupScheduled)
}

// converges waits until wrong returns "", and fails with its last result.
func (c *cluster) converges(wrong func() string) {
	c.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		last := wrong()
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(last)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// boundOf returns the bound pods of each gang, by its name.
func (c *cluster) boundOf() map[string]int {
	out := map[string]int{}
	for _, p := range c.pods.List("default", labels.Everything()) {
		if key, ok := podref.PodGroup(p); ok && p.Spec.NodeName != "" {
			out[key.Name]++
		}
	}
	return out
}

// TestGangs creates random gangs in random order on random room. A gang runs with at least its minCount or not at all, and does not wait while
// there is room for it. When a gang ends, others take its room, until all have run.
func TestGangs(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := newCluster(t, withFeatures(feature.All))
			room := 0
			for i := range 2 + r.IntN(3) {
				cpus := 2 + r.IntN(3)
				room += cpus
				c.node(fmt.Sprintf("n%d", i), fmt.Sprint(cpus))
			}
			c.start(func(cfg *scheduler.Config) {
				cfg.Features = feature.All
				cfg.Config = &configv1.KubeSchedulerConfiguration{PodInitialBackoffSeconds: new(int64(1)), PodMaxBackoffSeconds: new(int64(1))}
			})
			var gangs []gang
			var pods []func()
			for i := range 4 {
				g := gang{name: fmt.Sprintf("g%d", i), need: 1 + r.IntN(min(room, 6))}
				g.size = g.need + r.IntN(2)
				gangs = append(gangs, g)
				pods = append(pods, func() { c.podGroup(g.name, g.need) })
				for k := range g.size {
					pods = append(pods, func() { c.pod(fmt.Sprintf("%s-%d", g.name, k), "1", inGroup(g.name)) })
				}
			}
			r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
			for _, create := range pods {
				create()
			}
			for len(gangs) > 0 {
				c.converges(func() string { return settled(gangs, c.boundOf(), room) })
				bound := c.boundOf()
				var left []gang
				ended := false
				for _, g := range gangs {
					if ended || bound[g.name] == 0 {
						left = append(left, g)
						continue
					}
					ended = true
					c.converges(func() string {
						if cond := c.groupCondition(g.name); cond == nil || cond.Status != metav1.ConditionTrue {
							return fmt.Sprintf("%s runs and has the condition %+v", g.name, cond)
						}
						return ""
					})
					for k := range g.size {
						c.remove(fmt.Sprintf("%s-%d", g.name, k))
					}
				}
				gangs = left
			}
		})
	}
}

// settled returns what is wrong with the number of bound pods of gangs on this room, or "".
func settled(gangs []gang, bound map[string]int, room int) string {
	free := room
	for _, g := range gangs {
		free -= bound[g.name]
	}
	for _, g := range gangs {
		switch n := bound[g.name]; {
		case n > 0 && n < g.need:
			return fmt.Sprintf("%d pods of %+v run", n, g)
		case n == 0 && free >= g.need:
			return fmt.Sprintf("%+v does not run on the room of %d pods", g, free)
		case n > 0 && n < g.size && free > 0:
			return fmt.Sprintf("%d pods of %+v run on the room of %d more", n, g, free)
		}
	}
	return ""
}

// TestGangMessages checks the messages of a gang that does not fit, and of one that is not complete.
func TestGangMessages(t *testing.T) {
	gates := feature.Gates{GenericWorkload: true, GangScheduling: true}
	c := newCluster(t, withFeatures(gates))
	c.node("n", "2")
	c.start(func(cfg *scheduler.Config) { cfg.Features = gates })
	c.podGroup("g", 3)
	for i := range 3 {
		c.pod(fmt.Sprintf("p%d", i), "1", inGroup("g"))
	}
	g := c.decision("p0", "Unschedulable").Group
	if g == nil || g.Name != "g" || g.Outcome != "Unschedulable" || g.Pods != 3 || g.Placed != 2 || len(g.Blocking) != 1 {
		t.Fatalf("the decision's group is %+v", g)
	}
	for i := range 3 {
		want := "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to wait and no plugin rejected pod"
		if name := fmt.Sprintf("p%d", i); name == g.Blocking[0].Pod {
			want = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
		}
		c.unschedulable(fmt.Sprintf("p%d", i), want)
	}
	c.converges(func() string {
		cond := c.groupCondition("g")
		if cond == nil || cond.Status != metav1.ConditionFalse || cond.Reason != "Unschedulable" || cond.Message != "pod group is unschedulable" {
			return fmt.Sprintf("condition %+v", cond)
		}
		return ""
	})
	c.podGroup("few", 2)
	c.pod("alone", "1", inGroup("few"))
	c.eventually("decision about the gang that is not complete", func() bool {
		const want = "waiting for scheduler plugin GangScheduling: waiting for minCount pods from a gang to appear in scheduling queue"
		list, err := c.client.List(context.Background(), client.Target{Resource: minikctl.Decisions, Namespace: "default"}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range list.Items {
			if d := obj.(*minikctl.Decision); d.Pod == "alone" && d.Outcome == "Gated" && d.Message == want {
				return true
			}
		}
		return false
	})
}

// TestGangHints checks which events may make a pod of a gang schedulable.
func TestGangHints(t *testing.T) {
	pod := func(namespace, group string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		if group != "" {
			inGroup(group)(p)
		}
		return p
	}
	mine := pod("a", "g")
	for _, x := range []struct {
		now  any
		hint framework.QueueingHintFn
		want framework.QueueingHint
	}{
		{pod("a", "g"), afterGroupPod, framework.Queue},
		{pod("b", "g"), afterGroupPod, framework.QueueSkip},
		{pod("a", "h"), afterGroupPod, framework.QueueSkip},
		{pod("a", ""), afterGroupPod, framework.QueueSkip},
		{&schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g"}}, afterPodGroup, framework.Queue},
		{&schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "h"}}, afterPodGroup, framework.QueueSkip},
	} {
		if got, err := x.hint(klog.Logger{}, mine, nil, x.now); got != x.want || err != nil {
			t.Errorf("%+v: got %v, %v, want %v", x.now, got, err, x.want)
		}
	}
}

// TestPodGroupsOff checks that a pod's group is dropped without the feature gate, and that the pod is scheduled.
func TestPodGroupsOff(t *testing.T) {
	c := newCluster(t)
	c.node("n", "2")
	c.start(nil)
	c.pod("p", "1", inGroup("g"))
	c.bound("p")
	if p, _ := c.pods.Get(objects.Key{Namespace: "default", Name: "p"}); p.Spec.SchedulingGroup != nil {
		t.Errorf("the pod has the group %v", p.Spec.SchedulingGroup)
	}
}
