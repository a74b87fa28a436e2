package apiextensions

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validate(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	ctx := context.Background() //nolint:forbidigo // checks are not left off in the middle
	if old != nil {
		return compare(crd, old, func(now, was *apiextensions.CustomResourceDefinition) field.ErrorList {
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

// compare checks an update in the library's form.
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

// unreadable says that a value in a schema is no JSON, which only binary encodings can hold.
func unreadable(err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("spec", "versions"), field.OmitValueType{}, err.Error())}
}
