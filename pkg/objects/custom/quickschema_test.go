package custom

import (
	"math/rand"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func internalOf(t testing.TB, s *apiextensionsv1.JSONSchemaProps) *apiextensions.JSONSchemaProps {
	t.Helper()
	out := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(s, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestQuickSchema checks with random schemas and values that the library accepts every value that a quickSchema accepts.
func TestQuickSchema(t *testing.T) {
	accepted, valid := 0, 0
	for seed := range int64(3000) {
		c := chance{rand.New(rand.NewSource(seed))}
		schema := c.schema(4)
		if c.Intn(3) == 0 {
			schema.AnyOf = []apiextensionsv1.JSONSchemaProps{c.schema(1), c.schema(1)}
		}
		if c.Intn(3) == 0 {
			schema.AllOf = []apiextensionsv1.JSONSchemaProps{c.schema(1)}
		}
		props := internalOf(t, &schema)
		library, _, err := schemavalidation.NewSchemaValidator(props)
		if err != nil {
			continue
		}
		quickSchema := quickSchemaOf(props)
		for range 20 {
			x := c.value(3)
			wrong := schemavalidation.ValidateCustomResource(nil, x, library)
			if len(wrong) == 0 {
				valid++
			}
			if !quickSchema.accepts(x) {
				continue
			}
			if accepted++; len(wrong) > 0 {
				t.Fatalf("seed %d: accepted %s, for which the library returns %v, by %s", seed, asJSON(t, x), wrong, asJSON(t, schema))
			}
		}
	}
	if accepted < valid*3/4 {
		t.Errorf("accepted %d of %d valid values", accepted, valid)
	}
}

// TestQuickSchemaAccepts checks that typical valid objects are accepted, and invalid ones are not.
func TestQuickSchemaAccepts(t *testing.T) {
	for _, c := range []struct{ schema, good, bad string }{
		{`{type: string, minLength: 2, maxLength: 3}`, `[ab, äöü, abc]`, `[a, abcd, ä, 1, true, null, [], {}]`},
		{`{type: string, pattern: ^a, nullable: true}`, `[a, null]`, `[b, 1]`},
		{`{type: string, enum: [a, b]}`, `[a]`, `[c, null]`},
		{`{type: string, enum: [a], nullable: true}`, `[a]`, `[null]`},
		{`{type: string, format: date-time}`, `["2026-01-01T00:00:00Z"]`, `[today]`},
		{`{type: integer, minimum: 1, maximum: 5, exclusiveMaximum: true}`, `[1, 4]`, `[0, 5, 1.5, a]`},
		{`{type: integer, format: int32}`, `[1, -1]`, `[3000000000]`},
		{`{type: number, maximum: 2}`, `[1, 1.5, -3]`, `[2.5, a]`},
		{`{type: boolean}`, `[true]`, `[1, a]`},
		{`{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}`, `[1, a, 50%]`, `[1.5, true, {}]`},
		{`{type: array, items: {type: string}, minItems: 1, maxItems: 2}`, `[[a], [a, b]]`, `[[], [a, b, c], [1], a]`},
		{`{type: object, required: [a], properties: {a: {type: integer}}}`, `[{a: 1}, {a: 1, b: x}]`, `[{}, {a: x}, {a: null}, []]`},
		{`{type: object, additionalProperties: {type: integer}, maxProperties: 1}`, `[{}, {x: 1}]`, `[{x: a}, {x: 1, y: 2}]`},
		{`{type: object, x-kubernetes-preserve-unknown-fields: true}`, `[{}, {x: {y: [null]}}]`, `[a]`},
	} {
		var schema apiextensionsv1.JSONSchemaProps
		if err := yaml.Unmarshal([]byte(c.schema), &schema); err != nil {
			t.Fatal(err)
		}
		quickSchema := quickSchemaOf(internalOf(t, &schema))
		for want, text := range map[bool]string{true: c.good, false: c.bad} {
			for _, x := range values(t, text) {
				if got := quickSchema.accepts(x); got != want {
					t.Errorf("%s: accepts(%v) is %v, want %v", c.schema, x, got, want)
				}
			}
		}
	}
}

// values decodes a YAML list as the server does.
func values(t *testing.T, text string) (out []any) {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
