package apiextensions

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validate(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	ctx := context.Background() //nolint:forbidigo // validation is not cancelled
	if old != nil {
		same := equality.Semantic.DeepEqual(&crd.Spec, &old.Spec)
		return compare(crd, old, func(now, was *apiextensions.CustomResourceDefinition) field.ErrorList {
			if same {
				bare(now)
				bare(was)
			}
			return validation.ValidateCustomResourceDefinitionUpdate(ctx, now, was)
		})
	}
	now, err := internal(crd)
	if err != nil {
		return unreadable(err)
	}
	return validation.ValidateCustomResourceDefinition(ctx, now)
}

func validateStatus(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return compare(crd, old, validation.ValidateUpdateCustomResourceDefinitionStatus)
}

// compare checks an update with the library's types.
func compare(crd, old *apiextensionsv1.CustomResourceDefinition, check func(now, was *apiextensions.CustomResourceDefinition) field.ErrorList) field.ErrorList {
	now, err := internal(crd)
	if err != nil {
		return unreadable(err)
	}
	was, err := internal(old)
	if err != nil {
		return unreadable(err)
	}
	return check(now, was)
}

// bare removes the schemas and the fields that are checked against them: unchanged schemas are not checked again, which
// would take a second for schemas with many rules.
func bare(crd *apiextensions.CustomResourceDefinition) {
	crd.Spec.SelectableFields = nil
	crd.Spec.Validation = &apiextensions.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema, crd.Spec.Versions[i].SelectableFields = nil, nil
	}
}

// unreadable returns the error of a value in a schema that is not JSON, which only protobuf can carry.
func unreadable(err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("spec", "versions"), field.OmitValueType{}, err.Error())}
}
