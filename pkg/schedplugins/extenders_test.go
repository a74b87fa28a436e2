package schedplugins

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// testExtender is an HTTP extender. Its functions answer the verbs of their names; a nil one answers 404.
type testExtender struct {
	*httptest.Server
	filter     func(extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult
	prioritize func(extenderv1.ExtenderArgs) extenderv1.HostPriorityList
	preempt    func(extenderv1.ExtenderPreemptionArgs) extenderv1.ExtenderPreemptionResult
	bind       func(extenderv1.ExtenderBindingArgs) extenderv1.ExtenderBindingResult

	mu    sync.Mutex
	calls []string // VERB POD
}

func newTestExtender(t *testing.T) *testExtender {
	x := &testExtender{}
	x.Server = httptest.NewServer(x)
	t.Cleanup(x.Close)
	return x
}

func (x *testExtender) called() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.calls, ", ")
}

func (x *testExtender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /filter":
		answer(x, w, r, x.filter, func(a extenderv1.ExtenderArgs) string { return a.Pod.Name })
	case "POST /prioritize":
		answer(x, w, r, x.prioritize, func(a extenderv1.ExtenderArgs) string { return a.Pod.Name })
	case "POST /preempt":
		answer(x, w, r, x.preempt, func(a extenderv1.ExtenderPreemptionArgs) string { return a.Pod.Name })
	case "POST /bind":
		answer(x, w, r, x.bind, func(a extenderv1.ExtenderBindingArgs) string { return a.PodName })
	default:
		http.NotFound(w, r)
	}
}

