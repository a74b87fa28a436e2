package apiextensions

import (
	"testing"

	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"sigs.k8s.io/yaml"
)

// TestConvertV1beta1 converts definitions of v1beta1.
func TestConvertV1beta1(t *testing.T) {
	const head = "metadata: {name: shirts.example.com}\nspec:\n  group: example.com\n  names: {plural: shirts, kind: Shirt}\n"
	tests := []struct{ name, text, schema string }{
		{"one version, no schema", "  version: v1\n", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`},
		{"a schema without types", "  version: v1\n  validation: {openAPIV3Schema: {properties: {spec: {properties: {size: {type: string}, more: {}, list: {items: {properties: {a: {type: integer}}}}}}}}}\n",
			`{"properties":{"spec":{"properties":{"list":{"items":{"properties":{"a":{"type":"integer"}},"type":"object","x-kubernetes-preserve-unknown-fields":true},"type":"array"},` +
				`"more":{"x-kubernetes-preserve-unknown-fields":true},"size":{"type":"string"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}},` +
				`"type":"object","x-kubernetes-preserve-unknown-fields":true}`},
		{"metadata and maps", "  version: v1\n  validation: {openAPIV3Schema: {properties: {metadata: {type: object}, spec: {additionalProperties: {type: string}}}}}\n",
			`{"properties":{"metadata":{"type":"object"},"spec":{"additionalProperties":{"type":"string"},"type":"object"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}`},
		{"as in v1", "  preserveUnknownFields: false\n  versions: [{name: v1, served: true, storage: true}]\n  validation: {openAPIV3Schema: {type: object}}\n", `{"type":"object"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := oldDefinitions[0]
			sent := &apiextensionsv1beta1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict([]byte(head+tt.text), sent); err != nil {
				t.Fatal(err)
			}
			v.Default(sent)
			crd, err := v.To(sent)
			if err != nil {
				t.Fatal(err)
			}
			setDefaults(crd)
			prepare(crd, nil)
			refused(t, validate(crd, nil), "")
			got, err := yaml.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			want, err := yaml.JSONToYAML([]byte(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("the schema is\n%swant\n%s", got, want)
			}
			back, err := v.From(crd)
			if err != nil {
				t.Fatal(err)
			}
			if old := back.(*apiextensionsv1beta1.CustomResourceDefinition); old.Spec.Version != "v1" || old.Spec.Scope != "Namespaced" || old.Spec.Validation == nil {
				t.Errorf("back it is %+v", old.Spec)
			}
		})
	}
}
