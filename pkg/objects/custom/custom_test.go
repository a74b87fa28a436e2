package custom

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
)

// cronTabs is a definition with every feature.
const cronTabs = `
metadata: {name: crontabs.stable.example.com, uid: u, generation: 1}
spec:
  group: stable.example.com
  names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList, shortNames: [ct], categories: [all]}
  scope: Namespaced
  conversion: {strategy: None}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas, description: How many, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    selectableFields: [{jsonPath: .spec.image}, {jsonPath: .spec.replicas}]
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [cronSpec]
            x-kubernetes-validations:
            - {rule: self.replicas <= self.max, message: replicas over max}
            properties:
              cronSpec: {type: string, pattern: '^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$'}
              image: {type: string, default: busybox}
              replicas: {type: integer, minimum: 1, maximum: 10, default: 1}
              max: {type: integer, default: 5}
              note: {type: string, nullable: true, default: none}
              comment: {type: string}
              either: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              fixed: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: it is immutable, reason: FieldValueForbidden}]}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer}}}
          status:
            type: object
            properties: {replicas: {type: integer, maximum: 100}, selector: {type: string}}
`

// definition parses a definition with text replaced and sets its accepted names.
func definition(t testing.TB, text string, replace ...string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	with := strings.NewReplacer(replace...).Replace(text)
	if with == text && len(replace) > 0 {
		t.Fatalf("nothing of %q is there", replace)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(with), crd); err != nil {
		t.Fatal(err)
	}
	crd.Status.AcceptedNames = crd.Spec.Names
	return crd
}