func answer[A, R any](x *testExtender, w http.ResponseWriter, r *http.Request, f func(A) R, pod func(A) string) {
	var args A
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x.mu.Lock()
	x.calls = append(x.calls, r.URL.Path[1:]+" "+pod(args))
	x.mu.Unlock()
	if f == nil {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(f(args))
}

// names returns the names of the nodes in the arguments, and whether they came as objects.
func names(a extenderv1.ExtenderArgs) (out []string, objects bool) {
	if a.Nodes == nil {
		return *a.NodeNames, false
	}
	for _, n := range a.Nodes.Items {
		out = append(out, n.Name)
	}
	return out, true
}

// leave answers a filter call with the nodes that keep keeps, in the form of the request.
func leave(a extenderv1.ExtenderArgs, keep func(string) bool) (r extenderv1.ExtenderFilterResult) {
	if a.NodeNames != nil {
		left := slices.DeleteFunc(*a.NodeNames, func(name string) bool { return !keep(name) })
		r.NodeNames = &left
		return r
	}
	r.Nodes = &corev1.NodeList{Items: slices.DeleteFunc(a.Nodes.Items, func(n corev1.Node) bool { return !keep(n.Name) })}
	return r
}

func config(t testing.TB, text string) *configv1.KubeSchedulerConfiguration {
	t.Helper()
	c := &configv1.KubeSchedulerConfiguration{}
	if err := plug.Decode([]byte(header+text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// simulate runs a cycle for a pod.
func simulate(t *testing.T, conf string, nodes []*corev1.Node, pods []*corev1.Pod, pod *corev1.Pod) scheduler.Outcome {
	t.Helper()
	out, err := scheduler.Simulate(t.Context(), scheduler.Simulation{Registry: patient(), Timeouts: patience, Config: config(t, conf), Nodes: nodes, Pods: pods, Pod: pod})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestExtenderFilters checks what a filter response means for the nodes, in both forms of the request.
func TestExtenderFilters(t *testing.T) {
	for _, cacheCapable := range []bool{false, true} {
		t.Run(fmt.Sprintf("nodeCacheCapable=%v", cacheCapable), func(t *testing.T) {
			x := newTestExtender(t)
			conf := fmt.Sprintf("extenders: [{urlPrefix: %q, filterVerb: filter, nodeCacheCapable: %v}]", x.URL, cacheCapable)
			nodes := []*corev1.Node{someNode("a"), someNode("b"), someNode("c"), someNode("d", taint("k", corev1.TaintEffectNoSchedule))}
			x.filter = func(a extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
				if got, objects := names(a); !slices.Equal(got, []string{"a", "b", "c"}) || objects == cacheCapable {
					t.Errorf("the request has the nodes %v, as objects: %v", got, objects)
				}
				return leave(a, func(name string) bool { return name == "b" })
			}
			if got := simulate(t, conf, nodes, nil, somePod("p", "")); got.Node != "b" {
				t.Errorf("the pod is on %q: %s", got.Node, got.Message)
			}
			x.filter = func(a extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
				r := leave(a, func(string) bool { return false })
				r.FailedNodes = extenderv1.FailedNodesMap{"a": "busy", "b": "busy"}
				r.FailedAndUnresolvableNodes = extenderv1.FailedNodesMap{"b": "broken"}
				return r
			}
			got := simulate(t, conf, nodes, nil, somePod("p", ""))
			// c is left out without a message, and as in Kubernetes it is not counted. Preemption is tried on a only.
			want := "0/4 nodes are available: 1 broken, 1 busy, 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."
			if got.Message != want {
				t.Errorf("got %s\nwant %s", got.Message, want)
			}
			x.filter = func(a extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
				left := []string{"z"}
				return extenderv1.ExtenderFilterResult{NodeNames: &left, Nodes: &corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "z"}}}}}
			}
			want = fmt.Sprintf("extender %q claims a filtered node \"z\" which is not found in the input node list", x.URL)
			if got := simulate(t, conf, nodes, nil, somePod("p", "")); got.Message != want {
				t.Errorf("got %s\nwant %s", got.Message, want)
			}
		})
	}
}

// TestExtenderFailures checks which failures of calls fail the pod, with upstream's messages.
func TestExtenderFailures(t *testing.T) {
	x := newTestExtender(t)
	gone := newTestExtender(t)
	gone.Close()
	nodes := []*corev1.Node{someNode("a"), someNode("b")}
	fails := func(extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
		return extenderv1.ExtenderFilterResult{Error: "out of coffee"}
	}
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{") }))
	defer garbage.Close()
	for _, c := range []struct {
		name, extender, want string
		filter               func(extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult
	}{
		{"error in the result", "urlPrefix: " + x.URL + "/, filterVerb: filter", "out of coffee", fails},
		{"status", "urlPrefix: " + x.URL + ", filterVerb: nope", "failed nope with extender at URL " + x.URL + "/nope, code 404", nil},
		{"unreachable", "urlPrefix: " + gone.URL + ", filterVerb: filter", `Post "` + gone.URL + `/filter": dial tcp `, nil},
		{"not JSON", "urlPrefix: " + garbage.URL + ", filterVerb: filter", "unexpected EOF", nil},
		{"ignorable", "urlPrefix: " + x.URL + ", filterVerb: filter, ignorable: true", "", fails},
		{"unreachable and ignorable", "urlPrefix: " + gone.URL + ", filterVerb: filter, ignorable: true", "", nil},
		{"scores", "urlPrefix: " + x.URL + ", prioritizeVerb: nope, weight: 1", "", nil},
		{"scores out of range", "urlPrefix: " + x.URL + ", prioritizeVerb: prioritize, weight: 9223372036854775807", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x.filter = c.filter
			x.prioritize = func(extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
				return extenderv1.HostPriorityList{{Host: "b", Score: 1}}
			}
			got := simulate(t, "extenders: [{"+c.extender+"}]", nodes, nil, somePod("p", ""))
			if (got.Node == "") == (c.want == "") || !strings.Contains(got.Message, c.want) {
				t.Errorf("got node %q, message %s, want %s", got.Node, got.Message, c.want)
			}
		})
	}
}

// TestExtenderScores checks the scores of two extenders beside those of plugins: a score from 0 to 10 counts 10 times its weight.
func TestExtenderScores(t *testing.T) {
	one, two := newTestExtender(t), newTestExtender(t)
	one.prioritize = func(extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
		return extenderv1.HostPriorityList{{Host: "a", Score: 2}, {Host: "b", Score: 5}, {Host: "a", Score: 1}, {Host: "unknown", Score: 10}}
	}
	two.prioritize = func(extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
		return extenderv1.HostPriorityList{{Host: "a", Score: 10}}
	}
	conf := fmt.Sprintf("extenders: [{urlPrefix: %q, prioritizeVerb: prioritize, weight: 3, ignorable: true}, {urlPrefix: %q, prioritizeVerb: prioritize, weight: 1}]", one.URL, two.URL)
	got := simulate(t, conf, []*corev1.Node{someNode("a"), someNode("b")}, nil, somePod("p", ""))
	base := map[string]int64{}
	for _, s := range simulate(t, "", []*corev1.Node{someNode("a"), someNode("b")}, nil, somePod("p", "")).Scores {
		base[s.Node] = s.Total
	}
	scores := map[string]scheduler.NodeScore{}
	for _, s := range got.Scores {
		scores[s.Node] = s
	}
	if got.Node != "a" || scores["a"].Total != base["a"]+190 || scores["b"].Total != base["b"]+150 {
		t.Errorf("node %s, totals %d and %d, without extenders %v", got.Node, scores["a"].Total, scores["b"].Total, base)
	}
	last := scores["b"].Plugins[len(scores["b"].Plugins)-2:] // the ignorable one comes last
	if want := []minikctl.PluginScore{{Plugin: two.URL, Weight: 1}, {Plugin: one.URL, Raw: 5, Score: 150, Weight: 3}}; !slices.Equal(last, want) {
		t.Errorf("scores of the extenders on b: %+v, want %+v", last, want)
	}
	before := one.called()
	if got := simulate(t, conf, []*corev1.Node{someNode("a")}, nil, somePod("p", "")); got.Node != "a" || one.called() != before {
		t.Errorf("a single node is scored: %s", one.called())
	}
}

// TestExtenderManagedResources checks that an extender gets only pods with its resources, and that NodeResourcesFit leaves to it the
// resources that the scheduler has to ignore.
func TestExtenderManagedResources(t *testing.T) {
	x := newTestExtender(t)
	x.filter = func(a extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
		return leave(a, func(string) bool { return true })
	}
	nodes := []*corev1.Node{someNode("a")}
	conf := func(ignored bool) string {
		return fmt.Sprintf("extenders: [{urlPrefix: %q, filterVerb: filter, managedResources: [{name: example.com/gpu, ignoredByScheduler: %v}]}]", x.URL, ignored)
	}
	limits := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: quantities(name, "1")}}}
		}
	}
	simulate(t, conf(false), nodes, nil, somePod("other", "", requests("cpu", "1")))
	simulate(t, conf(false), nodes, nil, somePod("requests", "", requests("example.com/gpu", "1")))
	simulate(t, conf(false), nodes, nil, somePod("limits", "", limits("example.com/gpu")))
	if got, want := x.called(), "filter requests, filter limits"; got != want {
		t.Errorf("calls: %s, want %s", got, want)
	}
	many := somePod("many", "", requests("example.com/gpu", "9"))
	if got := simulate(t, conf(false), nodes, nil, many); got.Node != "" {
		t.Errorf("a pod that requests too much is on %s", got.Node)
	}
	args := "\nprofiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/other]}}]}]"
	if got := simulate(t, conf(true)+args, nodes, nil, many); got.Node != "a" {
		t.Errorf("the resource is not ignored: %s", got.Message)
	}
}

