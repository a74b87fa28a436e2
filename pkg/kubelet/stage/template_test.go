package stage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

// fixed are addresses that do not change.
type fixed struct{}

func (fixed) NodeIP(node string) string {
	if node == "" {
		return ""
	}
	return "127.0.0.1"
}
func (fixed) NodePort(string) int32  { return 10250 }
func (fixed) PodIP() (string, error) { return "10.244.0.9", nil }

var testEnv = Env{Now: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC), Started: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Node: "n1", Addresses: fixed{}}

func render(t *testing.T, text string, s *subject) (string, error) {
	t.Helper()
	c, err := newContent(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.render(s, testEnv)
	return string(b), err
}

func TestFunctions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`a: {{ Now | Quote }}`, `{"a":"2026-01-02T03:04:05.0000006Z"}`},
		{`a: {{ StartTime | Quote }}`, `{"a":"2026-01-01T00:00:00Z"}`},
		{"a:\n{{ YAML .metadata.labels 1 }}", `{"a":{"app":"web"}}`},
		{`a: {{ Quote .spec.containers }}`, ``},
		{`a: {{ NodeName }}/{{ NodeIP }}:{{ NodePort }}`, `{"a":"n1/127.0.0.1:10250"}`},
		{`a: {{ NodeIPWith "n" }}`, `{"a":"127.0.0.1"}`},
		{`a: {{ PodIPWith "n" false "" "" "" }} {{ PodIPWith "n" true "" "" "" }}`, `{"a":"10.244.0.9 127.0.0.1"}`},
		{`a: {{ index (PodIPsWith "n" ( or .spec.hostNetwork false ) "" "" "") 0 }}`, `{"a":"10.244.0.9"}`},
		{`{{ range NodeConditions }}{{ .type }}: {{ .status }}{{ "\n" }}{{ end }}`, `{"DiskPressure":false,"MemoryPressure":false,"NetworkUnavailable":false,"PIDPressure":false,"Ready":true}`},
		{`{{ $a := or .metadata.nope dict }}a: {{ or ( index $a "x" ) 3 }}`, `{"a":3}`},
		{`{{ range .spec.initContainers }}x{{ else }}a: 1{{ end }}`, `{"a":1}`},
		{`a: {{ if eq .spec.containers "x" }}{{ end }}`, `error`},
		{`a: {{ printf "%v" .spec.priority }}`, `{"a":7}`},
		{`a: {{ "x" | default "y" | upper }}-{{ default "y" .nope }}`, `{"a":"X-y"}`},
		{`a: {{ join "," (list 1 "b" 2) | quote }}`, `{"a":"1,b,2"}`},
		{`a: {{ add 1 2 | mul 3 }} {{ sub 5 "2" }} {{ div 7 2 }} {{ max 1 5 3 }}`, `{"a":"9 3 3 5"}`},
		{`a: {{ ternary "in" "out" (hasPrefix "p" .metadata.name) }}`, `{"a":"in"}`},
		{`a: [{{ range until 3 }}{{ . }},{{ end }}]`, `{"a":[0,1,2]}`},
		{"a:{{ YAML .metadata.labels | nindent 2 }}", `{"a":{"app":"web"}}`},
		{`a: {{ (fromJson "{\"b\":4}").b }}`, `{"a":4}`},
		{`a: {{ has "b" (splitList "," "a,b") }}`, `{"a":true}`},
		{`{{ fail "no" }}`, "error"},
		{`a: {{ div 1 0 }}`, "error"},
	} {
		got, err := render(t, c.text, podWith(func(p *corev1.Pod) { p.Spec.NodeName = "" }))
		if c.want == "error" {
			if err == nil {
				t.Errorf("%s: got %s, want an error", c.text, got)
			}
			continue
		}
		if err != nil || c.want != "" && got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.text, got, err, c.want)
		}
	}
}

