package schedplugins

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// cluster is an API server with a scheduler and a cache that shows the results for the pods.
type cluster struct {
	t      testing.TB
	env    *apiservertest.Env
	client client.Client
	pods   *client.Cache[*corev1.Pod]
	ctx    context.Context

	scheduler *scheduler.Scheduler // that was started last
}

// newCluster starts an API server. start starts the scheduler.
func newCluster(t testing.TB, options ...func(*apiserver.Config)) *cluster {
	t.Helper()
	env := apiservertest.New(t, options...)
	c := &cluster{t: t, env: env, client: env.Client("test")}
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	caches := client.NewCaches(c.client, clock.Real())
	c.pods = caches.Pods()
	var wg sync.WaitGroup
	wg.Go(func() { caches.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	c.create(client.Target{Resource: client.Namespaces}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	c.create(client.Target{Resource: client.ServiceAccounts, Namespace: "default"}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return c
}

// start starts a scheduler, which stop or the end of the test ends.
func (c *cluster) start(change func(*scheduler.Config)) (stop func()) {
	c.t.Helper()
	return c.startOn(clock.Real(), 1, change)
}

// startOn starts a scheduler on a clock, which stop or the end of the test ends.
func (c *cluster) startOn(clk clock.Clock, seed uint64, change func(*scheduler.Config)) (stop func()) {
	c.t.Helper()
	cfg := scheduler.Config{Client: c.env.Client("kube-scheduler"), Clock: clk, Source: clock.NewSource(seed), Registry: Registry}
	if change != nil {
		change(&cfg)
	}
	s, err := scheduler.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.scheduler = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	in := clock.Starting(clk, "scheduler")
	go func() {
		ctx := in(ctx)
		err := s.Run(ctx)
		clock.WorkOf(ctx).End() // Run may have ended before it had work of its own
		ended <- err
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("scheduler: %v", err)
		}
	})
	c.t.Cleanup(stop)
	return stop
}

func (c *cluster) create(target client.Target, obj objectOf) {
	c.t.Helper()
	if _, err := c.client.Create(context.Background(), target, obj, metav1.CreateOptions{}); err != nil && !strings.Contains(err.Error(), "already exists") {
		c.t.Fatal(err)
	}
}

func (c *cluster) node(name, cpu string, change ...func(*corev1.Node)) {
	c.t.Helper()
	amounts := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts}}
	for _, f := range change {
		f(&n)
	}
	created, err := c.client.Create(context.Background(), client.Target{Resource: client.Nodes}, n.DeepCopy(), metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	// A new node has the taint not-ready; in a cluster, the node lifecycle controller removes it.
	ready := created.(*corev1.Node).DeepCopy()
	ready.Spec.Taints = n.Spec.Taints
	if _, err := c.client.Update(context.Background(), client.Target{Resource: client.Nodes, Name: name}, ready, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) pod(name, cpu string, change ...func(*corev1.Pod)) {
	c.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "minikctl.dev/pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("50Mi")}},
	}}}}
	for _, f := range change {
		f(p)
	}
	c.create(client.Target{Resource: client.Pods, Namespace: "default"}, p)
}

