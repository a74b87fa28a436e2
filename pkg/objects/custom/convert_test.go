package custom

import (
	"context"
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

// shirts has three versions: the second is the storage version and the third is not served.
const shirts = `
metadata: {name: shirts.example.com, uid: u, generation: 1}
spec:
  group: example.com
  names: {plural: shirts, singular: shirt, kind: Shirt, listKind: ShirtList}
  scope: Cluster
  conversion: {strategy: None}
  versions:
  - name: v1
    served: true
    storage: false
    selectableFields: [{jsonPath: .spec.color}]
    subresources: {scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {color: {type: string, default: red, enum: [red, blue]}, size: {type: integer}, count: {type: integer}}}}}}
  - name: v2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {color: {type: string}, size: {type: integer, maximum: 5}, fit: {type: string, default: slim}}}}}}
  - name: v3
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {color: {type: string, default: green}, style: {type: string}}}}}}
`

func TestVersions(t *testing.T) {
	r := rowOf(t, shirts)
	if len(r.Versions) != 3 || !r.Versions[2].Unserved || r.Versions[0].Version != "v2" || r.Versions[1].Version != "v1" || r.Names.Version != "v2" || !r.Names.Cluster {
		t.Fatalf("got %+v", r)
	}
	v1 := &r.Versions[1]
	u, _, err := decode(t, v1, "kind: Shirt\nmetadata: {name: a}\nspec: {size: 7, color: green, count: 2}")
	if err != nil {
		t.Fatal(err)
	}
	before := asJSON(t, u)
	stored, err := v1.To(u)
	if err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, stored); got != `{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"name":"a"},"spec":{"color":"green","size":7}}` {
		t.Errorf("stored as %s", got)
	}
	if asJSON(t, u) != before {
		t.Error("the object was changed")
	}
	r.Default(stored)
	before = asJSON(t, stored)
	back, err := v1.From(stored)
	if err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, back); got != `{"apiVersion":"example.com/v1","kind":"Shirt","metadata":{"name":"a"},"spec":{"color":"green","size":7}}` {
		t.Errorf("back as %s", got)
	}
	equal(t, "rules of v2", causes(r.Versions[0].Validate(stored, nil)), []string{"spec.size: Invalid value: 7: spec.size in body should be less than or equal to 5"})
	equal(t, "rules of v1", causes(v1.Validate(stored, nil)), []string{`spec.color: Unsupported value: "green": supported values: "red", "blue"`})
	if got := v1.Selectable["spec.color"](stored); got != "green" {
		t.Errorf("selected by %q", got)
	}
	if asJSON(t, stored) != before {
		t.Error("the stored object was changed")
	}
	if _, ok := v1.Selectable["metadata.namespace"]; ok || r.Selectable["spec.color"] != nil {
		t.Error("a missing field is selectable")
	}
	if r.Scale == nil || r.Scale.Path("v2") != nil || len(r.Scale.Path("v1")) != 2 {
		t.Error("the scale of v1 is not there, or elsewhere too")
	}
}

func TestRead(t *testing.T) {
	r := rowOf(t, shirts)
	for _, tt := range []struct{ name, value, want, err string }{
		{"as stored", `{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"name":"a"},"spec":{"size":1,"odd":1}}`,
			`{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"generation":1,"name":"a"},"spec":{"fit":"slim","size":1}}`, ""},
		{"of another version", `{"apiVersion":"example.com/v3","kind":"Shirt","metadata":{"name":"a","generation":3},"spec":{"style":"x","size":1}}`,
			`{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"generation":3,"name":"a"},"spec":{"color":"green"}}`, ""},
		{"metadata that was stored without validation", `{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"name":"a","labels":5,"odd":1}}`,
			`{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"generation":1,"name":"a"}}`, ""},
		{"of no version", `{"apiVersion":"example.com/v4","kind":"Shirt"}`, "", "request to convert CR from an invalid group/version: example.com/v4"},
		{"no JSON", `{`, "", "decode stored Shirt: unexpected end of JSON input"},
		{"null", `null`, "", "request to convert CR from an invalid group/version: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.Read([]byte(tt.value))
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got error %v", err)
				}
				return
			}
			if s := asJSON(t, got); s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

// moves is a converter between the field color of v1 and style of other versions.
type moves struct{ err error }

func (m moves) Convert(_ context.Context, _ *apiextensionsv1.CustomResourceDefinition, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	if m.err != nil {
		return nil, m.err
	}
	var out []*unstructured.Unstructured
	for _, u := range objs {
		u = u.DeepCopy()
		u.SetAPIVersion(to.String())
		spec, _ := u.Object["spec"].(map[string]any)
		from, name := "style", "color"
		if to.Version != "v1" {
			from, name = name, from
		}
		if v, ok := spec[from]; ok {
			spec[name] = v
			delete(spec, from)
		}
		spec["odd"] = true
		out = append(out, u)
	}
	return out, nil
}

func TestWebhook(t *testing.T) {
	crd := definition(t, shirts, "strategy: None", "strategy: Webhook", "fit: {type: string", "style: {type: string}, fit: {type: string")
	row := func(c Converter) *objects.Resource {
		r, err := Row(crd, c)
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	r := row(moves{})
	v1 := &r.Versions[1]
	u, _, err := decode(t, v1, "kind: Shirt\nmetadata: {name: a}\nspec: {color: blue}")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := v1.To(u)
	if err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, stored); got != `{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"name":"a"},"spec":{"style":"blue"}}` {
		t.Errorf("stored as %s", got)
	}
	if got := v1.Selectable["spec.color"](stored); got != "blue" {
		t.Errorf("selected by %q", got)
	}
	equal(t, "rules of v1", causes(v1.Validate(stored, stored)), nil)
	read, err := r.Read([]byte(asJSON(t, u)))
	if err != nil || !strings.Contains(asJSON(t, read), `"style":"blue"`) {
		t.Errorf("read as %v, %v", read, err)
	}
	if same, err := v1.To(stored); err != nil || asJSON(t, same) != asJSON(t, stored) {
		t.Errorf("a stored object converts to %v, %v", same, err)
	}

	r = row(moves{errors.New("no")})
	v1 = &r.Versions[1]
	if _, err := v1.To(u); err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
	equal(t, "rules of v1", causes(v1.Validate(stored, nil)), []string{"<nil>: Internal error: no"})
	if _, err := row(nil).Versions[1].To(u); err == nil {
		t.Error("converts without a webhook")
	}
}
