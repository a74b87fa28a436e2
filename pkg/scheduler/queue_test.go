package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// prioritySort sorts as PrioritySort does.
type prioritySort struct{}

func (prioritySort) Name() string { return "prioritySort" }
func (prioritySort) Less(a, b framework.QueuedPodInfo) bool {
	p, q := *a.GetPodInfo().GetPod().Spec.Priority, *b.GetPodInfo().GetPod().Spec.Priority
	return p > q || p == q && a.GetTimestamp().Before(b.GetTimestamp())
}

// gate is a PreEnqueue plugin that rejects pods with the label "gated".
type gate struct{}

func (gate) Name() string { return "gate" }
func (gate) PreEnqueue(_ context.Context, p *corev1.Pod) *framework.Status {
	if p.Labels["gated"] != "" {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "gated")
	}
	return nil
}

// queueTest is a queue with a clock that is moved by hand.
type queueTest struct {
	*queue
	t   *testing.T
	now time.Time
}

func newQueueTest(t *testing.T) *queueTest {
	hint := func(result framework.QueueingHint, err error) framework.QueueingHintFn {
		return func(klog.Logger, *corev1.Pod, any, any) (framework.QueueingHint, error) { return result, err }
	}
	nodeAdd := framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}
	podDelete := framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}
	m := &setup{sites: []*site{nil}}
	at := func(plugin framework.Plugin, point string) *site {
		return m.site(&instance{Plugin: plugin, name: plugin.Name()}, point)
	}
	p := &profile{
		name: "s", queueSort: []extension[framework.QueueSortPlugin]{{at(prioritySort{}, "QueueSort"), prioritySort{}}},
		preEnqueue: []extension[framework.PreEnqueuePlugin]{{at(gate{}, "PreEnqueue"), gate{}}}, events: map[string][]registeredEvent{},
	}
	for name, events := range map[string][]framework.ClusterEventWithHint{
		"eager":  {{Event: nodeAdd}},
		"picky":  {{Event: nodeAdd, QueueingHintFn: hint(framework.QueueSkip, nil)}, {Event: podDelete, QueueingHintFn: hint(framework.Queue, nil)}},
		"broken": {{Event: nodeAdd, QueueingHintFn: hint(framework.QueueSkip, errors.New("broken"))}},
		"gate":   {{Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.UpdatePodLabel}}},
	} {
		for _, e := range events {
			p.events[name] = append(p.events[name], registeredEvent{at(gate{}, "QueueingHint"), e})
		}
	}
	calls := &cycleCalls{timeout: cycleTimeout, sites: m.sites}
	t.Cleanup(calls.close)
	return &queueTest{newQueue(calls, map[string]*profile{"s": p}, defaultBackoff), t, time.Unix(0, 0)}
}

func queuePod(name string, priority int32, labels map[string]string) *podInfo {
	info, err := newPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}, Spec: corev1.PodSpec{SchedulerName: "s", Priority: &priority}})
	if err != nil {
		panic(err)
	}
	return info
}

func (q *queueTest) put(name string, priority int32) {
	q.add(context.Background(), queuePod(name, priority, nil), 1, q.now)
}

// expect pops a pod and checks its name; "" means that there is none.
func (q *queueTest) expect(name string) *queuedPodInfo {
	q.t.Helper()
	got := ""
	p := q.pop(context.Background(), q.now)
	if p != nil {
		got = p.info.pod.Name
	}
	if got != name {
		q.t.Fatalf("popped %q, want %q", got, name)
	}
	return p
}

func (q *queueTest) sendEvent(resource framework.EventResource, action framework.ActionType) {
	q.moveOnEvent(context.Background(), event{ClusterEvent: framework.ClusterEvent{Resource: resource, ActionType: action}, revision: 7}, q.now)
}

func TestQueueOrder(t *testing.T) {
	q := newQueueTest(t)
	q.put("low", 0)
	q.put("first", 5)
	q.put("second", 5)
	q.put("high", 9)
	for _, name := range []string{"high", "first", "second", "low", ""} {
		q.expect(name)
	}
}

func TestQueueMovesOnEvents(t *testing.T) {
	for _, c := range []struct {
		blocker  string
		resource framework.EventResource
		action   framework.ActionType
		wakes    bool
	}{
		{"eager", framework.Node, framework.Add, true},
		{"eager", framework.Node, framework.Delete, false},
		{"eager", framework.Pod, framework.Delete, false},
		{"picky", framework.Node, framework.Add, false},
		{"picky", framework.Pod, framework.Delete, true},
		{"broken", framework.Node, framework.Add, true},
		{"gone", framework.Pod, framework.UpdatePodLabel, true}, // a plugin that the profile no longer has
		{anyNode, framework.Node, framework.Add, true},
		{anyNode, framework.Pod, framework.Delete, false},
		{"picky", framework.WildCard, framework.All, true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", c.blocker, c.resource, c.action), func(t *testing.T) {
			q := newQueueTest(t)
			q.put("p", 0)
			p := q.expect("p")
			q.requeueUnschedulable(p, sets.New(c.blocker), sets.New[string](), false, q.now)
			q.expect("")
			q.now = q.now.Add(time.Minute) // its backoff is over
			q.sendEvent(c.resource, c.action)
			if !c.wakes {
				q.expect("")
				return
			}
			if q.expect("p"); p.cause != 7 {
				t.Errorf("woken by %d, want 7", p.cause)
			}
			if want := (minikctl.Waking{Event: fmt.Sprint(c.resource, c.action), Plugin: c.blocker}); p.wokenBy == nil || *p.wokenBy != want {
				t.Errorf("woken by %+v, want %+v", p.wokenBy, want)
			}
		})
	}
}

