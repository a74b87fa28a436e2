package custom

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/objects"
)

// chance generates schemas and values from a seed.
type chance struct{ *rand.Rand }

var fieldNames = []string{"a", "b", "c", "name", "metadata", "kind", "status", "x-y"}

// schema generates a schema, also an invalid one.
func (c chance) schema(depth int) apiextensionsv1.JSONSchemaProps {
	s := apiextensionsv1.JSONSchemaProps{Nullable: c.Intn(6) == 0}
	types := []string{"object", "array", "string", "integer", "number", "boolean", ""}
	if depth == 0 {
		types = types[2:]
	}
	s.Type = types[c.Intn(len(types))]
	if c.Intn(8) == 0 {
		s.XPreserveUnknownFields = new(true)
	}
	switch s.Type {
	case "object":
		c.object(&s, depth)
	case "array":
		items := c.schema(depth - 1)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
		s.MaxItems = new(int64(c.Intn(4)))
		s.XListType = new([]string{"atomic", "set", "map"}[c.Intn(3)])
		if *s.XListType == "map" {
			s.XListMapKeys = []string{"name"}
		}
	case "string":
		s.MaxLength, s.Format = new(int64(c.Intn(9))), []string{"", "date-time", "int32", "byte", "odd"}[c.Intn(5)]
		s.Pattern = []string{"", "^a", "["}[c.Intn(3)]
	case "integer", "number":
		s.Maximum, s.MultipleOf = new(float64(c.Intn(9))), new(float64(c.Intn(3)))
	case "":
		s.XIntOrString = c.Intn(2) == 0
	}
	if c.Intn(3) == 0 {
		raw, _ := json.Marshal(c.value(2)) // cannot fail: it has plain values only
		s.Default = &apiextensionsv1.JSON{Raw: raw}
	}
	if c.Intn(4) == 0 {
		rules := []string{"self == oldSelf", "has(self.a)", "self.size() < 3", "self > 1", "self.all(x, x == x)", "1 +", "dyn(self).name == 'a'"}
		s.XValidations = apiextensionsv1.ValidationRules{{Rule: rules[c.Intn(len(rules))], MessageExpression: []string{"", "'a' + string(self)"}[c.Intn(2)]}}
	}
	return s
}

func (c chance) object(s *apiextensionsv1.JSONSchemaProps, depth int) {
	if c.Intn(5) == 0 {
		values := c.schema(depth - 1)
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &values}
		return
	}
	s.XEmbeddedResource = c.Intn(6) == 0
	s.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	for range c.Intn(5) {
		name := fieldNames[c.Intn(len(fieldNames))]
		s.Properties[name] = c.schema(depth - 1)
		if c.Intn(3) == 0 {
			s.Required = append(s.Required, name)
		}
	}
}

// value generates a decoded JSON value.
func (c chance) value(depth int) any {
	n := 8
	if depth == 0 {
		n = 6
	}
	switch c.Intn(n) {
	case 0:
		return nil
	case 1:
		return c.Intn(2) == 0
	case 2:
		return int64(c.Intn(20) - 5)
	case 3:
		return c.Float64() * 10
	case 4:
		return []string{"", "a", "ab", "2026-01-01T00:00:00Z", "\x00é"}[c.Intn(5)]
	case 5:
		return fieldNames[c.Intn(len(fieldNames))]
	case 6:
		out := []any{}
		for range c.Intn(4) {
			out = append(out, c.value(depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range c.Intn(5) {
		out[fieldNames[c.Intn(len(fieldNames))]] = c.value(depth - 1)
	}
	return out
}

// definition generates a definition with two versions.
func (c chance) definition() *apiextensionsv1.CustomResourceDefinition {
	n := apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"}
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Names: n, Scope: "Namespaced", PreserveUnknownFields: c.Intn(10) == 0,
	}}
	for i := range 2 {
		s := c.schema(4)
		s.Type = "object"
		if s.Properties == nil {
			c.object(&s, 3)
		}
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: fmt.Sprintf("v%d", i+1), Served: true, Storage: i == 0, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &s},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".a.b", StatusReplicasPath: ".status.a", LabelSelectorPath: new(".status.c")},
			},
			AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
				{Name: "A", Type: "string", JSONPath: ".a.b"}, {Name: "B", Type: "date", JSONPath: ".b[0].c"}, {Name: "C", Type: "integer", JSONPath: `.c[?(@.name=="a")].b`}},
			SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".a.c"}},
		})
	}
	crd.Status.AcceptedNames = n
	return crd
}

// FuzzObject calls every function of a row with random objects and schemas. Nothing may panic,
// and validation and conversion must not change their arguments.
func FuzzObject(f *testing.F) {
	for seed := range int64(200) {
		f.Add(seed, []byte(nil))
	}
	f.Add(int64(1), []byte(`{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a","managedFields":[{}]},"a":{"b":1e400}}`))
	f.Fuzz(func(t *testing.T, seed int64, body []byte) {
		c := chance{rand.New(rand.NewSource(seed))}
		r, err := Row(c.definition(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Versions {
			v := &r.Versions[i]
			if body == nil {
				made := map[string]any{"kind": "Thing", "apiVersion": "example.com/" + v.Version, "metadata": map[string]any{"name": "a"}}
				for _, name := range fieldNames {
					if c.Intn(2) == 0 && made[name] == nil {
						made[name] = c.value(5)
					}
				}
				body, _ = json.Marshal(made)
			}
			once(t, &r, v, body)
			body = nil
		}
	})
}

// once runs one object through the functions of the row.
func once(t *testing.T, r *objects.Resource, v *objects.VersionOf, body []byte) {
	u := v.New().(*unstructured.Unstructured)
	if _, err := v.Unmarshal(body, u, true); err != nil {
		return
	}
	u.SetGroupVersionKind(v.New().GetObjectKind().GroupVersionKind())
	if again, err := v.Coerce(u); err != nil || len(again) > 0 {
		t.Fatalf("not fit after it was made fit: %q, %v", again, err)
	}
	v.Default(u)
	stored := objects.Object(u)
	if v.To != nil {
		var err error
		if stored, err = v.To(u); err != nil {
			return
		}
	}
	r.Default(stored)
	r.Prepare(stored, nil)
	before := stored.DeepCopyObject()
	old := stored.DeepCopyObject().(*unstructured.Unstructured)
	delete(old.Object, "a")
	_ = r.Validate(stored, nil)
	_ = v.Validate(stored, nil)
	_ = v.Validate(stored, old)
	_ = v.ValidateStatus(stored, old)
	_ = r.Warnings(stored, old)
	for _, col := range v.Columns {
		col.Cell(stored, time.Unix(0, 0))
	}
	for _, f := range v.Selectable {
		f(stored)
	}
	_ = r.Scale.Check(stored)
	if v.From != nil {
		_, _ = v.From(stored)
	}
	if !reflect.DeepEqual(before, stored) {
		t.Fatalf("changed from %v to %v", before, stored)
	}
	value, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(value); err != nil {
		t.Fatalf("stored and not readable: %v: %s", err, value)
	}
	r.Prepare(stored, old)
	r.Status.Prepare(stored, old)
}
