package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// span is a write: its revision is also its time, in milliseconds.
func span(revision uint64, resource, uid, owner string, causes ...uint64) trace.Span {
	return trace.Span{
		Revision: revision, Time: began.Add(time.Duration(revision) * time.Millisecond), Verb: "create", Resource: resource, Name: uid, UID: uid, Owner: owner,
		Actor: "someone", Report: trace.Report{Causes: causes},
	}
}

// rolled is a Deployment d that is created and later changed, beside a pod of another owner.
var rolled = []trace.Span{
	span(1, "deployments.apps", "d", ""),
	span(2, "replicasets.apps", "r1", "d", 1),
	span(3, "pods", "p1", "r1", 2),
	span(4, "pods", "other", "x", 3),     // caused by the change of d, but of another owner
	span(5, "deployments.apps", "d", ""), // the second request
	span(6, "replicasets.apps", "r2", "d", 5),
	span(7, "pods", "p2", "r2", 5, 6, 2),     // the newest cause is used
	span(8, "pods", "p2", "r2", 7),           // bound
	span(9, "replicasets.apps", "r1", "d"),   // owned by d, of unknown cause
	span(10, "deployments.apps", "d", "", 8), // its status
}

func TestChain(t *testing.T) {
	for _, c := range []struct {
		name  string
		spans []trace.Span
		uid   string
		first bool
		want  string // revision:depth<woken+since
	}{
		{"from the last request", rolled, "d", false, "5:0<0+0s 6:1<5+1ms 7:2<6+2ms 8:3<7+3ms 10:4<8+5ms"},
		{"from the creation", rolled, "d", true, "1:0<0+0s 2:1<1+1ms 3:2<2+2ms"},
		{"of what only others have written", rolled, "p2", false, "7:0<0+0s 8:1<7+1ms"},
		{"of what a request and others have written", rolled, "r1", false, "9:0<0+0s"},
		{"the last pod of a chain", rolled, "p1", false, "3:0<0+0s"},
		{"of what is not recorded", rolled, "gone", false, ""},
		{"of nothing", nil, "d", true, ""},
		{"the request is not recorded any more", rolled[5:], "d", false, "10:0<0+0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, s := range chain(c.spans, c.uid, c.first).Steps {
				got = append(got, fmt.Sprintf("%d:%d<%d+%s", s.Revision, s.Depth, s.Cause, s.Since))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}

func TestPrintTrace(t *testing.T) {
	spans := slices.Clone(rolled[:3])
	spans[0].Agent, spans[1].Agent = "kubectl", "kube-controller-manager"
	spans[0].Stages = []trace.Stage{{Name: "admission", Start: began, Took: time.Millisecond}, {Name: "commit", Start: began.Add(2 * time.Millisecond), Took: 123456 * time.Nanosecond}}
	spans[2].Verb, spans[2].Sub, spans[2].Note = "update", "status", "Status Pending → Running"
	spans[2].Actor, spans[2].Agent = "system:node:node-1", "kubelet"
	bound := span(4, "pods", "p1", "r1", 3)
	bound.Sub, bound.Note = "binding", "Node <none> → node-1"
	for _, c := range []struct {
		name   string
		spans  []trace.Span
		uid    string
		stages bool
		width  int
		want   string
	}{
		{"a request", spans, "d", false, 0, `
STEP  TIME  CAUSE    TOOK    WRITER                   WRITE
1     +0s   request  2.12ms  kubectl                  create deployments.apps/d
2     +0s   step 1   0s      kube-controller-manager  create replicasets.apps/r1
3     +877µs  step 2   0s      kubelet node-1           update pods/status/p1: Status Pending → Running
`},
		{"stages", spans[:1], "d", true, 0, `
STEP  TIME  CAUSE    TOOK    WRITER   WRITE
1     +0s   request  2.12ms  kubectl  create deployments.apps/d
                     1ms                admission
                     123µs              commit
`},
		{"80 columns", spans, "d", false, 80, `
STEP  TIME    CAUSE    TOOK    WRITER            WRITE
1     +0s     request  2.12ms  kubectl           create deployments.apps/d
2     +0s     step 1   0s      kube-controller-  create replicasets.apps/r1
                               manager
3     +877µs  step 2   0s      kubelet node-1    update pods/status/p1: Status
                                                 Pending → Running
`},
		{"an object that a controller wrote", append(slices.Clone(rolled[:3]), bound), "p1", false, 0, `
STEP  TIME  CAUSE   TOOK  WRITER   WRITE
1     +0s   below   0s    someone  create pods/p1
2     +1ms  step 1  0s    someone  create pods/binding/p1: Node <none> → node-1
Step 1 was caused by: someone, create replicasets.apps/r1
`},
		{"the log has dropped the cause", rolled[2:3], "p1", false, 0, `
STEP  TIME  CAUSE    TOOK  WRITER   WRITE
1     +0s   dropped  0s    someone  create pods/p1
The trace log, which keeps the newest writes, has dropped earlier writes of this chain.
`},
		{"the log has dropped the request", rolled[7:8], "p2", false, 0, `
STEP  TIME  CAUSE    TOOK  WRITER   WRITE
1     +0s   dropped  0s    someone  create pods/p2
The trace log, which keeps the newest writes, has dropped earlier writes of this chain.
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := chain(c.spans, c.uid, true).print(&b, c.stages, c.width); err != nil {
				t.Fatal(err)
			}
			got := trimmed(b.String())
			if words := func(s string) []string { return strings.Fields(s) }; !slices.Equal(words(got), words(c.want)) || c.width > 0 && got != c.want {
				t.Errorf("got%s\nwant%s", got, c.want)
			}
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(line) - 1; c.width > 0 && n > c.width {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
}

// trimmed returns a table without the spaces at the ends of lines, preceded by an empty line.
func trimmed(s string) string {
	var out strings.Builder
	out.WriteByte('\n')
	for line := range strings.Lines(s) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// TestChainTimes checks that the time of a step is the time of its commit, and not before the time of the previous step.
func TestChainTimes(t *testing.T) {
	at := func(revision uint64, begin, commit int, causes ...uint64) trace.Span {
		s := span(revision, "pods", "p", "", causes...)
		s.Time = began.Add(time.Duration(begin) * time.Millisecond)
		s.Stages = []trace.Stage{{Name: "authz", Start: s.Time}, {Name: "commit", Start: began.Add(time.Duration(commit) * time.Millisecond)}}
		return s
	}
	var got []string
	for _, s := range chain([]trace.Span{at(1, 0, 5), at(2, 40, 50, 1), at(3, 20, 60, 1), at(4, 30, 59, 2)}, "p", false).Steps {
		got = append(got, s.Since.String())
	}
	if want := []string{"0s", "45ms", "55ms", "55ms"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestChainOfCommitsTogether checks that a chain has a write that the log has before the write which caused it.
func TestChainOfCommitsTogether(t *testing.T) {
	spans := []trace.Span{span(1, "jobs.batch", "job", ""), span(3, "pods", "pod", "job", 2), span(2, "pods", "pod", "job", 1)}
	var got []uint64
	for _, s := range chain(spans, "job", false).Steps {
		got = append(got, s.Revision)
	}
	if want := []uint64{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPrintDecision(t *testing.T) {
	var b bytes.Buffer
	d := &minikctl.Decision{Pod: "web", Profile: "default-scheduler", Attempt: 1, Outcome: "Scheduled", Node: "node-2", Nodes: 3, Evaluated: 3, Feasible: 2,
		Rejected:  []minikctl.Rejection{{Plugin: "TaintToleration", Reasons: []string{"node(s) had untolerated taint(s)"}, Details: []string{"dedicated=db:NoSchedule"}, Nodes: []string{"node-3"}, Count: 1}},
		WokenBy:   &minikctl.Waking{Event: "NodeAdd", Object: "node-2", Plugin: "NodeResourcesFit"},
		Extenders: []minikctl.ExtenderCall{{Extender: "http://x", Verb: "filter", Outcome: "Ignored", Message: "failed filter", Took: time.Millisecond}},
	}
	for _, node := range []string{"node-2", "node-1"} {
		d.Scores = append(d.Scores, minikctl.NodeScores{Nodes: []string{node}, Total: 397, Plugins: []minikctl.PluginScore{
			{Plugin: "TaintToleration", Score: 300}, {Plugin: "NodeResourcesFit", Score: 97}, {Plugin: "NodeResourcesBalancedAllocation"}, {Plugin: "ImageLocality"}}})
	}
	if err := printDecision(&b, d, 80); err != nil {
		t.Fatal(err)
	}
	const want = `
pod/web: attempt 1 of profile default-scheduler: Scheduled to node-2
woken by NodeAdd of node-2, which may satisfy NodeResourcesFit
3 of 3 nodes evaluated, 2 feasible, in 0s

Rejected:
COUNT  PLUGIN           REASON                             NODES
1      TaintToleration  node(s) had untolerated taint(s):  node-3
                        dedicated=db:NoSchedule

Extenders:
EXTENDER  VERB    OUTCOME  TOOK  MESSAGE
http://x  filter  Ignored  1ms   failed filter

Scores (normalised × weight):
TOTAL          NODE    PLUGINS
397    chosen  node-2  TaintToleration 300, NodeResourcesFit 97,
                       NodeResourcesBalancedAllocation 0, ImageLocality 0
397            node-1  TaintToleration 300, NodeResourcesFit 97,
                       NodeResourcesBalancedAllocation 0, ImageLocality 0
`
	if got := trimmed(b.String()); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

// TestPrintDecisionWithoutEvaluation prints the decision about a pod that a Permit plugin rejected, whose record has no evaluation.
func TestPrintDecisionWithoutEvaluation(t *testing.T) {
	var b bytes.Buffer
	d := &minikctl.Decision{Pod: "web", Profile: "default-scheduler", Attempt: 1, Outcome: "Unschedulable", Node: "node-2", Message: "PodGroup not found"}
	if err := printDecision(&b, d, 80); err != nil {
		t.Fatal(err)
	}
	if want := "pod/web: attempt 1 of profile default-scheduler: Unschedulable after node-2 was chosen\nPodGroup not found\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1499: "1µs", 999_999: "1ms", 12_345_678: "12.35ms", time.Second: "1s", 90*time.Second + 123_456_789: "1m30.12s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

func TestPodName(t *testing.T) {
	for _, c := range []struct{ args, want, err string }{
		{"web", "web", ""}, {"pod/web", "web", ""}, {"pods web", "web", ""}, {"po/web", "web", ""},
		{"deployment/web", "", "deployment/web is not a pod; only pods have decisions: minikctl why pod/NAME, or -l SELECTOR for several pods"},
		{"node web", "", "node/web is not a pod; only pods have decisions: minikctl why pod/NAME, or -l SELECTOR for several pods"},
	} {
		got, err := podName(strings.Fields(c.args))
		if got != c.want || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%s: got %q, %v", c.args, got, err)
		}
	}
}