// TestExtenderPreempts checks that an extender chooses the victims.
func TestExtenderPreempts(t *testing.T) {
	for _, cacheCapable := range []bool{false, true} {
		t.Run(fmt.Sprintf("nodeCacheCapable=%v", cacheCapable), func(t *testing.T) {
			x := newTestExtender(t)
			conf := fmt.Sprintf("extenders: [{urlPrefix: %q, preemptVerb: preempt, nodeCacheCapable: %v}]", x.URL, cacheCapable)
			nodes := []*corev1.Node{someNode("a"), someNode("b")}
			uid := func(uid string) func(*corev1.Pod) {
				return func(p *corev1.Pod) { p.UID = types.UID(uid) }
			}
			pods := []*corev1.Pod{somePod("on-a", "a", requests("cpu", "4"), uid("1")), somePod("on-b", "b", requests("cpu", "2"), uid("2")), somePod("small", "b", requests("cpu", "1m"), uid("3"))}
			urgent := somePod("urgent", "", requests("cpu", "3"), func(p *corev1.Pod) { p.Spec.Priority = new(int32(10)) })
			x.preempt = func(a extenderv1.ExtenderPreemptionArgs) extenderv1.ExtenderPreemptionResult {
				full, meta := a.NodeNameToVictims, a.NodeNameToMetaVictims
				if cacheCapable && (full != nil || len(meta) != 2 || meta["a"].Pods[0].UID != "1") || !cacheCapable && (meta != nil || len(full) != 2 || full["a"].Pods[0].Name != "on-a") {
					t.Errorf("offered: %v and %v", full, meta)
				}
				return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"b": {Pods: []*extenderv1.MetaPod{{UID: "2"}, {UID: "3"}}, NumPDBViolations: 1}}}
			}
			got := simulate(t, conf, nodes, pods, urgent)
			if p := got.Preemption; p == nil || p.Node != "b" || len(p.Victims) != 2 || p.Violations != 1 {
				t.Fatalf("preemption: %+v, message %s", p, got.Message)
			}
			answer := func(v *extenderv1.MetaVictims) {
				x.preempt = func(extenderv1.ExtenderPreemptionArgs) extenderv1.ExtenderPreemptionResult {
					return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"b": v}}
				}
			}
			answer(&extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{{UID: "1"}}})
			want := "extender: " + x.URL + " claims to preempt pod (UID: &{1}) on node: b, but the pod is not found on that node"
			if got := simulate(t, conf, nodes, pods, urgent); got.Preemption != nil || !strings.Contains(got.Message, want) {
				t.Errorf("got %s\nwant %s", got.Message, want)
			}
			for _, none := range []*extenderv1.MetaVictims{nil, {}} {
				answer(none)
				if got, want := simulate(t, conf, nodes, pods, urgent), `expected at least one victim pod on node "b"`; got.Preemption != nil || !strings.Contains(got.Message, want) {
					t.Errorf("got %s\nwant %s", got.Message, want)
				}
			}
		})
	}
}

