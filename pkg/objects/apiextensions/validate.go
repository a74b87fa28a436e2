package apiextensions

import (
	"context"
	"fmt"

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
	if !same {
		if errs := append(validateValues(crd), validateWork(crd)...); len(errs) > 0 {
			return errs
		}
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
	return inSchemas(crd, func(s *apiextensionsv1.JSONSchemaProps, at *field.Path) field.ErrorList {
		return rulesWork(s, work, at)
	})
}

// inSchemas returns the errors of the first version whose schema has any.
func inSchemas(crd *apiextensionsv1.CustomResourceDefinition, check func(*apiextensionsv1.JSONSchemaProps, *field.Path) field.ErrorList) field.ErrorList {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		at := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		if errs := check(v.Schema.OpenAPIV3Schema, at); len(errs) > 0 {
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

// maxValues bounds the sum of the lengths of the values in a definition's schemas, where each counts minValue at least. The library
// decodes, copies, prunes and compares them many times. Kubernetes does not bound them.
const (
	maxValues = 256 << 10
	minValue  = 16
)

// validateValues refuses a definition whose defaults, enums and examples are too large.
func validateValues(crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	left := maxValues
	return inSchemas(crd, func(s *apiextensionsv1.JSONSchemaProps, at *field.Path) field.ErrorList {
		if left -= sizeOfValues(s); left >= 0 {
			return nil
		}
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf(
			"the defaults, enums and examples are too large: together they may have %d bytes, where each value counts at least %d", maxValues, minValue))}
	})
}

func sizeOfValues(s *apiextensionsv1.JSONSchemaProps) int {
	sum := 0
	for _, v := range []*apiextensionsv1.JSON{s.Default, s.Example} {
		if v != nil {
			sum += max(len(v.Raw), minValue)
		}
	}
	for _, v := range s.Enum {
		sum += max(len(v.Raw), minValue)
	}
	for _, inside := range schemasIn(s) {
		sum += sizeOfValues(inside)
	}
	return sum
}

// schemasIn returns the schemas directly inside one that may have rules or values.
func schemasIn(s *apiextensionsv1.JSONSchemaProps) []*apiextensionsv1.JSONSchemaProps {
	var out []*apiextensionsv1.JSONSchemaProps
	for _, properties := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, p := range properties {
			out = append(out, &p)
		}
	}
	if s.Items != nil {
		if s.Items.Schema != nil {
			out = append(out, s.Items.Schema)
		}
		for i := range s.Items.JSONSchemas {
			out = append(out, &s.Items.JSONSchemas[i])
		}
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
