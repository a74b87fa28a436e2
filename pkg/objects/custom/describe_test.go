package custom

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

func TestMerge(t *testing.T) {
	r := rowOf(t, cronTabs)
	merge, err := r.Versions[0].Merge()
	if err != nil {
		t.Fatal(err)
	}
	value := func(spec string) *typed.TypedValue {
		t.Helper()
		v, err := merge.FromUnstructured(cronTab(t, r, spec).Object)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	a := value(`{cronSpec: x, ports: [{name: a, port: 1}, {name: b}], tags: [a], either: 3, template: {kind: A, apiVersion: v1, any: {x: 1}}, free: {x: 1}}`)
	b := value(`{cronSpec: x, ports: [{name: c}, {name: a, port: 2}], tags: [b], either: abc, template: {any: {z: 1}, kind: A, apiVersion: v1}, free: {z: 1}}`)
	merged, err := a.Merge(b)
	if err != nil {
		t.Fatal(err)
	}
	spec, _, _ := unstructured.NestedFieldNoCopy(merged.AsValue().Unstructured().(map[string]any), "spec")
	if got := asJSON(t, spec); got != `{"cronSpec":"x","either":"abc","free":{"x":1,"z":1},"image":"busybox","max":5,"note":"none",`+
		`"ports":[{"name":"c"},{"name":"a","port":2},{"name":"b"}],"replicas":1,"tags":["a","b"],"template":{"any":{"x":1,"z":1},"apiVersion":"v1","kind":"A"}}` {
		t.Errorf("merged to %s", got)
	}
	set, err := a.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{`.spec.ports[name="a"].port`, `.spec.tags[="a"]`, `.spec.free.x`, `.metadata.name`} {
		if !strings.Contains(set.String(), path+"\n") && !strings.HasSuffix(set.String(), path) {
			t.Errorf("no %s in %s", path, set)
		}
	}
	if _, err := merge.FromUnstructured(map[string]any{"spec": map[string]any{"odd": int64(1)}}); err == nil || !strings.Contains(err.Error(), ".spec.odd: field not declared in schema") {
		t.Errorf("got %v", err)
	}
}

func TestOpenAPI(t *testing.T) {
	r := rowOf(t, cronTabs)
	docs, err := r.Versions[0].OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for path := range docs.V3.Paths.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	const in = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs"
	equal(t, "paths", paths, []string{"/apis/stable.example.com/v1/crontabs", in, in + "/{name}", in + "/{name}/scale", in + "/{name}/status"})
	if len(docs.V2.Paths.Paths) != len(paths) {
		t.Errorf("%d paths in v2", len(docs.V2.Paths.Paths))
	}
	model := asJSON(t, docs.V3.Components.Schemas["com.example.stable.v1.CronTab"])
	for _, part := range []string{`"default":"busybox"`, `"x-kubernetes-validations"`, `"x-kubernetes-selectable-fields":[{"fieldPath":"spec.image"}`} {
		if !strings.Contains(model, part) {
			t.Errorf("no %s in %s", part, model)
		}
	}
	if _, ok := docs.V2.Definitions["com.example.stable.v1.CronTab"]; !ok {
		t.Error("no definition in v2")
	}
}
