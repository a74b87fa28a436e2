package apiextensions

import (
	"context"
	"fmt"
	"iter"

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
		if errs := append(append(validateNumber(crd), validateValues(crd)...), validateWork(crd)...); len(errs) > 0 {
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

// validateStatus validates without the spec, which an update of the status does not change.
func validateStatus(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	now, was := *crd, *old
	now.Spec, was.Spec = apiextensionsv1.CustomResourceDefinitionSpec{}, apiextensionsv1.CustomResourceDefinitionSpec{}
	return compare(&now, &was, validation.ValidateUpdateCustomResourceDefinitionStatus)
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
	for inside := range schemasIn(s) {
		if errs := rulesWork(inside, work, at); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// maxSchemas bounds the schemas in a definition. The library converts, copies and compares each many times, and makes several errors of an
// invalid one. Kubernetes does not bound their number.
const maxSchemas = 20_000

// validateNumber refuses a definition with too many schemas.
func validateNumber(crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	left := maxSchemas
	return inSchemas(crd, func(s *apiextensionsv1.JSONSchemaProps, at *field.Path) field.ErrorList {
		if left -= numberOf(s); left >= 0 {
			return nil
		}
		return field.ErrorList{field.TooMany(at, maxSchemas-left, maxSchemas)}
	})
}

func numberOf(s *apiextensionsv1.JSONSchemaProps) int {
	n := 1
	for inside := range schemasIn(s) {
		n += numberOf(inside)
	}
	return n
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

// hasValues reports whether a definition's schemas have defaults, enums or examples, and not too many.
func hasValues(crd *apiextensionsv1.CustomResourceDefinition) bool {
	sum := 0
	inSchemas(crd, func(s *apiextensionsv1.JSONSchemaProps, _ *field.Path) field.ErrorList {
		sum += sizeOfValues(s)
		return nil
	})
	return sum > 0 && sum <= maxValues
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
	for inside := range schemasIn(s) {
		sum += sizeOfValues(inside)
	}
	return sum
}

// schemasIn iterates over the schemas directly inside s that may have rules, values or formats. A schema is valid only until the next iteration.
func schemasIn(s *apiextensionsv1.JSONSchemaProps) iter.Seq[*apiextensionsv1.JSONSchemaProps] {
	return func(yield func(*apiextensionsv1.JSONSchemaProps) bool) {
		for _, properties := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
			if len(properties) == 0 {
				continue // without the allocation below
			}
			var p apiextensionsv1.JSONSchemaProps // one for all: there may be tens of thousands
			for _, p = range properties {
				if !yield(&p) {
					return
				}
			}
		}
		for _, all := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
			for i := range all {
				if !yield(&all[i]) {
					return
				}
			}
		}
		if s.Items != nil {
			for i := range s.Items.JSONSchemas {
				if !yield(&s.Items.JSONSchemas[i]) {
					return
				}
			}
			if s.Items.Schema != nil && !yield(s.Items.Schema) {
				return
			}
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && !yield(s.AdditionalProperties.Schema) {
			return
		}
		if s.AdditionalItems != nil && s.AdditionalItems.Schema != nil && !yield(s.AdditionalItems.Schema) {
			return
		}
		for _, d := range s.Dependencies {
			if d.Schema != nil && !yield(d.Schema) {
				return
			}
		}
		if s.Not != nil {
			yield(s.Not)
		}
	}
}
