package custom

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	merge "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/minikctl/minikctl/pkg/objects"
)

// openAPI returns the version's OpenAPI documents, equal to Kubernetes'.
func (v *version) openAPI() (objects.OpenAPI, error) {
	v2, err := builder.BuildOpenAPIV2(v.crd, v.spec.Name, builder.Options{V2: true, IncludeSelectableFields: true})
	if err != nil {
		return objects.OpenAPI{}, fmt.Errorf("describe %s: %w", v.gvk, err)
	}
	v3, err := builder.BuildOpenAPIV3(v.crd, v.spec.Name, builder.Options{IncludeSelectableFields: true})
	if err != nil {
		return objects.OpenAPI{}, fmt.Errorf("describe %s: %w", v.gvk, err)
	}
	return objects.OpenAPI{V2: v2, V3: v3}, nil
}

// makeMerge returns the version's schema for server-side apply, from its OpenAPI document.
func (v *version) makeMerge() (typed.ParseableType, error) {
	doc, err := builder.BuildOpenAPIV3(v.crd, v.spec.Name, builder.Options{})
	if err != nil {
		return typed.ParseableType{}, fmt.Errorf("merge %s: %w", v.gvk, err)
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(doc.Components.Schemas, v.crd.Spec.PreserveUnknownFields)
	if err != nil {
		return typed.ParseableType{}, fmt.Errorf("merge %s: %w", v.gvk, err)
	}
	parser := typed.Parser{Schema: merge.Schema{Types: types.Types}}
	for name, model := range doc.Components.Schemas {
		if describes(model, v.gvk) {
			return parser.Type(name), nil
		}
	}
	return typed.DeducedParseableType, nil
}

// describes reports whether a model has the kind gvk.
func describes(model *spec.Schema, gvk schema.GroupVersionKind) bool {
	kinds, _ := model.Extensions["x-kubernetes-group-version-kind"].([]any)
	for _, k := range kinds {
		if m, ok := k.(map[string]any); ok && m["group"] == gvk.Group && m["version"] == gvk.Version && m["kind"] == gvk.Kind {
			return true
		}
	}
	return false
}
