package apiextensions

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// warnings warns of unknown formats; in an update only of new ones.
func warnings(crd, old *apiextensionsv1.CustomResourceDefinition) []string {
	unknown := unknownFormats(crd)
	if old != nil {
		unknown = unknown.Difference(unknownFormats(old))
	}
	var out []string
	for _, format := range slices.Sorted(maps.Keys(unknown)) {
		out = append(out, fmt.Sprintf("unrecognized format %q", format))
	}
	return out
}

// unknownFormats returns the formats in a definition's schemas that Kubernetes does not support for their types.
func unknownFormats(crd *apiextensionsv1.CustomResourceDefinition) sets.Set[string] {
	out := sets.Set[string]{}
	version := environment.DefaultCompatibilityVersion()
	var add func(*apiextensionsv1.JSONSchemaProps)
	add = func(s *apiextensionsv1.JSONSchemaProps) {
		if s.Format != "" {
			props := spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}
			out.Insert(validation.GetUnrecognizedFormats(&spec.Schema{SchemaProps: props}, version)...)
		}
		for inside := range schemasIn(s) {
			add(inside)
		}
	}
	inSchemas(crd, func(s *apiextensionsv1.JSONSchemaProps, _ *field.Path) field.ErrorList {
		add(s)
		return nil
	})
	return out
}
