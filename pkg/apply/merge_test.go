package apply

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

var (
	configMap  = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	deployment = appsv1.SchemeGroupVersion.WithKind("Deployment")
	widget     = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"} // merges as JSON
)

// deploymentOf is a Deployment whose template has these containers.
func deploymentOf(containers string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":` + containers + `}}}}`
}

// widgetOf is a custom resource with this spec.
func widgetOf(spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":` + spec + `}`
}

func TestThreeWay(t *testing.T) {
	for _, c := range []struct {
		name                        string
		gvk                         schema.GroupVersionKind
		original, modified, current string
		want                        string // the patch
	}{
		{"nothing to do", configMap, `{"data":{"a":"1"}}`, `{"data":{"a":"1"}}`, `{"data":{"a":"1"}}`, `{}`},
		{"a changed field", configMap, `{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`, `{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`},
		{"a field removed from the manifest is deleted", configMap, `{"data":{"a":"1","b":"2"}}`, `{"data":{"a":"1"}}`, `{"data":{"a":"1","b":"2"}}`,
			`{"data":{"b":null}}`},
		{"others' fields stay", configMap, `{"data":{"a":"1"}}`, `{"data":{"a":"1"}}`, `{"data":{"a":"1","theirs":"x"}}`, `{}`},
		{"others' fields stay where nothing was applied before", configMap, ``, `{"data":{"a":"2"}}`, `{"data":{"a":"1","theirs":"x"}}`,
			`{"data":{"a":"2"}}`},
		{"what others have changed is set back", configMap, `{"data":{"a":"1"}}`, `{"data":{"a":"1"}}`, `{"data":{"a":"theirs"}}`,
			`{"data":{"a":"1"}}`},
		{"null in the manifest removes", configMap, `{"data":{"a":"1"}}`, `{"data":{"a":null}}`, `{"data":{"a":"1"}}`, `{"data":{"a":null}}`},
		{"containers merge by name", deployment, deploymentOf(`[{"name":"a","image":"x"}]`), deploymentOf(`[{"name":"a","image":"y"}]`),
			deploymentOf(`[{"name":"a","image":"x"},{"name":"sidecar","image":"s"}]`),
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"image":"y","name":"a"}]}}}}`},
		{"a removed container is deleted, a sidecar of another client is kept", deployment, deploymentOf(`[{"name":"a","image":"x"},{"name":"b","image":"x"}]`),
			deploymentOf(`[{"name":"a","image":"x"}]`),
			deploymentOf(`[{"name":"a","image":"x"},{"name":"b","image":"x"},{"name":"sidecar","image":"s"}]`),
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"$patch":"delete","name":"b"}]}}}}`},
		{"defaults of the server stay", deployment, deploymentOf(`[{"name":"a","image":"x"}]`), deploymentOf(`[{"name":"a","image":"x"}]`),
			deploymentOf(`[{"name":"a","image":"x","imagePullPolicy":"Always"}]`), `{}`},
		{"JSON: a removed field is deleted, those of other clients are kept", widget, widgetOf(`{"a":1,"b":2}`), widgetOf(`{"a":1}`), widgetOf(`{"a":1,"b":2,"theirs":3}`),
			`{"spec":{"b":null}}`},
		{"JSON: lists are replaced whole", widget, widgetOf(`{"l":[{"name":"a"}]}`), widgetOf(`{"l":[{"name":"a","x":1}]}`),
			widgetOf(`{"l":[{"name":"a"},{"name":"theirs"}]}`), `{"spec":{"l":[{"name":"a","x":1}]}}`},
		{"JSON: nothing to do", widget, widgetOf(`{"a":1}`), widgetOf(`{"a":1}`), widgetOf(`{"a":1,"theirs":2}`), `{}`},
		{"JSON: nothing was applied before", widget, ``, widgetOf(`{"a":2}`), widgetOf(`{"a":1,"theirs":3}`), `{"spec":{"a":2}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := threeWay(c.gvk, []byte(c.original), []byte(c.modified), []byte(c.current), true)
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, p.data, []byte(c.want)) {
				t.Errorf("patch:\n got %s\nwant %s", p.data, c.want)
			}
			if p.empty() != (c.want == "{}") {
				t.Errorf("empty() = %v of %s", p.empty(), p.data)
			}
			want := types.StrategicMergePatchType
			if c.gvk == widget {
				want = types.MergePatchType
			}
			if p.kind != want {
				t.Errorf("kind: got %s, want %s", p.kind, want)
			}
			mergeAgain(t, c.gvk, []byte(c.modified), []byte(c.current), p)
		})
	}
}

func TestThreeWayErrors(t *testing.T) {
	const changed = "At least one of apiVersion, kind and name was changed"
	manifest := widgetOf(`{"a":1}`)
	for _, c := range []struct {
		name, modified, current string
		gvk                     schema.GroupVersionKind
		overwrite               bool
		want                    string // in the error
	}{
		{"kind", strings.Replace(manifest, "Widget", "Gadget", 1), manifest, widget, true, changed},
		{"apiVersion", strings.Replace(manifest, "example.com/v1", "example.com/v2", 1), manifest, widget, true, changed},
		{"name", strings.Replace(manifest, `"w"`, `"v"`, 1), manifest, widget, true, changed},
		{"no overwrite", `{"data":{"a":"2"}}`, `{"data":{"a":"theirs"}}`, configMap, false, "conflict"},
		{"no JSON", `{`, `{}`, configMap, true, "invalid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			original := manifest
			if c.gvk == configMap {
				original = `{"data":{"a":"1"}}`
			}
			p, err := threeWay(c.gvk, []byte(original), []byte(c.modified), []byte(c.current), c.overwrite)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s, %v; want an error with %q", p.data, err, c.want)
			}
			if want := changed; c.want == want && err != nil && err.Error() != want {
				t.Errorf("not kubectl's words: %v", err)
			}
		})
	}
}

// FuzzThreeWay checks that a second apply of a manifest changes nothing.
func FuzzThreeWay(f *testing.F) {
	for _, s := range [][3]string{
		{`{"data":{"a":"1","b":"2"}}`, `{"data":{"a":"2"}}`, `{"data":{"a":"1","b":"2","c":"3"}}`},
		{deploymentOf(`[{"name":"a","image":"x"},{"name":"b"}]`), deploymentOf(`[{"name":"b","args":["1"]}]`), deploymentOf(`[{"name":"c"},{"name":"a","image":"x"}]`)},
		{``, deploymentOf(`[{"name":"a","ports":[{"containerPort":80}]}]`), deploymentOf(`[{"name":"a","ports":[{"containerPort":81}]}]`)},
		{`{}`, `{"metadata":{"finalizers":["a"],"labels":null}}`, `{"metadata":{"finalizers":["b"],"labels":{"x":"y"}}}`},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, original, modified, current string) {
		if !object(original) && original != "" || !object(modified) || !object(current) {
			t.Skip()
		}
		for _, gvk := range []schema.GroupVersionKind{deployment, configMap, widget} {
			if gvk != widget && (!fits(gvk, original) || !fits(gvk, modified) || !fits(gvk, current)) {
				continue // the server stores no such object
			}
			p, err := threeWay(gvk, []byte(original), []byte(modified), []byte(current), true)
			if err != nil {
				continue
			}
			mergeAgain(t, gvk, []byte(modified), []byte(current), p)
		}
	})
}

// mergeAgain applies a patch to current, as the server does, merges the manifest with the result and applies the second patch.
// That changes nothing, though the patch may have text: it repeats nulls and the manifest's order.
func mergeAgain(t *testing.T, gvk schema.GroupVersionKind, modified, current []byte, p patch) {
	t.Helper()
	once, err := patched(gvk, current, p)
	if err != nil {
		t.Fatalf("the patch %s does not apply: %v", p.data, err)
	}
	again, err := threeWay(gvk, modified, modified, once, true)
	if err != nil {
		t.Fatalf("the second merge: %v", err)
	}
	twice, err := patched(gvk, once, again)
	if err != nil {
		t.Fatal(err)
	}
	if !sameJSON(t, twice, once) {
		t.Errorf("%s: applying twice is not applying once\nfirst  %s\n   to  %s\nsecond %s\n   to  %s", gvk.Kind, p.data, once, again.data, twice)
	}
}

func patched(gvk schema.GroupVersionKind, current []byte, p patch) ([]byte, error) {
	if p.kind == types.MergePatchType {
		return jsonpatch.MergePatch(current, p.data)
	}
	return strategicpatch.StrategicMergePatch(current, p.data, typed(gvk))
}

func typed(gvk schema.GroupVersionKind) any {
	if gvk == deployment {
		return &appsv1.Deployment{}
	}
	return &corev1.ConfigMap{}
}

// fits reports whether JSON is an object of the type without unknown fields.
func fits(gvk schema.GroupVersionKind, s string) bool {
	if s == "" {
		return true
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	return d.Decode(typed(gvk)) == nil
}

func object(s string) bool {
	var m map[string]any
	return json.Unmarshal([]byte(s), &m) == nil && m != nil
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}