// TestEndlessTemplates: no template takes long or makes much.
func TestEndlessTemplates(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{{ range 1000000000000 }}{{ end }}`, "too many steps"},
		{`{{ $l := until 10000 }}{{ range $l }}{{ range $l }}{{ range $l }}{{ end }}{{ end }}{{ end }}`, "too many steps"},
		{`{{ define "x" }}{{ template "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`, ""},
		{`{{ range until 100000 }}{{ end }}`, "more than 10000"},
		{`{{ repeat 1000000000 "x" }}`, "more than 10000"},
		{`{{ $s := repeat 9000 "x" }}{{ range 1000 }}{{ $s }}{{ end }}`, "1 MiB"},
		{`{{ $s := repeat 5000 "x" }}{{ range 10 }}{{ $s = replace "x" $s "xxxxxxxxxx" }}{{ $s = replace "x" $s $s }}{{ end }}{{ $s }}`, ""},
		{`a: {{ .spec.containers.nope.x }}`, "can't evaluate"},
		{"a: [\n", "no YAML"},
	} {
		if got, err := render(t, c.text, podWith(nil)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.40s, %v", c.text, got, err)
		}
	}
}

func TestPatches(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"status template", "next: {statusTemplate: 'phase: Running'}", `status strategic {"metadata":{"uid":"u"},"status":{"phase":"Running"}}`},
		{"patches instead of it", "next: {statusTemplate: 'phase: Running', patches: [{root: metadata, template: 'labels: {a: b}', type: merge}]}", ` merge {"metadata":{"uid":"u","labels":{"a":"b"}}}`},
		{"json", `steps: [{patch: {type: json, root: metadata, template: '[{"op": "remove", "path": "/labels"}]'}}]`, ` json [{"op":"test","path":"/metadata/uid","value":"u"},{"op":"remove","path":"/metadata/labels"}]`},
		{"empty", "steps: [{patch: {subresource: status, template: '{}'}}]", `status strategic {"metadata":{"uid":"u"}}`},
		{"no object", "steps: [{patch: {template: '[1]'}}]", "error"},
		{"no patch", "steps: [{patch: {type: json, template: 'a: 1'}}]", "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stage, errs := compile(parseStage(t, "resourceRef: {kind: Pod}\nselector: {}\n"+c.spec))
			if len(errs) > 0 || len(stage.steps) != 1 {
				t.Fatal(errs, stage)
			}
			p := stage.steps[0].patch
			got, err := p.make(podWith(nil), testEnv)
			if c.want == "error" {
				if err == nil {
					t.Errorf("got %s", got.Data)
				}
				return
			}
			kind := map[string]string{"application/json-patch+json": "json", "application/merge-patch+json": "merge", "application/strategic-merge-patch+json": "strategic"}[string(got.Type)]
			parts := strings.SplitN(c.want, " ", 3)
			if err != nil || p.subresource != parts[0] || kind != parts[1] || !sameJSON(string(got.Data), parts[2]) {
				t.Errorf("got %s %s %s, %v", p.subresource, kind, got.Data, err)
			}
		})
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

// TestOrder: the parts of next are played in a fixed order, those of steps in theirs, and nothing but events follows a delete.
func TestOrder(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"next: {delete: true, statusTemplate: 'a: b', finalizers: {empty: true}, event: {reason: A}}", "event finalizers patch delete"},
		{"steps: [{patch: {template: 'a: b'}}, {event: {reason: A}}, {delete: true}, {patch: {template: 'a: b'}, event: {reason: B}}]", "patch event delete event"},
		{"steps: [{event: {reason: A}, finalizers: {empty: true}, delete: true, patch: {template: 'a: b'}}]", "event finalizers delete"},
		{"next: {delete: true}\nsteps: [{event: {reason: A}}]", "event"},
	} {
		stage, errs := compile(parseStage(t, "resourceRef: {kind: Pod}\nselector: {}\n"+c.spec))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		var got []string
		for _, s := range stage.steps {
			switch {
			case s.event != nil:
				got = append(got, "event")
			case s.finalizers != nil:
				got = append(got, "finalizers")
			case s.patch != nil:
				got = append(got, "patch")
			case s.delete:
				got = append(got, "delete")
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.spec, text, c.want)
		}
	}
}

func TestFinalizers(t *testing.T) {
	of := func(names ...string) (out []kwok.Finalizer) {
		for _, n := range names {
			out = append(out, kwok.Finalizer{Value: n})
		}
		return out
	}
	for _, c := range []struct {
		have   []string
		change kwok.Finalizers
		want   []string
	}{
		{nil, kwok.Finalizers{Add: of("a", "b", "a")}, []string{"a", "b"}},
		{[]string{"a"}, kwok.Finalizers{Add: of("a")}, []string{"a"}},
		{[]string{"a", "b", "c"}, kwok.Finalizers{Remove: of("a", "c", "x")}, []string{"b"}},
		{[]string{"a", "b"}, kwok.Finalizers{Empty: true, Add: of("c")}, []string{"c"}},
		{[]string{"a"}, kwok.Finalizers{Remove: of("a"), Add: of("b")}, []string{"b"}},
	} {
		got, changed := changeFinalizers(c.have, &c.change)
		if !slices.Equal(got, c.want) || changed == slices.Equal(c.have, c.want) {
			t.Errorf("%v, %+v: got %v, %v", c.have, c.change, got, changed)
		}
	}
}
