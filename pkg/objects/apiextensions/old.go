package apiextensions

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves v1beta1. It is here because articles and books use it.
var oldDefinitions = []objects.Version[*apiextensionsv1.CustomResourceDefinition]{{
	Group: "apiextensions.k8s.io", Version: "v1beta1",
	Deprecated: objects.RemovalWarning("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", &apiextensionsv1beta1.CustomResourceDefinition{}),
	New:        func() runtime.Object { return &apiextensionsv1beta1.CustomResourceDefinition{} },
	NewList:    func() runtime.Object { return &apiextensionsv1beta1.CustomResourceDefinitionList{} },
	Default: func(obj runtime.Object) {
		apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(obj.(*apiextensionsv1beta1.CustomResourceDefinition))
	},
	To:   fromOld,
	From: toOld,
}}

func fromOld(obj runtime.Object) (*apiextensionsv1.CustomResourceDefinition, error) {
	old, ok := obj.(*apiextensionsv1beta1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("%T is no definition in v1beta1", obj)
	}
	mid, out := &apiextensions.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(old.DeepCopy(), mid, nil); err != nil {
		return nil, err
	}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(mid, out, nil); err != nil {
		return nil, err
	}
	modernize(&out.Spec)
	return out, nil
}

func toOld(crd *apiextensionsv1.CustomResourceDefinition) (runtime.Object, error) {
	mid, err := internal(crd.DeepCopy())
	if err != nil {
		return nil, err
	}
	out := &apiextensionsv1beta1.CustomResourceDefinition{}
	return out, apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(mid, out, nil)
}

// modernize converts the v1beta1 fields that v1 expresses in schemas: preserveUnknownFields, and a missing schema. It
// copies schemas that versions share.
func modernize(spec *apiextensionsv1.CustomResourceDefinitionSpec) {
	if !spec.PreserveUnknownFields {
		return
	}
	spec.PreserveUnknownFields = false
	for i := range spec.Versions {
		v := &spec.Versions[i]
		v.Schema = v.Schema.DeepCopy()
		if v.Schema == nil {
			v.Schema = &apiextensionsv1.CustomResourceValidation{}
		}
		if v.Schema.OpenAPIV3Schema == nil {
			v.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{}
		}
		root := v.Schema.OpenAPIV3Schema
		root.Type = "object"
		metadata, described := root.Properties["metadata"]
		keepUnknown(root)
		if described { // pruning is on
			root.Properties["metadata"] = metadata
		}
	}
}

// keepUnknown sets the implied types of a schema and its fields, and preserves unknown fields of
// objects.
func keepUnknown(s *apiextensionsv1.JSONSchemaProps) {
	switch {
	case s.Type != "" || s.XIntOrString:
	case s.Properties != nil || s.AdditionalProperties != nil:
		s.Type = "object"
	case s.Items != nil:
		s.Type = "array"
	default:
		s.XPreserveUnknownFields = new(true)
	}
	if s.Type == "object" && s.AdditionalProperties == nil {
		s.XPreserveUnknownFields = new(true)
	}
	for name, field := range s.Properties {
		keepUnknown(&field)
		s.Properties[name] = field
	}
	if s.Items != nil && s.Items.Schema != nil {
		keepUnknown(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		keepUnknown(s.AdditionalProperties.Schema)
	}
}