// TestExtenderNominated checks that a pod is tried on its nominated node first, with the extenders, and then on all.
func TestExtenderNominated(t *testing.T) {
	x := newTestExtender(t)
	conf := fmt.Sprintf("extenders: [{urlPrefix: %q, filterVerb: filter, nodeCacheCapable: true}]", x.URL)
	nodes := []*corev1.Node{someNode("a"), someNode("b")}
	pod := somePod("p", "", func(p *corev1.Pod) { p.Status.NominatedNodeName = "b" })
	for _, c := range []struct {
		keep, calls string
	}{{"b", "filter p"}, {"a", "filter p, filter p"}, {"", "filter p, filter p"}} {
		x.calls = nil
		x.filter = func(a extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
			return leave(a, func(name string) bool { return name == c.keep })
		}
		if got := simulate(t, conf, nodes, nil, pod); got.Node != c.keep || x.called() != c.calls {
			t.Errorf("the pod is on %q after %s, want %s after %s: %s", got.Node, x.called(), c.keep, c.calls, got.Message)
		}
	}
}

// TestExtenderVerdicts checks what a decision about a node has of extenders.
func TestExtenderVerdicts(t *testing.T) {
	x, y := newTestExtender(t), newTestExtender(t)
	x.filter = func(a extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
		r := leave(a, func(name string) bool { return name == "c" || name == "d" })
		r.FailedNodes = extenderv1.FailedNodesMap{"a": "busy"}
		return r
	}
	x.prioritize = func(extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
		return extenderv1.HostPriorityList{{Host: "c", Score: 7}}
	}
	conf := config(t, fmt.Sprintf("extenders: [{urlPrefix: %q, filterVerb: filter, ignorable: true}, {urlPrefix: %q, filterVerb: filter, prioritizeVerb: prioritize, weight: 2}]", y.URL, x.URL))
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c", "d"} {
		nodes = append(nodes, someNode(name))
	}
	box, err := scheduler.NewSandbox(t.Context(), scheduler.Simulation{Registry: Registry, Config: conf, Nodes: nodes}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(t.Context())
	for node, want := range map[string]string{
		"a": "Rejected busy; Filter Rejected busy",
		"c": "Passed ; Filter Passed ; Score Scored  7>70×2=140",
		"d": "Passed ; Filter Passed ; Score Scored  0>0×2=0",
	} {
		d, err := box.Explain(t.Context(), somePod("p", ""), node)
		if err != nil {
			t.Fatal(err)
		}
		v := d.Verdict(node)
		got := v.Outcome + " " + v.Reason
		for _, p := range v.Plugins {
			if p.Plugin == x.URL {
				got += "; " + p.Point + " " + p.Outcome + " " + p.Reason
				if p.Raw != nil {
					got += fmt.Sprintf(" %d>%d×%d=%d", *p.Raw, *p.Normalised, p.Weight, *p.Weighted)
				}
			}
		}
		if got != want {
			t.Errorf("node %s: %s, want %s", node, got, want)
		}
		var calls []string
		for _, c := range d.Extenders {
			calls = append(calls, strings.TrimPrefix(strings.TrimPrefix(c.Extender, x.URL), y.URL)+c.Verb+" "+c.Outcome+" "+c.Message)
		}
		if got, want := strings.Join(calls, "; "), "filter Called ; filter Ignored failed filter with extender at URL "+y.URL+"/filter, code 404; prioritize Called "; got != want {
			t.Errorf("calls: %s, want %s", got, want)
		}
	}
}