func rowOf(t testing.TB, text string, replace ...string) *objects.Resource {
	t.Helper()
	r, err := Row(definition(t, text, replace...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// decode decodes an object in YAML of a version as the server does.
func decode(t testing.TB, v *objects.VersionOf, text string) (*unstructured.Unstructured, []string, error) {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := v.New().(*unstructured.Unstructured)
	complaints, err := v.Unmarshal(data, u, true)
	var out []string
	for _, c := range complaints {
		out = append(out, c.Error())
	}
	if err == nil {
		u.SetAPIVersion(v.Group + "/" + v.Version)
		v.Default(u)
	}
	return u, out, err
}

// cronTab returns a stored CronTab with that spec.
func cronTab(t testing.TB, r *objects.Resource, spec string) *unstructured.Unstructured {
	t.Helper()
	u, unknown, err := decode(t, &r.Versions[0], "kind: CronTab\nmetadata: {name: a, namespace: ns, resourceVersion: '1'}\nspec: "+spec)
	if err != nil || unknown != nil {
		t.Fatal(unknown, err)
	}
	return u
}

// causes formats errors as clients see them.
func causes(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNames(t *testing.T) {
	r := rowOf(t, cronTabs)
	want := objects.Names{Group: "stable.example.com", Version: "v1", Kind: "CronTab", Plural: "crontabs", Singular: "crontab",
		Short: []string{"ct"}, Categories: []string{"all"}}
	if !reflect.DeepEqual(r.Names, want) {
		t.Errorf("got %+v", r.Names)
	}
	if !r.Custom() || !r.NeedsVersion || !r.Undecoded || r.CreateOnUpdate {
		t.Errorf("got %+v", r)
	}
	if got := asJSON(t, r.NewList()); got != `{"apiVersion":"stable.example.com/v1","items":[],"kind":"CronTabList"}` {
		t.Errorf("list is %s", got)
	}
	crd := definition(t, cronTabs)
	crd.Status.AcceptedNames.ListKind = ""
	if _, err := Row(crd, nil); err == nil {
		t.Error("names that are not accepted are served")
	}
}

func TestCoerce(t *testing.T) {
	v := &rowOf(t, cronTabs).Versions[0]
	for _, tt := range []struct {
		name, text string
		unknown    []string
		want       string // the object with defaults, without kind and apiVersion
		err        string
	}{
		{"pruned and defaulted", "metadata: {name: a, odd: 1}\njunk: {a: 1}\nspec: {cronSpec: x, free: {x: 1}, junk: 1, ports: [{name: x, more: 1}]}",
			[]string{`unknown field "metadata.odd"`, `unknown field "junk"`, `unknown field "spec.junk"`, `unknown field "spec.ports[0].more"`},
			`{"metadata":{"name":"a"},"spec":{"cronSpec":"x","free":{"x":1},"image":"busybox","max":5,"note":"none","ports":[{"name":"x"}],"replicas":1}}`, ""},
		{"nulls", "metadata: {name: a}\nspec: {cronSpec: x, note: null, image: null, comment: null, max: 7}", nil,
			`{"metadata":{"name":"a"},"spec":{"cronSpec":"x","image":"busybox","max":7,"note":null,"replicas":1}}`, ""},
		{"embedded", "metadata: {name: a}\nspec: {cronSpec: x, template: {kind: A, apiVersion: v1, metadata: {name: b, odd: 1}, any: 1}}",
			[]string{`unknown field "spec.template.metadata.odd"`},
			`{"metadata":{"name":"a"},"spec":{"cronSpec":"x","image":"busybox","max":5,"note":"none","replicas":1,` +
				`"template":{"any":1,"apiVersion":"v1","kind":"A","metadata":{"name":"b"}}}}`, ""},
		{"twice", "metadata: {name: a}\nspec: {}", nil, `{"metadata":{"name":"a"},"spec":{"image":"busybox","max":5,"note":"none","replicas":1}}`, ""},
		{"bad metadata", "metadata: {name: 5}", nil, "", "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"},
		{"bad embedded kind", "spec: {template: {kind: 5}}", nil, "", `spec.template.kind: Invalid value: 5: must be a string`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, unknown, err := decode(t, v, tt.text)
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("got error %v", err)
				}
				return
			}
			equal(t, "unknown", unknown, tt.unknown)
			delete(u.Object, "kind")
			delete(u.Object, "apiVersion")
			if got := asJSON(t, u.Object); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			before := asJSON(t, u)
			v.Default(u)
			if got := asJSON(t, u); got != before {
				t.Errorf("defaults a second time: %s", got)
			}
		})
	}
}

const unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

func TestValidate(t *testing.T) {
	r := rowOf(t, cronTabs)
	v := &r.Versions[0]
	for _, tt := range []struct {
		name, spec string
		want       []string
	}{
		{"good", `{cronSpec: "* * * * */5"}`, nil},
		{"pattern", `{cronSpec: nope}`, []string{`spec.cronSpec: Invalid value: "nope": spec.cronSpec in body should match '^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$'`}},
		{"range and rule", `{cronSpec: "* * * * */5", replicas: 99}`, []string{
			`spec.replicas: Invalid value: 99: spec.replicas in body should be less than or equal to 10`, `spec: Invalid value: replicas over max`}},
		{"rule", `{cronSpec: "* * * * */5", replicas: 8}`, []string{`spec: Invalid value: replicas over max`}},
		{"required", `{}`, []string{`spec.cronSpec: Required value`, unchecked}},
		{"type", `{cronSpec: "* * * * */5", replicas: three}`, []string{
			`spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`,
			`.spec.replicas: Invalid value: 0: .spec.replicas accessor error: three is of the type string, expected int64`, unchecked}},
		{"set", `{cronSpec: "* * * * */5", tags: [a, b, a]}`, []string{`spec.tags[2]: Duplicate value: "a"`}},
		{"map", `{cronSpec: "* * * * */5", ports: [{name: a}, {name: a, port: 1}]}`, []string{`spec.ports[1]: Duplicate value: {"name":"a"}`}},
		{"embedded", `{cronSpec: "* * * * */5", template: {kind: A}}`, []string{"spec.template.apiVersion: Required value", unchecked}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := cronTab(t, r, tt.spec)
			before := asJSON(t, u)
			equal(t, "errors", causes(v.Validate(u, nil)), tt.want)
			if after := asJSON(t, u); after != before {
				t.Errorf("changed to %s", after)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	r := rowOf(t, cronTabs)
	v := &r.Versions[0]
	for _, tt := range []struct {
		name, old, new string
		want           []string
	}{
		{"an invalid field may be kept", `{cronSpec: nope, tags: [a, a], replicas: 20}`, `{cronSpec: nope, tags: [a, a], replicas: 20, image: b}`, []string{"spec: Invalid value: replicas over max"}},
		{"but not change to wrong", `{cronSpec: nope}`, `{cronSpec: never}`, []string{
			`spec.cronSpec: Invalid value: "never": spec.cronSpec in body should match '^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$'`}},
		{"transition", `{cronSpec: "* * * * */5", fixed: a}`, `{cronSpec: "* * * * */5", fixed: b}`, []string{"spec.fixed: Forbidden: it is immutable"}},
		{"no transition", `{cronSpec: "* * * * */5", fixed: a}`, `{cronSpec: "* * * * */5", fixed: a}`, nil},
		{"list twice now", `{cronSpec: "* * * * */5", tags: [a]}`, `{cronSpec: "* * * * */5", tags: [a, a]}`, []string{`spec.tags[1]: Duplicate value: "a"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, "errors", causes(v.Validate(cronTab(t, r, tt.new), cronTab(t, r, tt.old))), tt.want)
		})
	}
}

func TestMetadata(t *testing.T) {
	r := rowOf(t, cronTabs)
	u := cronTab(t, r, `{cronSpec: nope}`)
	u.SetName("A b")
	u.SetNamespace("")
	equal(t, "errors", causes(r.Validate(u, nil)), []string{
		`metadata.name: Invalid value: "A b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		"metadata.namespace: Required value",
	})
	equal(t, "rules", causes(r.Versions[0].Validate(u, nil))[1:], []string{unchecked})
	u.SetFinalizers([]string{"example.com/a", "foregroundDeletion", "a.b", "b", "b"})
	equal(t, "warnings", r.Warnings(u, nil), []string{
		`metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers`,
		`metadata.finalizers: "b": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers`,
	})
	equal(t, "warnings later", r.Warnings(u, u), nil)
}

func TestPrepare(t *testing.T) {
	r := rowOf(t, cronTabs)
	u := cronTab(t, r, `{cronSpec: x}`)
	u.Object["status"] = map[string]any{"replicas": int64(3)}
	r.Prepare(u, nil)
	if u.GetGeneration() != 1 || u.Object["status"] != nil {
		t.Errorf("created as %v", u)
	}
	old := u.DeepCopy()
	old.Object["status"] = map[string]any{"replicas": int64(3)}

	u = old.DeepCopy()
	u.SetLabels(map[string]string{"a": "b"})
	delete(u.Object, "status")
	r.Prepare(u, old)
	if u.GetGeneration() != 1 || asJSON(t, u.Object["status"]) != `{"replicas":3}` {
		t.Errorf("updated to %v", u)
	}
	u.Object["spec"].(map[string]any)["image"] = "other"
	if r.Prepare(u, old); u.GetGeneration() != 2 {
		t.Errorf("generation is %d", u.GetGeneration())
	}

	u = old.DeepCopy()
	u.SetLabels(map[string]string{"a": "b"})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "me"}})
	u.Object["spec"] = map[string]any{}
	u.Object["status"] = map[string]any{"replicas": int64(4)}
	r.Status.Prepare(u, old)
	if got := asJSON(t, u.Object); got != `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"generation":1,"managedFields":[{"manager":"me"}],"name":"a","namespace":"ns","resourceVersion":"1"},`+
		`"spec":{"cronSpec":"x","image":"busybox","max":5,"note":"none","replicas":1},"status":{"replicas":4}}` {
		t.Errorf("status written: %s", got)
	}
	if old.GetManagedFields() != nil {
		t.Error("the old object has changed")
	}
}

func TestPrepareWithoutStatus(t *testing.T) {
	r := rowOf(t, cronTabs, "      status: {}\n", "")
	u := cronTab(t, r, `{cronSpec: x}`)
	u.Object["status"] = map[string]any{"replicas": int64(3)}
	r.Prepare(u, nil)
	if r.Status != nil || len(r.Reset) != 0 || u.Object["status"] == nil {
		t.Errorf("got %v", u)
	}
	old := u.DeepCopy()
	u.Object["status"] = map[string]any{"replicas": int64(4)}
	if r.Prepare(u, old); u.GetGeneration() != 2 {
		t.Errorf("generation is %d", u.GetGeneration())
	}
}

func TestStatus(t *testing.T) {
	r := rowOf(t, cronTabs)
	v := &r.Versions[0]
	old := cronTab(t, r, `{cronSpec: nope}`)
	u := old.DeepCopy()
	u.Object["status"] = map[string]any{"replicas": int64(101)}
	equal(t, "errors", causes(v.ValidateStatus(u, old)), []string{`status.replicas: Invalid value: 101: replicas in body should be less than or equal to 100`})
	u.Object["status"] = map[string]any{"selector": int64(1)}
	equal(t, "errors", causes(v.ValidateStatus(u, old)), []string{
		`status.selector: Invalid value: "integer": selector in body must be of type string: "integer"`,
		`.status.selector: Invalid value: "": .status.selector accessor error: 1 is of the type int64, expected string`,
		unchecked,
	})
	u.Object["status"] = map[string]any{"replicas": int64(-1)}
	equal(t, "errors", causes(v.ValidateStatus(u, old)), []string{".status.replicas: Invalid value: -1: should be a non-negative integer"})
	u.Object["status"] = map[string]any{"replicas": int64(1)}
	equal(t, "errors", causes(v.ValidateStatus(u, old)), nil)
	u.SetResourceVersion("")
	equal(t, "metadata", causes(r.Status.Validate(u, old)), []string{`metadata.resourceVersion: Invalid value: "": must be specified for an update`})
}

// TestNoStatusYet checks that a write of an empty status is accepted for an object without one, whatever the schema.
func TestNoStatusYet(t *testing.T) {
	r := rowOf(t, cronTabs, `properties: {replicas: {type: integer, maximum: 100}, selector: {type: string}}`, `nullable: true
            enum: [{}]`, `      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
`, "")
	v, old := &r.Versions[0], cronTab(t, r, `{cronSpec: "* * * * */5"}`)
	for status, want := range map[string][]string{"null": nil, "{}": nil, "{a: 1}": {`status: Unsupported value: {"a":1}: supported values: "{}"`, unchecked}} {
		u := old.DeepCopy()
		u.Object["status"] = nil
		if err := yaml.Unmarshal([]byte("status: "+status), &u.Object); err != nil {
			t.Fatal(err)
		}
		equal(t, "errors of "+status, causes(v.ValidateStatus(u, old)), want)
	}
}

func TestScale(t *testing.T) {
	r := rowOf(t, cronTabs)
	u := cronTab(t, r, `{cronSpec: x, replicas: 3}`)
	u.Object["status"] = map[string]any{"replicas": int64(2), "selector": "a=b"}
	if s := r.Scale; s.Spec(u) != 3 || s.Status(u) != 2 || s.Selector(u) != "a=b" || !slices.Equal(s.Path("v1"), []string{"spec", "replicas"}) {
		t.Errorf("got %d of %d with %s at %v", s.Status(u), s.Spec(u), s.Selector(u), s.Path("v1"))
	}
	r.Scale.SetSpec(u, 7)
	if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); n != 7 {
		t.Errorf("set to %d", n)
	}
}

func TestColumns(t *testing.T) {
	r := rowOf(t, cronTabs)
	u := cronTab(t, r, `{cronSpec: x, replicas: 3}`)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	u.SetCreationTimestamp(metav1.NewTime(now.Add(-5 * time.Minute)))
	got := ""
	for _, c := range r.Versions[0].Columns {
		got += asJSON(t, []any{c.Name, c.Type, c.Format, c.Priority, c.Description[:8], c.Cell(u, now)}) + "\n"
	}
	if want := `["Name","string","name",0,"Name mus","a"]
["Spec","string","",0,"Custom r","x"]
["Replicas","integer","",1,"How many",3]
["Age","date","",0,"Custom r","5m"]
`; got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestCells(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	obj := map[string]any{"s": "x", "i": int64(3), "f": 2.5, "b": true, "n": nil, "m": map[string]any{"a": int64(1)}, "l": []any{"a", "b"},
		"t": "2026-01-02T03:04:00Z", "conditions": []any{map[string]any{"type": "A", "status": "False"}, map[string]any{"type": "Ready", "status": "True"}}}
	for _, tt := range []struct{ path, columnType, want string }{
		{".s", "string", `"x"`}, {".i", "string", `"3"`}, {".f", "string", `"2.5"`}, {".b", "string", `"true"`}, {".n", "string", `"\u003cno value\u003e"`},
		{".m", "string", `"{\"a\":1}"`}, {".l", "string", `"[\"a\",\"b\"]"`}, {".l[1]", "string", `"b"`}, {".none", "string", "null"},
		{`.conditions[?(@.type=="Ready")].status`, "string", `"True"`}, {`.conditions[?(@.type=="No")].status`, "string", "null"},
		{".i", "integer", "3"}, {".f", "integer", "2"}, {".s", "integer", "null"}, {".i", "number", "3"}, {".f", "number", "2.5"}, {".b", "boolean", "true"},
		{".s", "boolean", "null"}, {".t", "date", `"5s"`}, {".s", "date", `"\u003cinvalid\u003e"`}, {".i", "date", "null"}, {".n", "date", "null"},
	} {
		p, err := parsePath("x", tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := asJSON(t, cell(p, tt.columnType, obj, now)); got != tt.want {
			t.Errorf("%s as %s: got %s, want %s", tt.path, tt.columnType, got, tt.want)
		}
	}
}

func TestSelectable(t *testing.T) {
	r := rowOf(t, cronTabs)
	u := cronTab(t, r, `{cronSpec: x, replicas: 3}`)
	got := map[string]string{}
	for name, f := range r.Versions[0].Selectable {
		got[name] = f(u)
	}
	if s := asJSON(t, got); s != `{"metadata.name":"a","metadata.namespace":"ns","spec.image":"busybox","spec.replicas":"3"}` {
		t.Errorf("got %s", s)
	}
	delete(u.Object, "spec")
	if v := r.Versions[0].Selectable["spec.image"](u); v != "" {
		t.Errorf("got %q of nothing", v)
	}
}

func TestDeprecation(t *testing.T) {
	more := `
  - {name: v1alpha1, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta1, served: true, storage: false, deprecated: true, deprecationWarning: go away, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: false, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object}}}
`
	r := rowOf(t, cronTabs+strings.TrimPrefix(more, "\n"))
	var got []string
	for _, v := range r.Versions {
		got = append(got, v.Version+": "+v.Deprecated)
	}
	equal(t, "deprecated", got, []string{"v1: ", "v1alpha1: stable.example.com/v1alpha1 CronTab is deprecated; use stable.example.com/v1 CronTab", "v1beta1: go away",
		"v2: stable.example.com/v2 CronTab is deprecated"})
}
