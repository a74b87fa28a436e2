package stage

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

// parseStage returns the Stage with a spec in YAML.
func parseStage(t *testing.T, spec string) *kwok.Stage {
	t.Helper()
	s := &kwok.Stage{}
	if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
		t.Fatal(err)
	}
	s.Name, s.UID, s.Generation = "s", "s", 1
	return s
}

// mustCompile compiles a Stage for pods that deletes them. The lines of extra are added to its spec.
func mustCompile(t *testing.T, extra string) *compiled {
	t.Helper()
	c, errs := compile(parseStage(t, "resourceRef: {kind: Pod}\nnext: {delete: true}\n"+extra))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return c
}

func TestCompileErrors(t *testing.T) {
	const pod = "resourceRef: {kind: Pod}\nselector: {}\n"
	for _, c := range []struct{ name, spec, want string }{
		{"kind", "resourceRef: {kind: Job}\nselector: {}\nnext: {delete: true}", `spec.resourceRef.kind: Unsupported value: "Job"`},
		{"group", "resourceRef: {apiGroup: apps/v1, kind: Pod}\nselector: {}\nnext: {delete: true}", `spec.resourceRef.apiGroup: Unsupported value: "apps/v1"`},
		{"nothing to do", pod, "spec.steps: Required value"},
		{"jq", "resourceRef: {kind: Pod}\nselector: {matchExpressions: [{key: '.a[', operator: Exists}]}\nnext: {delete: true}", `spec.selector.matchExpressions[0].key: Invalid value: ".a[": jq: `},
		{"jq function", "resourceRef: {kind: Pod}\nselector: {matchExpressions: [{jq: {key: 'nope(1)', operator: Exists}}]}\nnext: {delete: true}", `spec.selector.matchExpressions[0].jq.key: Invalid value: "nope(1)": jq: function not defined: nope/1`},
		{"operator", "resourceRef: {kind: Pod}\nselector: {matchExpressions: [{key: .a, operator: Equals}]}\nnext: {delete: true}", `spec.selector.matchExpressions[0].operator: Unsupported value: "Equals"`},
		{"values", "resourceRef: {kind: Pod}\nselector: {matchExpressions: [{key: .a, operator: In}]}\nnext: {delete: true}", "spec.selector.matchExpressions[0].values: Required value"},
		{"no values", "resourceRef: {kind: Pod}\nselector: {matchExpressions: [{key: .a, operator: Exists, values: [b]}]}\nnext: {delete: true}", "spec.selector.matchExpressions[0].values: Forbidden"},
		{"CEL", "resourceRef: {kind: Pod}\nselector: {matchExpressions: [{cel: {expression: 'self.'}}]}\nnext: {delete: true}", "spec.selector.matchExpressions[0].cel.expression: Invalid value"},
		{"delay", pod + "delay: {durationMilliseconds: 9223372036854775807}\nnext: {delete: true}", "spec.delay.durationMilliseconds: Invalid value: 9223372036854775807: must be from 0 to"},
		{"delay's source", pod + "delay: {jitterDurationFrom: {expressionFrom: '{'}}\nnext: {delete: true}", "spec.delay.jitterDurationFrom: Invalid value: \"{\": jq: "},
		{"weight's source", pod + "weightFrom: {cel: {expression: 'x'}}\nnext: {delete: true}", "spec.weightFrom: Invalid value: \"x\": CEL: "},
		{"template", pod + "next: {statusTemplate: '{{ nope }}'}", `spec.next.statusTemplate: Invalid value: "{{ nope }}": template: template:1: function "nope" not defined`},
		{"patch", pod + "steps: [{event: {reason: A}}, {patch: {template: '{{ if }}'}}]", `spec.steps[1].patch.template: Invalid value: "{{ if }}": template: `},
		{"patch type", pod + "next: {patches: [{type: apply, template: a}]}", `spec.next.patches[0].type: Unsupported value: "apply"`},
		{"event type", pod + "next: {event: {type: Error}}", `spec.next.event.type: Unsupported value: "Error"`},
		{"impersonation", pod + "next: {statusTemplate: 'a: b', statusPatchAs: {username: joe}}", "spec.next.impersonation: Forbidden"},
		{"apply", pod + "steps: [{apply: {template: a}}]", "spec.steps[0].apply: Forbidden"},
		{"two errors", "resourceRef: {kind: Job}\nselector: {}\n", "spec.resourceRef.kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, errs := compile(parseStage(t, c.spec))
			if err := errs.ToAggregate(); got != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// testNow is the time of subjects.
var testNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func podWith(change func(*corev1.Pod)) *subject {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"num": "5", "d": "7s", "bad": "x"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	pod.Spec.Priority = new(int32(7))
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: "Initialized", Status: "True"}, {Type: "Ready", Status: "False"}}
	if change != nil {
		change(pod)
	}
	return subjectOf(pod, testNow)
}

func TestSelector(t *testing.T) {
	for _, c := range []struct {
		name, selector   string
		matches, selects bool
	}{
		{"empty", "{}", true, true},
		{"label", "{matchLabels: {app: web}}", true, true},
		{"other label", "{matchLabels: {app: db}}", false, false},
		{"missing label", "{matchLabels: {empty: ''}}", false, false},
		{"annotation", "{matchAnnotations: {num: '5'}}", true, true},
		{"other annotation", "{matchAnnotations: {num: '6'}}", false, false},
		{"in", "{matchExpressions: [{key: .status.phase, operator: In, values: [Running, Pending]}]}", true, true},
		{"not in", "{matchExpressions: [{key: .status.phase, operator: NotIn, values: [Pending]}]}", false, true},
		{"exists", "{matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}", false, true},
		{"does not exist", "{matchExpressions: [{key: .metadata.deletionTimestamp, operator: DoesNotExist}]}", true, true},
		{"select", `{matchExpressions: [{key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ['True']}]}`, true, true},
		{"no results", "{matchExpressions: [{key: '.status.containerStatuses.[].state', operator: In, values: [x]}]}", false, true},
		{"failure", "{matchExpressions: [{key: '.status.phase.a', operator: DoesNotExist}]}", true, true},
		{"now", "{matchExpressions: [{key: 'now | todate', operator: In, values: ['2026-01-01T00:00:00Z']}]}", true, true},
		{"environment", "{matchExpressions: [{key: 'env | length', operator: In, values: ['0']}]}", true, true},
		{"number", "{matchExpressions: [{key: .spec.priority, operator: In, values: ['7']}]}", true, true},
		{"other label by jq", `{matchExpressions: [{key: '.metadata.labels["app"]', operator: In, values: [db]}]}`, false, false},
		{"label and state", `{matchExpressions: [{jq: {key: '.metadata.labels.app', operator: In, values: [web]}}, {key: .status.phase, operator: In, values: [Running]}]}`, false, true},
		{"CEL", `{matchExpressions: [{cel: {expression: 'self.status.phase == "Pending" && self.metadata.labels.app.startsWith("w")'}}]}`, true, true},
		{"CEL of a missing field", `{matchExpressions: [{cel: {expression: 'self.metadata.labels.nope == "x"'}}]}`, false, false},
		{"CEL with no boolean", `{matchExpressions: [{cel: {expression: 'self.status.phase'}}]}`, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			stage, s := mustCompile(t, "selector: "+c.selector), podWith(nil)
			if got := stage.matches(s); got != c.matches {
				t.Errorf("matches: got %v", got)
			}
			if got := stage.selects(s); got != c.selects {
				t.Errorf("selects: got %v", got)
			}
		})
	}
	if c, errs := compile(parseStage(t, "resourceRef: {kind: Pod}\nnext: {delete: true}")); c != nil || len(errs) > 0 {
		t.Errorf("without a selector: got %v, %v", c, errs)
	}
}