// TestClusterExtenders runs a scheduler with an extender that binds pods with its resource, and one that is not reachable. Other pods are
// scheduled meanwhile; the decisions, the pods' conditions and the report of the configuration have what the extenders did.
func TestClusterExtenders(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8", func(n *corev1.Node) {
		n.Status.Allocatable["example.com/gpu"] = quantities("example.com/gpu", "9")["example.com/gpu"]
	})
	x := newTestExtender(t)
	x.filter = func(a extenderv1.ExtenderArgs) extenderv1.ExtenderFilterResult {
		return leave(a, func(string) bool { return a.Pod.Labels["refused"] == "" })
	}
	var failed atomic.Bool
	x.bind = func(a extenderv1.ExtenderBindingArgs) extenderv1.ExtenderBindingResult {
		if !failed.Swap(true) { // once, and then the pod is tried again
			return extenderv1.ExtenderBindingResult{Error: "the device is busy"}
		}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: a.PodNamespace, Name: a.PodName, UID: a.PodUID, Annotations: map[string]string{"bound-by": "extender"}},
			Target: corev1.ObjectReference{Kind: "Node", Name: a.Node}}
		if _, err := c.client.Create(t.Context(), client.In(client.Pods, keyOf(a.PodName)).Sub("binding"), binding, metav1.CreateOptions{}); err != nil {
			return extenderv1.ExtenderBindingResult{Error: err.Error()}
		}
		return extenderv1.ExtenderBindingResult{}
	}
	gone := newTestExtender(t)
	gone.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the context ends with the connection only after this
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := header + fmt.Sprintf(`podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
extenders:
- {urlPrefix: %q, filterVerb: filter, bindVerb: bind, managedResources: [{name: example.com/gpu}]}
- {urlPrefix: %q, filterVerb: filter, managedResources: [{name: example.com/fpga, ignoredByScheduler: true}], tlsConfig: {keyData: c2VjcmV0}}
- {urlPrefix: %q, prioritizeVerb: p, filterVerb: f, weight: 1, httpTimeout: 100ms, managedResources: [{name: example.com/npu, ignoredByScheduler: true}]}
- {urlPrefix: %q, preemptVerb: preempt, managedResources: [{name: example.com/asic, ignoredByScheduler: true}]}
`, x.URL, gone.URL, hangs.URL, x.URL)
	write(t, file, text)
	reloads := make(chan error, 1)
	c.start(func(cfg *scheduler.Config) { cfg.ConfigFile, cfg.Reloaded = file, func(err error) { reloads <- err } })

	c.pod("npu", "1m", requestsToo("example.com/npu"))
	c.pod("fpga", "1m", requestsToo("example.com/fpga"))
	c.pod("gpu", "1m", requestsToo("example.com/gpu"))
	c.pod("plain", "1m")
	c.bound("plain")
	c.bound("gpu")
	if p, _ := c.pods.Get(keyOf("gpu")); p.Annotations["bound-by"] != "extender" {
		t.Errorf("gpu is not bound by the extender: %v", p.Annotations)
	}
	d := c.decision("gpu", "Error")
	if d.Message != "the device is busy" || len(d.Extenders) != 1 || d.Extenders[0].Verb != "bind" || d.Extenders[0].Outcome != minikctl.Failed || d.Extenders[0].Extender != x.URL {
		t.Errorf("decision about the failed binding: %+v", d)
	}
	d = c.decision("fpga", "Error")
	if want := `Post "` + gone.URL + `/filter": dial tcp`; !strings.HasPrefix(d.Message, want) || len(d.Extenders) != 1 || d.Extenders[0].Extender != gone.URL || d.Extenders[0].Outcome != minikctl.Failed {
		t.Errorf("decision about fpga: %+v", d)
	}

	if d := c.decision("npu", "Error"); !strings.HasPrefix(d.Message, `Post "`+hangs.URL+`/f": context deadline exceeded`) {
		t.Errorf("decision about npu: %+v", d)
	}

	x.preempt = func(extenderv1.ExtenderPreemptionArgs) (none extenderv1.ExtenderPreemptionResult) { return none }
	for _, name := range []string{"urgent", "again"} { // the results of filtering the first are kept for the second
		c.pod(name, "8", requestsToo("example.com/asic"), func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" })
		d = c.decision(name, "Unschedulable")
		if !strings.HasSuffix(d.Message, "no candidate node for preemption") || len(d.Extenders) != 1 || d.Extenders[0].Verb != "preempt" || d.Extenders[0].Outcome != minikctl.Called {
			t.Errorf("decision about %s: %+v", name, d)
		}
	}

	// A pod that the extender rejects is tried again with any event.
	c.pod("refused", "1m", requestsToo("example.com/gpu"), func(p *corev1.Pod) { p.Labels = map[string]string{"refused": "yes"} })
	if d := c.decision("refused", "Unschedulable"); len(d.Rejected) != 1 || d.Rejected[0].Plugin != x.URL || len(d.Rejected[0].Details) != 1 {
		t.Errorf("decision about refused: %+v", d)
	}
	unlabel := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata": {"labels": null}}`)}
	if _, err := c.client.Patch(t.Context(), client.In(client.Pods, keyOf("refused")), unlabel, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("refused")

	// An invalid configuration changes nothing.
	write(t, file, strings.Replace(text, "filterVerb: filter, bindVerb", "prioritizeVerb: p, bindVerb", 1))
	if err := <-reloads; err == nil || !strings.Contains(err.Error(), "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it") {
		t.Errorf("the scheduler received %v", err)
	}
	c.pod("late", "1m", requestsToo("example.com/gpu"))
	c.bound("late")
	if got := x.called(); !strings.Contains(got, "filter late, bind late") {
		t.Errorf("calls: %s", got)
	}
	list, err := c.client.List(t.Context(), client.Target{Resource: minikctl.SchedulerConfigs}, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("reports: %v, %v", list, err)
	}
	raw := string(list.Items[0].(*minikctl.SchedulerConfig).Configuration.Raw)
	if strings.Contains(raw, "c2VjcmV0") || !strings.Contains(raw, `"httpTimeout":"5s"`) {
		t.Errorf("the report of the configuration has the key of the extender, or lacks the default time-out: %s", raw)
	}

	// If the extender's failures are ignored, the Bind plugins bind the pod.
	write(t, file, strings.Replace(text, "bindVerb: bind", "bindVerb: nope, ignorable: true", 1))
	if err := <-reloads; err != nil {
		t.Fatal(err)
	}
	c.pod("ignored", "1m", requestsToo("example.com/gpu"))
	c.bound("ignored")
}

// requestsToo adds a request of one unit of a resource.
func requestsToo(name corev1.ResourceName) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		one := quantities(string(name), "1")[name]
		p.Spec.Containers[0].Resources.Requests[name] = one
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: one}
	}
}
