package resource

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	devicecel "k8s.io/dynamic-resource-allocation/cel"
)

// features are the CEL features that Kubernetes enables by default.
var features = devicecel.Features{EnableConsumableCapacity: true}

// selectors checks CEL selectors of devices. Stored ones may use the environment of later versions.
func selectors(list []resourcev1.DeviceSelector, stored bool, at *field.Path) field.ErrorList {
	return items(list, resourcev1.DeviceSelectorsMaxSize, at, func(s *resourcev1.DeviceSelector, at *field.Path) field.ErrorList {
		if s.CEL == nil {
			return field.ErrorList{field.Required(at.Child("cel"), "")}
		}
		return expression(s.CEL.Expression, stored, at.Child("cel", "expression"))
	})
}

func expression(source string, stored bool, at *field.Path) field.ErrorList {
	if len(source) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(at, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	mode := environment.NewExpressions
	if stored {
		mode = environment.StoredExpressions
	}
	result := devicecel.GetCompiler(features).CompileCELExpression(source, devicecel.Options{EnvType: &mode})
	if wrong := result.Error; wrong != nil {
		switch wrong.Type {
		case apicel.ErrorTypeRequired:
			return field.ErrorList{field.Required(at, wrong.Detail)}
		case apicel.ErrorTypeInvalid:
			return field.ErrorList{field.Invalid(at, source, wrong.Detail)}
		case apicel.ErrorTypeInternal:
			return field.ErrorList{field.InternalError(at, wrong)}
		}
		return field.ErrorList{field.InternalError(at, fmt.Errorf("unsupported error type: %w", wrong))}
	}
	if result.MaxCost > resourcev1.CELSelectorExpressionMaxCost {
		return field.ErrorList{field.Forbidden(at, "too complex, exceeds cost limit")}
	}
	return nil
}
