package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// rolled is a Deployment d that is created and later changed, with a pod of somebody else's beside it.
var rolled = []trace.Span{
	span(1, "deployments.apps", "d", ""),
	span(2, "replicasets.apps", "r1", "d", 1),
	span(3, "pods", "p1", "r1", 2),
	span(4, "pods", "other", "x", 3),     // woken by it, but of another family
	span(5, "deployments.apps", "d", ""), // the second request
	span(6, "replicasets.apps", "r2", "d", 5),
	span(7, "pods", "p2", "r2", 5, 6, 2),     // the newest cause counts
	span(8, "pods", "p2", "r2", 7),           // bound
	span(9, "replicasets.apps", "r1", "d"),   // of the family, woken by nothing that is known
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
			for _, s := range chain(c.spans, c.uid, c.first) {
				got = append(got, fmt.Sprintf("%d:%d<%d+%s", s.Revision, s.Depth, s.Woken, s.Since))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}

func TestPrintSteps(t *testing.T) {
	spans := slices.Clone(rolled[:3])
	spans[0].Agent, spans[1].Agent = "kubectl", "kube-controller-manager"
	spans[0].Stages = []trace.Stage{{Name: "admission", Start: began, Took: time.Millisecond}, {Name: "commit", Start: began.Add(2 * time.Millisecond), Took: 123456 * time.Nanosecond}}
	spans[2].Verb, spans[2].Sub, spans[2].Note = "update", "status", "phase Pending → Running"
	for stages, want := range map[bool]string{
		false: `
STEP   TIME   WHO                       DID                                              WOKEN BY   TOOK
1      +0s    kubectl                   create deployments.apps/d                        request    2.12ms
2      +1ms   kube-controller-manager   create replicasets.apps/r1                       step 1     0s
3      +2ms   someone                   update pods/status/p1: phase Pending → Running   step 2     0s
`,
		true: `
STEP   TIME   WHO                       DID                                              WOKEN BY   TOOK
1      +0s    kubectl                   create deployments.apps/d                        request    2.12ms
                                          admission                                                 1ms
                                          commit                                                    123µs
2      +1ms   kube-controller-manager   create replicasets.apps/r1                       step 1     0s
3      +2ms   someone                   update pods/status/p1: phase Pending → Running   step 2     0s
`,
	} {
		var b bytes.Buffer
		if err := printSteps(&b, chain(spans, "d", true), stages); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		got.WriteByte('\n')
		for line := range strings.Lines(b.String()) {
			got.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		if got.String() != want {
			t.Errorf("stages %v: got%s\nwant%s", stages, got.String(), want)
		}
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
		{"deployment/web", "", "only pods are scheduled, and deployment/web is none: minikctl why pod/NAME"},
		{"node web", "", "only pods are scheduled, and node/web is none: minikctl why pod/NAME"},
	} {
		got, err := podName(strings.Fields(c.args))
		if got != c.want || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%s: got %q, %v", c.args, got, err)
		}
	}
}