func TestQueueBackoff(t *testing.T) {
	q := newQueueTest(t)
	q.put("p", 0)
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		p := q.expect("p")
		q.requeueError(p, q.now)
		if got := p.backoffUntil.Sub(q.now); got != want*time.Second {
			t.Errorf("failure %d: back-off %v, want %v", i+1, got, want*time.Second)
		}
		q.expect("")
		q.now = q.now.Add(want*time.Second - 1)
		q.expect("")
		q.now = q.now.Add(1)
	}
	p := q.expect("p")
	q.requeueUnschedulable(p, sets.New("eager"), sets.New[string](), false, q.now)
	if p.errorCount != 0 || p.unschedulableCount != 1 {
		t.Errorf("after a rejection: %d errors in a row, %d rejections; want 0 and 1", p.errorCount, p.unschedulableCount)
	}
}

func TestQueueBackoffIsCutShortOnlyWhileActiveQIsEmpty(t *testing.T) {
	q := newQueueTest(t)
	q.put("rests", 9)
	q.requeueUnschedulable(q.expect("rests"), sets.New("eager"), sets.New[string](), false, q.now)
	q.put("other", 0)
	q.sendEvent(framework.Node, framework.Add)
	q.expect("other")
	q.expect("rests")
}

func TestQueueMissedEvents(t *testing.T) {
	q := newQueueTest(t)
	q.put("p", 0)
	q.requeueUnschedulable(q.expect("p"), sets.New("eager"), sets.New[string](), true, q.now)
	q.expect("p") // an event may have been missed
}

func TestQueuePendingPluginSkipsBackoff(t *testing.T) {
	q := newQueueTest(t)
	q.put("p", 0)
	p := q.expect("p")
	q.requeueUnschedulable(p, sets.New[string](), sets.New("eager"), false, q.now)
	q.sendEvent(framework.Node, framework.Add)
	if p.location != inActiveQ {
		t.Errorf("a pod whose plugin returned Pending is in queue %d, want the activeQ", p.location)
	}
}

func TestQueueGates(t *testing.T) {
	q := newQueueTest(t)
	ctx := context.Background()
	p := q.add(ctx, queuePod("p", 0, map[string]string{"gated": "yes"}), 1, q.now)
	q.expect("")
	q.sendEvent(framework.Node, framework.Add)
	q.flushUnschedulable(ctx, q.now.Add(time.Hour))
	q.expect("")
	if p.gatingPlugin != "gate" {
		t.Errorf("gated by %q, want gate", p.gatingPlugin)
	}
	q.update(ctx, p, queuePod("p", 0, nil), 2, q.now)
	q.expect("p")
}

func TestQueueFlush(t *testing.T) {
	q := newQueueTest(t)
	q.put("p", 0)
	q.requeueUnschedulable(q.expect("p"), sets.New("picky"), sets.New[string](), false, q.now)
	for _, step := range []struct {
		after time.Duration
		name  string
	}{{maxUnschedulable, ""}, {time.Second, "p"}} {
		q.now = q.now.Add(step.after)
		q.flushUnschedulable(context.Background(), q.now)
		q.expect(step.name)
	}
}