// TestEndlessQuery: a jq expression that never ends has no result.
func TestEndlessQuery(t *testing.T) {
	if mustCompile(t, "selector: {matchExpressions: [{key: 'last(repeat(1))', operator: Exists}]}").matches(podWith(nil)) {
		t.Error("it matches")
	}
	if !mustCompile(t, "selector: {matchExpressions: [{key: 'repeat(1)', operator: Exists}]}").matches(podWith(nil)) {
		t.Error("the first results are lost")
	}
}

func TestOwns(t *testing.T) {
	running := mustCompile(t, "selector: {matchLabels: {app: web}, matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}")
	staged := func(p *corev1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: kwok.Manager}} }
	for _, c := range []struct {
		name    string
		subject *subject
		deleted bool
		want    bool
	}{
		{"another state", podWith(nil), false, false},
		{"that state", podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), false, true},
		{"played before", podWith(staged), false, true},
		{"played before, no longer selected", podWith(func(p *corev1.Pod) { staged(p); p.Labels = nil }), false, false},
		{"played before, being deleted", podWith(staged), true, false},
		{"that state, being deleted", podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), true, true},
	} {
		if got := owns([]*compiled{running}, c.subject, c.deleted); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestDelay(t *testing.T) {
	now := testNow
	for _, c := range []struct {
		name, delay string
		least, most time.Duration
	}{
		{"none", "{}", 0, 0},
		{"fixed", "{durationMilliseconds: 1500}", 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"jitter", "{durationMilliseconds: 1000, jitterDurationMilliseconds: 2000}", time.Second, 2 * time.Second},
		{"smaller jitter", "{durationMilliseconds: 1000, jitterDurationMilliseconds: 500}", 500 * time.Millisecond, 500 * time.Millisecond},
		{"from an annotation", "{durationMilliseconds: 1000, durationFrom: {expressionFrom: '.metadata.annotations.d'}}", 7 * time.Second, 7 * time.Second},
		{"from a missing annotation", "{durationMilliseconds: 1000, durationFrom: {jq: {expression: '.metadata.annotations.no'}}}", time.Second, time.Second},
		{"from a time", "{durationFrom: {expressionFrom: '.status.startTime'}}", time.Minute, time.Minute},
		{"from a past time", "{durationMilliseconds: 1000, jitterDurationFrom: {expressionFrom: '.metadata.deletionTimestamp'}}", 0, 0},
		{"from CEL", `{durationFrom: {cel: {expression: 'duration("90s")'}}}`, 90 * time.Second, 90 * time.Second},
		{"too long", `{durationFrom: {expressionFrom: '"2000000h"'}}`, maxDelay, maxDelay},
		{"negative", `{durationFrom: {expressionFrom: '"-5s"'}}`, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := podWith(func(p *corev1.Pod) {
				p.Status.StartTime = &metav1.Time{Time: now.Add(time.Minute)}
				p.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
			})
			stage, src := mustCompile(t, "selector: {}\ndelay: "+c.delay), clock.NewSource(1)
			for range 20 {
				if got := stage.delay(s, src); got < c.least || got > c.most {
					t.Fatalf("got %v, want %v to %v", got, c.least, c.most)
				}
			}
		})
	}
}

