package apiextensions

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validate(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	ctx := context.Background() //nolint:forbidigo // validation is not cancelled
	same := old != nil && equality.Semantic.DeepEqual(&crd.Spec, &old.Spec)
	if errs := validateWork(crd); !same && len(errs) > 0 {
		return errs
	}
	if old != nil {
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

// validateWork refuses a definition with too many rules. The library compiles each of them.
func validateWork(crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	work := check.NewWork()
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		at := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		if errs := rulesWork(v.Schema.OpenAPIV3Schema, work, at); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

func rulesWork(s *apiextensionsv1.JSONSchemaProps, work *check.Work, at *field.Path) field.ErrorList {
	for _, rule := range s.XValidations {
		for _, source := range []string{rule.Rule, rule.MessageExpression} {
			if source == "" {
				continue
			}
			if ok, errs := work.Compile(source, at); !ok {
				return errs
			}
		}
	}
	for _, inside := range schemasIn(s) {
		if errs := rulesWork(inside, work, at); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// schemasIn returns the schemas directly inside one that may have rules.
func schemasIn(s *apiextensionsv1.JSONSchemaProps) []*apiextensionsv1.JSONSchemaProps {
	var out []*apiextensionsv1.JSONSchemaProps
	for _, p := range s.Properties {
		out = append(out, &p)
	}
	if s.Items != nil && s.Items.Schema != nil {
		out = append(out, s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out = append(out, s.AdditionalProperties.Schema)
	}
	for _, all := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range all {
			out = append(out, &all[i])
		}
	}
	if s.Not != nil {
		out = append(out, s.Not)
	}
	return out
}