func TestQueueRemove(t *testing.T) {
	q := newQueueTest(t)
	for i, name := range []string{"in line", "rests", "mends", "parked"} {
		q.put(name, int32(9-i))
	}
	q.expect("in line")
	q.requeueUnschedulable(q.expect("rests"), sets.New("eager"), sets.New[string](), true, q.now)
	p := q.pods["mends"]
	q.detach(context.Background(), p)
	q.requeueError(p, q.now)
	p = q.pods["parked"]
	q.detach(context.Background(), p)
	q.requeueUnschedulable(p, sets.New("eager"), sets.New[string](), false, q.now)
	q.put("in line", 1)
	for uid := range q.pods {
		q.remove(context.Background(), uid)
	}
	q.now = q.now.Add(time.Hour)
	q.sendEvent(framework.WildCard, framework.All)
	q.expect("")
	if len(q.unschedulable) != 0 || len(q.pods) != 0 {
		t.Errorf("%d pods and %d groups are left", len(q.pods), len(q.unschedulable))
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"not the kind", "apiVersion: v1\nkind: Pod", `is "Pod" of "v1", want KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1`},
		{"not the kind, with its fields", "apiVersion: v1\nkind: Pod\nspec: {}", `is "Pod" of "v1", want KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1`},
		{"unknown kind", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Policy\npredicates: []", `is "Policy" of "kubescheduler.config.k8s.io/v1", want`},
		{"unknown field", head + "profles: []", `unknown field "profles"`},
		{"repeated field", head + "parallelism: 1\nparallelism: 2", `key "parallelism" already set in map`},
		{"parallelism", head + "parallelism: 0", "parallelism: Invalid value: 0"},
		{"percentage", head + "percentageOfNodesToScore: 101", "percentageOfNodesToScore: Invalid value: 101"},
		{"back-off", head + "podInitialBackoffSeconds: 20", "podMaxBackoffSeconds: Invalid value: 10"},
		{"extender without URL", head + "extenders: [{filterVerb: filter}]", "extenders[0].urlPrefix: Required value"},
		{"extender with a path as URL", head + "extenders: [{urlPrefix: /x}]", `extenders[0].urlPrefix: Invalid value: "/x": must be an http or https URL with a host`},
		{"unknown field of an extender", head + "extenders: [{urlPrefix: http://x}, {urlPrefix: http://x, verb: filter}]", `unknown field "extenders[1].verb"`},
		{"type of an extender's field", head + "extenders: [{urlPrefix: http://x, weight: much}]", "extenders.weight: a string is not a number"},
		{"extender without weight", head + "extenders: [{urlPrefix: http://x, prioritizeVerb: p}]", "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"},
		{"extender with a negative weight", head + "extenders: [{urlPrefix: http://x, prioritizeVerb: p, weight: -2}]", "extenders[0].weight: Invalid value: -2: must have a positive weight applied to it"},
		{"extender with a negative time-out", head + "extenders: [{urlPrefix: http://x, httpTimeout: -1s}]", `extenders[0].httpTimeout: Invalid value: "-1s": must not be negative`},
		{"two binders", head + "extenders: [{urlPrefix: http://x, bindVerb: b}, {urlPrefix: http://y, bindVerb: b}]", `extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind`},
		{"managed resource of Kubernetes", head + "extenders: [{urlPrefix: http://x, managedResources: [{name: cpu}]}]", `extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name`},
		{"managed resource with a long name", head + "extenders: [{urlPrefix: http://x, managedResources: [{name: " + strings.Repeat("a", 250) + "/b}]}]", "is an invalid extended resource name"},
		{"managed resource with a bad name", head + "extenders: [{urlPrefix: http://x, managedResources: [{name: example.com/_}]}]", `extenders[0].managedResources[0].name: Invalid value: "example.com/_": name part must consist of`},
		{"managed resource twice", head + "extenders: [{urlPrefix: http://x, managedResources: [{name: a.b/c}]}, {urlPrefix: http://y, managedResources: [{name: a.b/c}]}]", `extenders[1].managedResources[0].name: Invalid value: "a.b/c": duplicate extender managed resource name`},
		{"two of a name", head + "profiles: [{schedulerName: a}, {schedulerName: a}]", `profiles[1].schedulerName: Duplicate value: "a"`},
		{"no name", head + "profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf, err := parseConfig([]byte(c.config))
			if err == nil {
				_, errs := checkConfig(conf)
				err = errs.ToAggregate()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func TestUnschedulablePodBacksOff(t *testing.T) {
	q := newQueueTest(t)
	q.put("p", 0)
	for range maxTriesDuringBackoff {
		q.requeueUnschedulable(q.expect("p"), sets.New("eager"), sets.New[string](), false, q.now)
		q.sendEvent(framework.Node, framework.Add)
	}
	p := q.expect("p")
	q.requeueUnschedulable(p, sets.New("eager"), sets.New[string](), false, q.now)
	q.sendEvent(framework.Node, framework.Add)
	q.expect("")
	if got := q.next(); !got.Equal(p.backoffUntil) {
		t.Errorf("due at %v, want %v", got, p.backoffUntil)
	}
	q.now = p.backoffUntil
	q.expect("p")
}

func TestFeasibleNodesToFind(t *testing.T) {
	for _, c := range []struct {
		percentage int32
		nodes      int
		alone      bool
		want       int
	}{
		{0, 5000, false, 5000}, {100, 5000, true, 5000}, {50, 5000, false, 2500}, {50, 50, false, 50}, {1, 5000, false, 100}, {30, 1000, true, 300},
		{0, 1000, true, 420}, {0, 5000, true, 500}, {0, 50000, true, 2500}, {0, 99, true, 99}, {0, 125, true, 100},
	} {
		if got := numFeasibleNodesToFind(c.percentage, c.nodes, c.alone); got != c.want {
			t.Errorf("%d%% of %d nodes, alone %t: %d, want %d", c.percentage, c.nodes, c.alone, got, c.want)
		}
	}
}