func TestWeights(t *testing.T) {
	weigh := func(list ...string) []*compiled {
		var out []*compiled
		for i, w := range list {
			c := mustCompile(t, "selector: {}\n"+w)
			c.name = string(rune('a' + i))
			out = append(out, c)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		stages []*compiled
		want   string // the names that are drawn, and about how often of 1,000
		share  map[string]int
	}{
		{"one", weigh(""), "a", nil},
		{"without weights", weigh("", ""), "ab", map[string]int{"a": 500}},
		{"one weight", weigh("weight: 0", "weight: 1"), "b", nil},
		{"weights", weigh("weight: 1", "weight: 9"), "ab", map[string]int{"a": 100}},
		{"from an annotation", weigh("weight: 1\nweightFrom: {expressionFrom: '.metadata.annotations.num'}", "weight: 5"), "ab", map[string]int{"a": 500}},
		{"no number", weigh("weightFrom: {expressionFrom: '.metadata.annotations.bad'}", "weight: 0"), "b", nil},
		{"huge", weigh("weight: 9223372036854775807", "weight: 9223372036854775807"), "ab", map[string]int{"a": 500}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, drawn := clock.NewSource(1), map[string]int{}
			for range 1000 {
				drawn[choose(c.stages, podWith(nil), src).name]++
			}
			for _, s := range c.stages {
				if (drawn[s.name] > 0) != strings.Contains(c.want, s.name) {
					t.Errorf("%s is drawn %d times", s.name, drawn[s.name])
				}
			}
			for name, want := range c.share {
				if got := drawn[name]; got < want*7/10 || got > want*13/10 {
					t.Errorf("%s is drawn %d times, want about %d", name, got, want)
				}
			}
		})
	}
	if choose(nil, podWith(nil), clock.NewSource(1)) != nil {
		t.Error("a Stage of none")
	}
}