// until waits until cond holds for the pod.
func (c *cluster) until(name, what string, cond func(*corev1.Pod) bool) *corev1.Pod {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for {
		p, ok := c.pods.Get(keyOf(name))
		if ok && cond(p) {
			return p
		}
		select {
		case <-deadline:
			c.t.Fatalf("pod %s is not %s: node %q, conditions %+v", name, what, p.Spec.NodeName, p.Status.Conditions)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (c *cluster) bound(name string) string {
	c.t.Helper()
	return c.until(name, "bound", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }).Spec.NodeName
}

func (c *cluster) unschedulable(name, message string) {
	c.t.Helper()
	c.until(name, "unschedulable with "+message, func(p *corev1.Pod) bool {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse && cond.Reason == "Unschedulable" && cond.Message == message {
				return true
			}
		}
		return false
	})
}

// TestClusterSchedules schedules pods through the API: they are rejected with condition and Event, and bound once a node fits;
// the decisions are recorded.
func TestClusterSchedules(t *testing.T) {
	c := newCluster(t)
	c.start(nil)
	c.pod("early", "100m")
	c.unschedulable("early", "no nodes available to schedule pods")
	c.node("n1", "1")
	if got := c.bound("early"); got != "n1" {
		t.Errorf("early is on %s, want n1", got)
	}
	c.pod("large", "1")
	c.unschedulable("large", "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
	c.node("n2", "2")
	if got := c.bound("large"); got != "n2" {
		t.Errorf("large is on %s, want n2", got)
	}
	c.event("early", "Scheduled", "Successfully assigned default/early to n1")
	c.event("large", "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
	d := c.decision("large", "Scheduled")
	if d.Node != "n2" || d.Nodes != 2 || d.Feasible != 1 || len(d.Rejected) != 1 || len(d.Scores) != 1 || d.Attempt < 2 || len(d.Stages) < 4 {
		t.Errorf("decision about large: %+v", d)
	}
}

// TestDecisionNamesTaintsAndChosenNode checks that a decision lists for each node the taint that rejected it, and the score of
// the chosen node even if it is not among the listed best ones.
func TestDecisionNamesTaintsAndChosenNode(t *testing.T) {
	c := newCluster(t)
	tainted := func(name, value string) {
		c.node(name, "8", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: value, Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	for i := range minikctl.MaxListed + 1 {
		tainted(fmt.Sprintf("gpu%d", i), "gpu")
	}
	tainted("db", "db") // would not be listed, were the nodes not grouped by their taints
	for i := range 2 * minikctl.MaxListed {
		c.node(fmt.Sprintf("n%d", i), "8")
	}
	c.start(nil)
	chosen := map[string]bool{}
	for i := range 10 {
		name := fmt.Sprintf("p%d", i)
		c.pod(name, "1")
		d := c.decision(name, "Scheduled")
		rejected := map[string]int{}
		for _, r := range d.Rejected {
			rejected[strings.Join(r.Details, ", ")] += r.Count
		}
		if !maps.Equal(rejected, map[string]int{"taint dedicated=gpu:NoSchedule": minikctl.MaxListed + 1, "taint dedicated=db:NoSchedule": 1}) {
			t.Errorf("rejected: %+v", d.Rejected)
		}
		if v := d.Verdict("db"); v.Reason != "node(s) had untolerated taint(s): taint dedicated=db:NoSchedule" {
			t.Errorf("verdict about db: %+v", v)
		}
		if !slices.ContainsFunc(d.Scores, func(s minikctl.NodeScores) bool { return slices.Contains(s.Nodes, d.Node) }) {
			t.Errorf("the scores lack the chosen node %s: %+v", d.Node, d.Scores)
		}
		if len(d.Scores) != 1 || len(d.Scores[0].Nodes) != minikctl.MaxListed {
			t.Errorf("the scores of equal nodes are %+v", d.Scores)
		}
		chosen[d.Node] = true
	}
	if len(chosen) != 10 {
		t.Errorf("10 pods are on %d nodes", len(chosen))
	}
}

// TestClusterProfiles checks that each pod is scheduled by the profile in its schedulerName, that gated pods wait until
// their gates are removed, and that pods of other schedulers are ignored.
func TestClusterProfiles(t *testing.T) {
	c := newCluster(t)
	c.node("empty", "8")
	c.node("used", "8", func(n *corev1.Node) { n.Labels["used"] = "yes" })
	conf := &configv1.KubeSchedulerConfiguration{}
	if err := plug.Decode([]byte(header+`profiles:
- schedulerName: spreads
- schedulerName: packs
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
`), conf); err != nil {
		t.Fatal(err)
	}
	c.start(func(cfg *scheduler.Config) { cfg.Config = conf })
	by := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
	}
	c.pod("first", "1", by("packs"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"used": "yes"} })
	c.bound("first")
	c.pod("stranger", "1", by("another"))
	c.pod("gated", "1", by("packs"), func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} })
	for i := range 3 {
		c.pod(fmt.Sprintf("packed-%d", i), "10m", by("packs"))
		if got := c.bound(fmt.Sprintf("packed-%d", i)); got != "used" {
			t.Errorf("packed-%d is on %s, want used", i, got)
		}
	}
	c.pod("spread", "10m", by("spreads"))
	if got := c.bound("spread"); got != "empty" {
		t.Errorf("spread is on %s, want empty", got)
	}
	if p, _ := c.pods.Get(keyOf("stranger")); p.Spec.NodeName != "" {
		t.Error("a pod of another scheduler was bound")
	}
	c.decision("gated", "Gated")
	gated, _ := c.pods.Get(keyOf("gated"))
	free := gated.DeepCopy()
	free.Spec.SchedulingGates = nil
	if _, err := c.client.Update(context.Background(), client.In(client.Pods, keyOf("gated")), free, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.bound("gated"); got != "used" {
		t.Errorf("gated is on %s, want used", got)
	}
}

// event waits for an event about a pod.
func (c *cluster) event(pod, reason, message string) {
	c.t.Helper()
	c.eventually("event "+reason+" of "+pod, func() bool {
		return slices.ContainsFunc(c.events(), func(e *corev1.Event) bool {
			return e.InvolvedObject.Name == pod && e.Reason == reason && e.Message == message
		})
	})
}

// events lists the Events of the namespace default.
func (c *cluster) events() (out []*corev1.Event) {
	c.t.Helper()
	list, err := c.client.List(context.Background(), client.Target{Resource: client.Events, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, obj := range list.Items {
		if e, ok := obj.(*corev1.Event); ok {
			out = append(out, e)
		}
	}
	return out
}

// decisions lists the decisions about a pod, in their order.
func (c *cluster) decisions(pod string) (out []*minikctl.Decision) {
	c.t.Helper()
	list, err := c.client.List(context.Background(), client.Target{Resource: minikctl.Decisions, Namespace: "default"}, metav1.ListOptions{LabelSelector: minikctl.PodLabel + "=" + pod})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, obj := range list.Items {
		if d, ok := obj.(*minikctl.Decision); ok && d.Pod == pod {
			out = append(out, d)
		}
	}
	return out
}

// decision waits for a decision about a pod.
func (c *cluster) decision(pod, outcome string) (found *minikctl.Decision) {
	c.t.Helper()
	c.eventually("decision "+outcome+" about "+pod, func() bool {
		for _, d := range c.decisions(pod) {
			if d.Outcome == outcome {
				found = d
				return true
			}
		}
		return false
	})
	return found
}

func (c *cluster) eventually(what string, cond func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("no %s in time", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// slowStatus is a client that takes its time with the conditions of pods, and notes a binding meanwhile.
type slowStatus struct {
	client.Client
	writing, early atomic.Bool
	bound          chan struct{}
}

func (s *slowStatus) Patch(ctx context.Context, t client.Target, p client.Patch, opts metav1.PatchOptions) (runtime.Object, error) {
	if t.Resource == client.Pods && strings.Contains(string(p.Data), "Unschedulable") {
		s.writing.Store(true)
		select {
		case <-s.bound:
		case <-time.After(300 * time.Millisecond):
		}
		defer s.writing.Store(false)
	}
	return s.Client.Patch(ctx, t, p, opts)
}

func (s *slowStatus) Create(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.CreateOptions) (runtime.Object, error) {
	if t.Subresource == "binding" {
		s.early.Store(s.writing.Load())
		close(s.bound)
	}
	return s.Client.Create(ctx, t, obj, opts)
}

// TestStatusBeforeBinding: a pod that finds a node while the condition of an earlier attempt is being written is bound after that, so that its
// condition is that of a bound pod.
func TestStatusBeforeBinding(t *testing.T) {
	c := newCluster(t)
	slow := &slowStatus{Client: c.env.Client("kube-scheduler"), bound: make(chan struct{})}
	c.start(func(cfg *scheduler.Config) { cfg.Client = slow })
	c.pod("p", "1")
	c.eventually("condition being written", slow.writing.Load)
	c.node("n1", "4")
	c.bound("p")
	if slow.early.Load() {
		t.Error("bound while the condition was being written")
	}
}
